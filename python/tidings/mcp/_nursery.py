"""Where watched calls run: a task group that lives as long as the server, not as long as a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
from mcp.server.lowlevel.server import Server

from .. import ClosedError, Hub, _port
from ._opening import opening_of
from ._trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ._calls import WatchedCall

T = TypeVar("T")

_GRACE: Final = 3.0
"""Seconds the open calls have at a shutdown to record it (the hub itself waits at most 2 for the disk)."""

_FLUSH: Final = 2.0
"""Seconds a server that goes down waits for what it said to be stored."""


class Nursery:
    """The running calls of one server lifespan."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self._calls: set[WatchedCall] = set()
        self._empty = anyio.Event()
        self.closing = False
        """Whether the server is going down."""

    def desk(self, make: Callable[[anyio.abc.TaskGroup], T]) -> T:
        """Make something that runs tasks of its own as long as the server lives."""
        return make(self._tasks)

    def start(self, call: WatchedCall) -> None:
        """Run `call` in a task of its own, with the context variables of the caller."""
        self._calls.add(call)
        self._tasks.start_soon(self._run, call)

    def serve(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something that is there for the calls, and ends after them with the server. It must not raise."""
        self._tasks.start_soon(run)

    async def _run(self, call: WatchedCall) -> None:
        try:
            await call.run()
        finally:
            self._calls.discard(call)
            if self.closing and not self._calls:
                self._empty.set()

    async def shut_down(self) -> None:
        """End the open calls as failed, reason `shutdown`; wait for that only for a moment."""
        self.closing = True
        if not self._calls:
            return
        for call in tuple(self._calls):
            call.shut_down()
        with anyio.move_on_after(_GRACE, shield=True):
            await self._empty.wait()


class Nurseries:
    """The nurseries of one server: one for each lifespan that is now open, on whichever event loop."""

    def __init__(self, hub: Hub, trouble: Trouble) -> None:
        self._hub = hub
        self._trouble = trouble
        self._open: list[tuple[object, object, Nursery]] = []

    def current(self, state: object) -> Nursery | None:
        """The nursery of the lifespan that yielded `state`; else another one of this event loop.

        None when no lifespan is open on it or the server is going down.
        """
        loop = anyio.lowlevel.current_token()
        found: Nursery | None = None
        for token, yielded, nursery in self._open:
            if token == loop and not nursery.closing:
                found = nursery
                if yielded is state:
                    return nursery
        return found

    @property
    def serving(self) -> bool:
        """Whether any lifespan is open."""
        return bool(self._open)

    def around(
        self, lifespan: Callable[[Server[Any]], AbstractAsyncContextManager[Any]], *, once: bool = False
    ) -> Callable[[Server[Any]], AbstractAsyncContextManager[Any]]:
        """A lifespan that also opens the hub and keeps a nursery (`once`: unless one is kept on this event loop already).

        The nursery closes before the inner lifespan, whose resources the tools use.
        """

        @asynccontextmanager
        async def wrapped(server: Server[Any]) -> AsyncIterator[Any]:
            async with lifespan(server) as state:
                if once and self.current(state) is not None:
                    yield state
                else:
                    async with self.opened(state):
                        yield state

        return wrapped

    @asynccontextmanager
    async def opened(self, state: object) -> AsyncIterator[None]:
        """Open the hub and keep a nursery for the lifespan that yielded `state`.

        The hub is opened so that what a server that died left undone is done without waiting for a first call.
        """
        async with anyio.create_task_group() as tasks:
            _port.attend()
            opening = opening_of(self._hub)
            await opening.first()
            tasks.start_soon(opening.go_on)
            tasks.start_soon(self._serve_routes)
            nursery = Nursery(tasks)
            entry = (anyio.lowlevel.current_token(), state, nursery)
            self._open.append(entry)
            try:
                yield
            finally:
                await nursery.shut_down()
                self._open.remove(entry)
                tasks.cancel_scope.cancel()
                if opening.is_open:
                    await self._flush()

    async def _serve_routes(self) -> None:
        if not self._hub.route_types:
            return
        opening = opening_of(self._hub)
        await opening.go_on()
        try:
            await self._hub.serve_routes()
        except Exception as error:
            self._trouble.report("deliveries to this process's own handlers stopped", error)

    async def _flush(self) -> None:
        """Have everything on disk that was appended so far.

        The end of the process is too late for it: uvicorn dies of the very signal that stopped it, so that nothing
        registered for the end is called.
        """
        what = "the server goes down and its store does not take what is left, which is lost with the process"
        try:
            with anyio.fail_after(_FLUSH, shield=True):
                # A commit that has to be on disk takes along everything before it, whosever it is.
                await self._hub.new_writer("io.tidings", "flush").flush("disk")
        except ClosedError:
            pass  # it flushed when it was closed
        except Exception as error:
            self._trouble.report(what, error)

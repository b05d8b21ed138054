"""Writing what the core hands out: for each event loop one outbox, and one task that empties it.

The core decides who is told what and how often. Here is only who writes it, and what becomes of a connection that does
not take it: it loses its place, and the others do not notice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import anyio
import anyio.abc

from .. import ClosedError, ForkedError, Hub, TidingsError
from .._native import Outbox
from .._port import wait
from ._nursery import Nurseries, Nursery
from ._trouble import Trouble

DEADLINE: Final = 10.0
"""Seconds a connection may take for what was handed out for it."""

_BATCH: Final = 1024

_LOST: Final = "a notification could not be written"


class Writer(Protocol):
    """Writes to one connection."""

    async def write(self, method: str, params: dict[str, Any] | None) -> None:
        """Write one notification. May raise and may be cancelled: then the connection has failed."""

    def failed(self) -> None:
        """The connection did not take a notification, or not in time: it is told nothing more."""

    def finished(self) -> None:
        """Its listener has ended in order, and everything before was written."""


class Desk:
    """The outbox of one event loop and the writers of its connections."""

    def __init__(self, hub: Hub, tasks: anyio.abc.TaskGroup, trouble: Trouble, deadline: float) -> None:
        self._hub = hub
        self._tasks = tasks
        self.trouble = trouble
        self._deadline = deadline
        self._writers: dict[int, Writer] = {}
        self.outbox: Outbox = hub._native.outbox()
        tasks.start_soon(self._pump)

    def add(self, writer: Writer, principal: str | None) -> int:
        """A place for a connection. May raise what the hub raises."""
        sink = self.outbox.add_sink(principal, self._deadline)
        self._writers[sink] = writer
        return sink

    def drop(self, sink: int) -> None:
        """The connection is gone, or wants no more. Twice is no error."""
        if self._writers.pop(sink, None) is not None:
            self.outbox.drop_sink(sink)

    def __len__(self) -> int:
        return len(self._writers)

    async def _pump(self) -> None:
        try:
            while True:
                await wait(self.outbox.ready())
                by_sink: dict[int, list[tuple[str, str | None]]] = {}
                for sink, _, method, params in self.outbox.take(_BATCH):
                    if method is not None:
                        by_sink.setdefault(sink, []).append((method, params))
                    elif (writer := self._writers.get(sink)) is not None:
                        writer.finished()
                for sink, frames in by_sink.items():
                    if (writer := self._writers.get(sink)) is not None:
                        self._tasks.start_soon(self._write, sink, writer, frames)
                    else:
                        self.outbox.drop_sink(sink)
        except (ClosedError, ForkedError):
            pass
        except TidingsError as error:
            self.trouble.report("notifications are written no more", error)

    async def _write(self, sink: int, writer: Writer, frames: list[tuple[str, str | None]]) -> None:
        try:
            with anyio.fail_after(self._deadline):
                for method, params in frames:
                    await writer.write(method, None if params is None else json.loads(params))
        except Exception as error:
            self.trouble.swallow(_LOST, error)
        else:
            if self.outbox.written(sink, len(frames)):
                return
        self.outbox.broke(sink)
        if self._writers.pop(sink, None) is not None:
            self.outbox.drop_sink(sink)
            writer.failed()


class Desks:
    """The desks of one server: one for each lifespan that is open."""

    def __init__(self, hub: Hub, nurseries: Nurseries, trouble: Trouble, deadline: float = DEADLINE) -> None:
        self.hub = hub
        self.trouble = trouble
        self._nurseries = nurseries
        self._deadline = deadline
        self._desks: WeakKeyDictionary[Nursery, Desk] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def current(self, state: object) -> Desk | None:
        """The desk of the lifespan that yielded `state`. None: none is open here, so that nobody could write.

        May raise what the hub raises.
        """
        nursery = self._nurseries.current(state)
        if nursery is None:
            return None
        with self._lock:
            desk = self._desks.get(nursery)
            if desk is None:
                desk = self._desks[nursery] = nursery.desk(self._make)
            return desk

    def _make(self, tasks: anyio.abc.TaskGroup) -> Desk:
        return Desk(self.hub, tasks, self.trouble, self._deadline)

    def each(self) -> Iterator[Desk]:
        """The desks there are."""
        with self._lock:
            desks = list(self._desks.values())
        return iter(desks)

    @property
    def serving(self) -> bool:
        """Whether any lifespan is open: before that there is nobody to tell, and nothing to open a store for."""
        return self._nurseries.serving

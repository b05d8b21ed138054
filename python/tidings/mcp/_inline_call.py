"""A call that nobody asked to be watched and that is nothing but itself, until it becomes a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import anyio

from .. import Call, Ended

_BUFFER: Final = 256 * 1024
"""Bytes of events after which waiting for the tool is over: they have to go somewhere."""


class _Unrecorded(NamedTuple):
    """The end of a call that left no trace."""

    outcome: str
    reason: str | None = None
    ours: bool = True
    committed: bool = False
    undelivered: str | None = None


class InlineCall:
    """Has the methods of `Call`. What is emitted waits here, and goes to the call that `become_task` begins.

    A call that ends before that costs the store nothing.
    """

    def __init__(self, begin: Callable[[float, bool], Awaitable[Call]]) -> None:
        self._begin = begin
        self._events: list[tuple[str, bytes]] = []
        self._bytes = 0
        self._call: Call | None = None
        self._begun = anyio.Event()
        self.full = anyio.Event()
        """Set once more events wait than should."""

    @property
    def id(self) -> str | None:
        """The call's id, once there is one."""
        return None if self._call is None else self._call.id

    @property
    def begun(self) -> bool:
        """Whether it has become a task."""
        return self._call is not None

    def emit(self, type: str, payload: bytes) -> None:
        """Append an event."""
        if self._call is not None:
            self._call.emit(type, payload)
            return
        self._events.append((type, payload))
        self._bytes += len(type) + len(payload)
        if self._bytes > _BUFFER and not self.full.is_set():
            self.full.set()

    def fire(self, name: str, payload: bytes) -> None:
        """Fire a trigger. There are no routes to tell, so what is left of it is its event."""
        self.emit(name, payload)

    async def become_task(self, ttl: float, *, bound: bool = True) -> bool:
        """Begin a call that is a task. On disk when this returns."""
        call = await self._begin(ttl, bound)
        # No await between the last event that waited and the first that does not.
        for kind, payload in self._events:
            call.emit(kind, payload)
        self._events.clear()
        self._call = call
        self._begun.set()
        return True

    async def ask(self, requests: bytes) -> bytes:
        """Ask the task's client for input. Only a task has one that could answer."""
        assert self._call is not None
        return await self._call.ask(requests)

    def disconnected(self) -> None:
        """The client is gone. A plain call ends with its request, a task's request has ended anyway."""

    async def complete(self, result: bytes) -> Ended | Any:
        """The tool returned this result."""
        return _Unrecorded("completed") if self._call is None else await self._call.complete(result)

    async def fail(self, *, error: bytes | None = None, reason: str | None = None) -> Ended | Any:
        """The call failed."""
        return _Unrecorded("failed") if self._call is None else await self._call.fail(error=error, reason=reason)

    async def cancel(self, reason: str | None = None) -> Ended | Any:
        """Somebody cancelled the call."""
        return _Unrecorded("cancelled") if self._call is None else await self._call.cancel(reason)

    async def ended(self) -> Ended:
        """Wait until the task has ended, whoever ends it."""
        await self._begun.wait()
        assert self._call is not None
        return await self._call.ended()

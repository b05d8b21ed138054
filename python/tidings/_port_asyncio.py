"""Ports of asyncio's loops, and of those that do as it does (uvloop)."""

from __future__ import annotations

import asyncio
import threading
from typing import TypeVar
from weakref import WeakKeyDictionary

from . import _log
from ._native import Pending, Port, log_waits

T = TypeVar("T")


class AsyncioPort:
    """The port of one loop. The loop refers to it (by its reader), and it does not refer to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._port = Port()
        self._waiters: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self._port.fileno(), self._drain)

    async def wait(self, pending: Pending[T]) -> T:
        waiter = asyncio.get_running_loop().create_future()
        token = self._port.park(pending)
        self._waiters[token] = waiter
        try:
            await waiter
        except BaseException:
            self._waiters.pop(token, None)
            # Also when it is done already: its value must not get lost with nobody to take it.
            self._port.cancel(token)
            raise
        value: T = self._port.take(token)
        return value

    def _drain(self) -> None:
        for token in self._port.drain():
            waiter = self._waiters.pop(token, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        if log_waits():
            _log.flush()

    def close(self) -> None:
        """Cancels what waits. Only for a loop that is closed: it no longer watches the descriptor."""
        self._waiters.clear()
        self._port.close()


_ports: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncioPort] = WeakKeyDictionary()
_lock = threading.Lock()
#: Ports of the process that forked this one. Dropping them would be safe; keeping them is safer.
_inherited: list[AsyncioPort] = []


def current() -> AsyncioPort | None:
    """The port of the loop that runs in this thread."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    with _lock:
        port = _ports.get(loop)
        if port is None:
            for closed in [other for other in _ports if other.is_closed()]:
                _ports.pop(closed).close()
            port = _ports[loop] = AsyncioPort(loop)
        return port


def after_fork() -> None:
    """In a forked child: forgets the parent's ports without touching its descriptors."""
    global _ports, _lock
    _inherited.extend(_ports.values())
    _ports, _lock = WeakKeyDictionary(), threading.Lock()

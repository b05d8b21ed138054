"""Waiting: how an `async def` of this library waits under asyncio (uvloop too), trio, or in a thread without a loop.

Each event loop that waits has one port: a descriptor that the loop watches, and a list of what is done. Operations go on
in the loop's own thread, when the port is drained; threads of the core only put a number on the list. What is done at
once touches neither. A port is made at first need and goes with its loop.

Windows' default loop (Proactor) cannot watch descriptors; the package does not support Windows.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypeVar

from . import _log
from ._native import Pending, Port, log_waits

T = TypeVar("T")

#: Seconds between two looks for a signal (Ctrl-C) while a thread waits; signals usually end a wait at once.
SLICE = 0.1


class Waiter(Protocol):
    """Something that waits for operations."""

    async def wait(self, pending: Pending[T]) -> T:
        """Waits until the operation is done and returns its value. Cancelling the wait cancels the operation."""


class _ThreadState(threading.local):
    port: BlockingPort | None = None


_thread = _ThreadState()


async def wait(started: T | Pending[T]) -> T:
    """The value of an operation: at once, or when it is done."""
    if isinstance(started, Pending):
        return await _current().wait(started)
    return started


def _current() -> Waiter:
    if _thread.port is not None:
        return _thread.port
    # A loop that nobody imported does not run. trio first: as a guest it runs on top of asyncio.
    if "trio" in sys.modules:
        from . import _port_trio

        trio_port = _port_trio.current()
        if trio_port is not None:
            return trio_port
    if "asyncio" in sys.modules:
        from . import _port_asyncio

        asyncio_port = _port_asyncio.current()
        if asyncio_port is not None:
            return asyncio_port
    raise RuntimeError("nothing runs here that tidings can wait in: use asyncio, uvloop, trio or hub.run()")


def attend() -> None:
    """Gives the loop that runs here its port, if one runs: through it the core's log lines come when they are written,
    and not only with the next append."""
    try:
        _current()
    except RuntimeError:
        pass


class BlockingPort:
    """Waits in this thread, for programs without an event loop."""

    def __init__(self) -> None:
        self._port = Port()

    async def wait(self, pending: Pending[T]) -> T:
        token = self._port.park(pending)
        try:
            while token not in self._port.drain():
                if log_waits():
                    _log.flush()
                # Without the GIL; raises KeyboardInterrupt in the main thread.
                self._port.wait(SLICE)
            value: T = self._port.take(token)
        except BaseException:
            self._port.cancel(token)
            raise
        return value

    def close(self) -> None:
        self._port.close()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs an async function of this library to its end, in this thread."""
    if _loop_runs():
        coroutine.close()
        raise RuntimeError("hub.run() is for threads without an event loop; here, await instead")
    before, port = _thread.port, BlockingPort()
    _thread.port = port
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    finally:
        _thread.port = before
        port.close()
        coroutine.close()
    raise RuntimeError("hub.run() runs what awaits this library only; use asyncio.run() or trio.run() for the rest")


def loop_kind() -> Literal["trio", "asyncio", "thread"]:
    """What an async function of this library runs in. Raises RuntimeError where it cannot."""
    waiter = _current()
    if isinstance(waiter, BlockingPort):
        return "thread"
    return "trio" if type(waiter).__name__ == "TrioPort" else "asyncio"


def _loop_runs() -> bool:
    if "asyncio" in sys.modules:
        import asyncio

        # The public way raises; this is called by people, not in a loop's hot path.
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            return True
    if "trio" in sys.modules:
        from . import _port_trio

        return _port_trio.runs()
    return False


def after_fork() -> None:
    """In a forked child: what waited in the parent waits there. Its loops' ports are the parent's, and left alone."""
    _thread.port = None
    if "tidings._port_asyncio" in sys.modules:
        from . import _port_asyncio

        _port_asyncio.after_fork()
    if "tidings._port_trio" in sys.modules:
        from . import _port_trio

        _port_trio.after_fork()

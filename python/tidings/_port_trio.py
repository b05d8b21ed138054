"""Ports of trio's runs."""

from __future__ import annotations

from typing import TypeVar

import trio

from . import _log
from ._native import Pending, Port, log_waits

T = TypeVar("T")


class TrioPort:
    """The port of one run, drained by a system task."""

    def __init__(self) -> None:
        self._port = Port()
        self._waiters: dict[int, trio.lowlevel.Task] = {}
        self._open = True

    async def wait(self, pending: Pending[T]) -> T:
        token = self._port.park(pending)
        self._waiters[token] = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._waiters[token]
            self._port.cancel(token)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        value: T = self._port.take(token)
        return value

    async def serve(self) -> None:
        try:
            while True:
                await trio.lowlevel.wait_readable(self._port.fileno())
                for token in self._port.drain():
                    task = self._waiters.pop(token, None)
                    if task is not None:
                        trio.lowlevel.reschedule(task)
                if log_waits():
                    _log.flush()
        finally:
            # The run ends. What it still does (closing async generators) may wait once more, at a new port.
            _of_this_run.set(None)
            self._port.close()


_of_this_run: trio.lowlevel.RunVar[TrioPort | None] = trio.lowlevel.RunVar("tidings_port", None)


def runs() -> bool:
    """Whether this code runs in a trio task."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def current() -> TrioPort | None:
    """The port of the run that this code runs in."""
    if not runs():
        return None
    port = _of_this_run.get()
    if port is None:
        port = TrioPort()
        trio.lowlevel.spawn_system_task(port.serve)
        _of_this_run.set(port)
    return port


def after_fork() -> None:
    """In a forked child: the parent's runs do not go on here, and nothing refers to them but themselves."""

"""Running a coroutine beside everything else, on whichever event loop is running."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

_running: Final[set[asyncio.Task[None]]] = set()


def spawn(function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    """Run `function`, which must not raise, until it ends or the loop does. It has no context variables of the caller's."""
    nothing = contextvars.Context()
    trio = sys.modules.get("trio")
    if trio is not None and _in_trio(trio):
        trio.lowlevel.spawn_system_task(function, *args, context=nothing)
        return
    loop = asyncio.get_running_loop()
    task = nothing.run(lambda: loop.create_task(function(*args)))
    _running.add(task)  # the loop itself holds it only weakly
    task.add_done_callback(_running.discard)


def _in_trio(trio: Any) -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True

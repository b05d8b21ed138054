"""Keeps mcp 1.x able to start tasks in one session after another has ended.

`TaskSupport`, of which a server has one, keeps the task group of the session that began last, and none once *any* session has
ended: ``run_task()`` then fails with "TaskSupport not running" in all others. Its `run` is replaced, once and at class
level, for supports that have a store of ours.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.server.experimental.task_support import TaskSupport

_MARK: Final = "__tidings_groups__"


def install(is_ours: Callable[[object], bool]) -> None:
    """Replace `TaskSupport.run` where `is_ours` its store. Doing it twice does nothing."""
    original = TaskSupport.run
    if hasattr(original, _MARK):
        return

    @asynccontextmanager
    async def run(self: TaskSupport) -> AsyncIterator[None]:
        if not is_ours(self.store):
            async with original(self):
                yield
            return
        groups: list[Any] = self.__dict__.setdefault(_MARK, [])
        async with anyio.create_task_group() as tasks:
            groups.append(tasks)
            self._task_group = tasks
            try:
                yield
            finally:
                groups.remove(tasks)
                self._task_group = groups[-1] if groups else None

    setattr(run, _MARK, True)
    TaskSupport.run = run

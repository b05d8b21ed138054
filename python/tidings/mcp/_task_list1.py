"""Has mcp 1.x list the tasks of a principal.

The SDK's own handler of ``tasks/list`` shows nothing but tasks whose ids carry its mark of the asking session, which a
principal's do not: they are the principal's in every session. Where the store is ours, `enable_tasks` registers another one
in its place, once and at class level; a handler of the server's own stays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from mcp.server.lowlevel.experimental import ExperimentalHandlers
from mcp.shared.exceptions import McpError
from mcp.shared.experimental.tasks.store import TaskStore
from mcp.types import INVALID_PARAMS, ErrorData, ListTasksRequest, ListTasksResult, ServerResult

_MARK: Final = "__tidings_list__"


def install(is_ours: Callable[[object], bool]) -> None:
    """Replace `enable_tasks` where `is_ours` its store. Doing it twice does nothing."""
    original = ExperimentalHandlers.enable_tasks
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def enable_tasks(self: ExperimentalHandlers, store: TaskStore | None = None, queue: Any = None) -> Any:
        if store is not None and is_ours(store):
            self._request_handlers.setdefault(ListTasksRequest, _handler(store))
        return original(self, store, queue)

    setattr(enable_tasks, _MARK, True)
    ExperimentalHandlers.enable_tasks = enable_tasks


def _handler(store: TaskStore) -> Callable[..., Any]:
    async def list_tasks(request: ListTasksRequest) -> ServerResult:
        cursor = None if request.params is None else request.params.cursor
        try:
            tasks, after = await store.list_tasks(cursor)
        except ValueError as error:
            raise McpError(ErrorData(code=INVALID_PARAMS, message=str(error))) from error
        return ServerResult(ListTasksResult(tasks=tasks, nextCursor=after))

    return list_tasks

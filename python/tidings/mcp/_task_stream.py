"""``tasks/stream``: a task's events, replayed after a number and then live (SEP-2694, a draft)."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .. import AheadError, CursorError, Event, Gap, Hub, Stream, Task
from . import _compat
from ._task_limits import StreamLimits
from ._task_policy import Tasks

_EVENT_METHOD: Final = "notifications/tasks/event"
_RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
_EVENT_META: Final = "io.tidings/event"
_SLOTS: Final = "io.tidings/task-streams"

_MAX_SEQ: Final = 2**53 - 1
"""The greatest number that every JSON reader takes for itself."""


class TaskStream:
    """Serves the streams of one server.

    What the draft leaves open: `after` beyond the newest event is -32602 with ``data.reason = "ahead"`` and ``headSeq``
    (left out when there is no event yet); a reader that eviction overtakes while it reads is ended with ``events_gone``,
    never served with a hole; a connection that may hold one stream of a task is a legacy session, 2026-07-28 has none.
    """

    def __init__(self, hub: Hub, policy: Tasks) -> None:
        self._hub = hub
        self._policy = policy
        self._limits = StreamLimits(policy.streams, policy.resumes)

    async def serve(self, ctx: ServerRequestContext[Any, Any], asker: str, task_id: str, task: Task) -> None:
        """Send the events until the task has ended and all were sent. Raises the JSON-RPC errors of the draft."""
        after = _after(ctx)
        # A request that belongs to nobody has nothing but the task by which it could be told from others.
        client = task_id if asker.startswith("connection:") else asker
        with self._limits.stream(client, task_id):
            await self._serve(ctx, task_id, self._hub.stream(task.scope, task.name), after)

    async def _serve(
        self, ctx: ServerRequestContext[Any, Any], task_id: str, stream: Stream, after: int | None
    ) -> None:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self._send_all(ctx, task_id, stream, after)
            return
        # Forgotten with the connection; freed in the same step in which a cancelled request ends.
        slots: set[str] = _compat.connection(ctx.session).state.setdefault(_SLOTS, set())
        if task_id in slots:
            raise MCPError(
                INVALID_PARAMS, "This connection has a stream of the task; cancel it first", {"reason": "busy"}
            )
        slots.add(task_id)
        try:
            await self._send_all(ctx, task_id, stream, after)
        finally:
            slots.discard(task_id)

    async def _send_all(
        self, ctx: ServerRequestContext[Any, Any], task_id: str, stream: Stream, after: int | None
    ) -> None:
        outbound = _compat.request_outbound(ctx.session)
        try:
            tail = stream.tail(after)
        except AheadError as error:
            head = (await stream.read(limit=1)).head_seq
            data = {"reason": "ahead"} if head is None else {"reason": "ahead", "headSeq": head}
            raise MCPError(INVALID_PARAMS, "after lies beyond the newest event", data) from error
        except CursorError as error:
            # Its time is over since it was looked up.
            raise MCPError(INVALID_PARAMS, "Unknown task") from error
        async with tail:
            async for batch in tail.batches():
                for item in batch:
                    if isinstance(item, Gap):
                        raise self._events_gone(task_id, item)
                    await outbound.notify(_EVENT_METHOD, _params(task_id, item))

    def _events_gone(self, task_id: str, gap: Gap) -> Exception:
        data: dict[str, Any] = {"reason": "events_gone", "taskId": task_id}
        if gap.earliest_seq is not None:
            data["earliestSeq"] = gap.earliest_seq
        return MCPError(self._policy.events_gone_code, "Task events are no longer available", data)


def _after(ctx: ServerRequestContext[Any, Any]) -> int | None:
    params = ctx.params or {}
    if "after" not in params:
        return None
    after = params["after"]
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after <= _MAX_SEQ:
        raise MCPError(
            INVALID_PARAMS, "after must be an integer from 0 to 2^53 - 1; leave it out to begin at the start"
        )
    return after


def _params(task_id: str, event: Event) -> dict[str, Any]:
    meta: dict[str, Any] = {_RELATED_TASK: {"taskId": task_id}}
    if event.identity is not None:
        meta[_EVENT_META] = json.loads(event.identity)
    return {
        "seq": event.seq,
        "taskId": task_id,
        "type": event.type,
        "payload": json.loads(event.payload),
        "_meta": meta,
    }

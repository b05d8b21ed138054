"""Where tasks of the 2025-11-25 experiment are kept: `TaskStore`, for ``server.experimental.enable_tasks`` of mcp 1.x.

A task is a call of the hub. Its record is the call's row, so that it ends once, whoever ends it, and that a task whose
process died is `failed` and not at work for ever. What the experiment has besides, a status message and
``input_required``, stands in a stream beside the call's own events.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.exceptions import McpError
from mcp.shared.experimental.tasks.store import TaskStore as _Base
from mcp.types import (
    INTERNAL_ERROR,
    ErrorData,
    Result,
    Task,
    TaskMetadata,
    TaskStatus,
)
from mcp.types import GetTaskPayloadResult as Payload

from .. import (
    Call,
    ClosedError,
    CursorError,
    EndedError,
    Event,
    Hub,
    InvalidArgument,
    Stream,
    Tail,
    TidingsError,
    UnavailableError,
)
from .. import Task as Record
from . import _task_groups1, _task_list1
from ._aside import spawn
from ._opening import opening_of
from ._request1 import requestor
from ._task_ids1 import call_id_of, scope_of, task_id_of
from ._trouble import Trouble
from ._wire import dumps

T = TypeVar("T")

STATUS_EVENT: Final = "io.tidings.status"
"""On the call's own stream: its status or status message changed. Wakes who waits for that."""

_STATUS: Final = "status"
"""The newest event of this stream is the status of a task at work."""
_INDEX: Final = "tasks"
"""The stream of a principal's task ids, newest last."""
_TERMINAL: Final = ("completed", "failed", "cancelled")
_PAGE: Final = 50

_GRACE: Final = 3.0
"""Seconds a session that is over waits for its tasks to be ended."""


@dataclass(frozen=True)
class _Found:
    """A task, and what was last said about it beside the record."""

    call_id: str
    record: Record
    detail: dict[str, Any]
    newest: dict[str, Any]


@dataclass
class Running:
    """A task whose work runs in this process."""

    call: Call
    principal: str
    result: bytes | None = None


_running: Final[WeakKeyDictionary[Hub, dict[str, Running]]] = WeakKeyDictionary()


def running_of(hub: Hub) -> dict[str, Running]:
    """The tasks of this process, by their calls' ids; shared by the store and the queue on one hub."""
    return _running.setdefault(hub, {})


def find(hub: Hub, call_id: str) -> Record | None:
    """The task, if whoever asks may have it. Outside of a request, a task of this process."""
    own = running_of(hub).get(call_id)
    asker = _asker() or (None if own is None else own.principal)
    return None if asker is None else hub.task(call_id, principal=asker)


def _asker() -> str | None:
    ctx = request_ctx.get(None)
    return None if ctx is None else requestor(ctx)[0]


class TaskStore(_Base):
    """Keeps tasks in a hub: durable, found in every process on the store, theirs alone who asked for them.

    A task belongs to the authenticated principal, in any of their sessions, or else to the MCP session. It is kept until
    `ttl` seconds after its end; a client may ask for less. `poll` is how often, in seconds, a client should ask. One
    principal (callers without login or session share one count) has at most `max_running` at work.

    Raises ValueError for a number out of range, here, and `InvalidArgument` at the first task for a `ttl` longer than the hub
    keeps a closed stream.
    """

    def __init__(self, hub: Hub, *, ttl: float = 3600.0, poll: float = 0.5, max_running: int = 64) -> None:
        for name, seconds in (("ttl", ttl), ("poll", poll)):
            number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
            if not number or not math.isfinite(seconds) or seconds <= 0:
                raise ValueError(f"{name} must be a finite number of seconds above 0, not {seconds!r}")
        if isinstance(max_running, bool) or not isinstance(max_running, int) or max_running < 1:
            raise ValueError(f"max_running must be a count, 1 or more, not {max_running!r}")
        for sdk in (_task_groups1, _task_list1):
            sdk.install(lambda store: isinstance(store, TaskStore))
        self._hub = hub
        self._ttl = ttl
        self._poll = poll
        self._most = max_running
        self._counts: Counter[str] = Counter()
        self._trouble = Trouble()
        # What the work of each task that began here was last told; it holds that for as long as it may say more.
        self._work: WeakValueDictionary[str, Task] = WeakValueDictionary()

    # -- the SDK's interface

    async def create_task(self, metadata: TaskMetadata, task_id: str | None = None) -> Task:
        """Begin a task; on disk when this returns. Its id is ours; of `task_id` it keeps the SDK's mark of the session.

        Raises `McpError` for a principal with too many tasks, or when the store cannot take it.
        """
        ctx = request_ctx.get(None)
        if ctx is None:
            raise ValueError("a task is created inside the request that asked for it")
        principal, counted_as = requestor(ctx)
        if self._counts[counted_as] >= self._most:
            raise _error(f"Too many tasks at work: at most {self._most}", "limit")
        ttl = self._ttl if metadata.ttl is None else min(max(metadata.ttl, 0) / 1000, self._ttl)
        if not opening_of(self._hub).ready():
            raise self._failed(UnavailableError("the store is not open"))
        call = await self._wait(
            self._hub.begin_call(
                config=None,
                principal=principal,
                session=None,
                request_id=ctx.request_id,
                tool="tools/call",
                task_ttl=ttl,
            )
        )
        # An authenticated principal may ask in another session, which the SDK's mark would keep it from.
        scope = None if principal.startswith("auth:") else scope_of(task_id)
        shown = task_id_of(call.id, scope)
        self._counts[counted_as] += 1
        running_of(self._hub)[call.id] = Running(call, principal)
        spawn(self._follow, call, counted_as)
        # The work lives in the session; what it leaves open ends with it.
        ctx.session._exit_stack.push_async_callback(self._session_over, call)
        await self._wait(self._hub.stream(principal, _INDEX).append(dumps(shown)))
        task = await self.get_task(shown)
        if task is None:
            raise _error("The task could not be stored", "unavailable")
        self._work[shown] = task
        return task

    async def get_task(self, task_id: str) -> Task | None:
        """The task; None for one that never was, is over, or is somebody else's."""
        found = await self._find(task_id)
        return None if found is None else self._shown(task_id, found)

    async def update_task(
        self, task_id: str, status: TaskStatus | None = None, status_message: str | None = None
    ) -> Task:
        """Change a task's status or message, or end it.

        Raises ValueError for an unknown task, one that runs elsewhere and is to end otherwise than `cancelled`, and one to
        cancel that has ended. What the task's own work says never raises, as that would end the SDK's session: too late, it
        changes nothing and is told how the task ended.
        """
        own = self._work.get(task_id)
        try:
            task = await self._update(task_id, status, status_message)
        except Exception as error:
            if own is None or status == "cancelled":
                raise
            if not isinstance(error, ValueError):
                self._trouble.report("what a task came to could not be recorded", error)
            task = own.model_copy(update={} if status is None else {"status": status})
        if own is not None:
            self._work[task_id] = task
        return task

    async def _update(self, task_id: str, status: str | None, message: str | None) -> Task:
        found = await self._required(task_id)
        if found.record.status in _TERMINAL:
            if status == "cancelled" and found.record.status != status:
                raise ValueError(f"Cannot transition from terminal status '{found.record.status}'")
            return self._shown(task_id, found)
        own = running_of(self._hub).get(found.call_id)
        if message is not None or status not in (None, *_TERMINAL):
            await self._say(found, own, status, message)
        if status == "cancelled":
            await self._cancel(found.call_id, own)
        elif status in _TERMINAL:
            if own is None:
                raise ValueError(f"Task with ID {task_id} runs in another process")
            await self._end(own, status, message)
        return self._shown(task_id, await self._required(task_id))

    async def _cancel(self, call_id: str, own: Running | None) -> None:
        asker = _asker() or (own.principal if own is not None else "")
        await self._wait(self._hub.cancel_task(call_id, principal=asker))

    async def store_result(self, task_id: str, result: Result) -> None:
        """Keep the result until `update_task` ends the task, which puts both on record at once. Raises ValueError for no task."""
        own = running_of(self._hub).get(call_id_of(task_id) or "")
        if own is not None:
            own.result = dumps(result.model_dump(by_alias=True, mode="json", exclude_none=True))
        elif task_id not in self._work:
            await self._required(task_id)

    async def get_result(self, task_id: str) -> Result | None:
        """What the task came to. Raises `McpError` with the error of one that failed without a result."""
        found = await self._find(task_id)
        if found is None:
            return None
        if "result" in found.detail:
            return Payload.model_validate(found.detail["result"])
        if "error" in found.detail:
            raise McpError(ErrorData.model_validate(found.detail["error"]))
        own = running_of(self._hub).get(found.call_id)
        return None if own is None or own.result is None else Payload.model_validate_json(own.result)

    async def list_tasks(self, cursor: str | None = None) -> tuple[list[Task], str | None]:
        """The tasks of whoever asks, oldest first. Raises ValueError for a cursor that this gave nobody."""
        asker = _asker()
        if asker is None:
            return [], None
        if cursor is not None and not (cursor.isascii() and cursor.isdigit()):
            raise ValueError(f"Invalid cursor: {cursor}")
        index = self._hub.stream(asker, _INDEX)
        try:
            page = await self._wait(index.read(None if cursor is None else int(cursor), _PAGE))
        except CursorError as error:
            if cursor is None:
                return [], None
            raise ValueError(f"Invalid cursor: {cursor}") from error
        found = [await self.get_task(json.loads(event.payload)) for event in page.events]
        last = page.events[-1].seq if page.events else None
        more = last is not None and page.head_seq is not None and last < page.head_seq
        return [task for task in found if task is not None], str(last) if more else None

    async def delete_task(self, task_id: str) -> bool:
        """End the task if it is at work and show it to nobody from here on. False where there is none."""
        found = await self._find(task_id)
        if found is None:
            return False
        gone = dumps({"deleted": True, "at": _now()})
        await self._wait(self._status(found.call_id).append(gone, durability="disk"))
        await self._cancel(found.call_id, running_of(self._hub).get(found.call_id))
        return True

    async def wait_for_update(self, task_id: str) -> None:
        """Wait until the task's status or message changes, in whichever process, or it ends. Raises ValueError for no task."""
        found = await self._required(task_id)
        if found.record.status in _TERMINAL:
            return
        async with await tail_from_now(self._hub, found.record) as tail:
            async for item in tail:
                if isinstance(item, Event) and item.type == STATUS_EVENT:
                    return

    async def notify_update(self, task_id: str) -> None:
        """Nothing: who waits is woken by the hub."""

    # -- how it is done

    async def _find(self, task_id: str) -> _Found | None:
        call_id = call_id_of(task_id)
        if call_id is None:
            return None
        if not opening_of(self._hub).ready():
            raise self._failed(UnavailableError("the store is not open"))
        try:
            record = find(self._hub, call_id)
            newest = None if record is None else await self._newest(call_id)
        except TidingsError as error:
            raise self._failed(error) from error
        if record is None or (newest is not None and "deleted" in newest):
            return None
        return _Found(call_id, record, json.loads(record.json), newest or {})

    async def _required(self, task_id: str) -> _Found:
        found = await self._find(task_id)
        if found is None:
            raise ValueError(f"Task with ID {task_id} not found")
        return found

    def _shown(self, task_id: str, found: _Found) -> Task:
        detail, newest = found.detail, found.newest
        status = found.record.status
        if status == "working":
            status = newest.get("status", status)
        elif status == "completed" and detail["result"].get("isError"):
            status = "failed"  # so it is in this version; the extension has it otherwise
        message = newest.get("statusMessage")
        if message is None and "error" in detail:
            message = detail["error"].get("message")
        updated = [time_of(text) for text in (detail["lastUpdatedAt"], newest.get("at")) if text is not None]
        return Task(
            taskId=task_id,
            status=status,
            statusMessage=message,
            createdAt=time_of(detail["createdAt"]),
            lastUpdatedAt=max(updated),
            ttl=detail["ttlMs"],
            pollInterval=round(self._poll * 1000),
        )

    def _status(self, call_id: str) -> Stream:
        return self._hub.stream(f"call:{call_id}", _STATUS)

    async def _newest(self, call_id: str) -> dict[str, Any] | None:
        stream = self._status(call_id)
        try:
            head = (await stream.read(limit=1)).head_seq
            page = await stream.read(after=head - 1 if head else None)
        except CursorError:
            return None  # its status has never changed
        newest: dict[str, Any] | None = json.loads(page.events[-1].payload) if page.events else None
        return newest

    async def _say(self, found: _Found, own: Running | None, status: str | None, message: str | None) -> None:
        said = {**found.newest, "at": _now()}
        if status is not None and status not in _TERMINAL:
            said["status"] = status
        if message is not None:
            said["statusMessage"] = message
        try:
            await self._wait(self._status(found.call_id).append(dumps(said)))
            if own is not None:
                own.call.emit(
                    STATUS_EVENT, dumps({key: said[key] for key in ("status", "statusMessage") if key in said})
                )
        except (ClosedError, EndedError):
            pass  # it has just ended

    async def _end(self, own: Running, status: str, message: str | None) -> None:
        if own.result is not None:
            await self._wait(own.call.complete(own.result))
        elif status == "completed":
            await self._wait(own.call.complete(dumps({})))
        else:
            await self._wait(
                own.call.fail(error=dumps({"code": INTERNAL_ERROR, "message": message or "The task failed"}))
            )

    async def _follow(self, call: Call, counted_as: str) -> None:
        """Until the task has ended, whoever ends it."""
        try:
            await call.ended()
            await self._status(call.id).close()
        except CursorError:
            pass  # there was nothing to say
        except ClosedError:
            pass  # the hub went down
        except Exception as error:
            self._trouble.report("the end of a task could not be followed", error)
        finally:
            running_of(self._hub).pop(call.id, None)
            self._counts[counted_as] -= 1
            if self._counts[counted_as] <= 0:
                del self._counts[counted_as]

    async def _session_over(self, call: Call) -> None:
        if call.id in running_of(self._hub):
            with anyio.move_on_after(_GRACE, shield=True):
                try:
                    await call.fail(reason="shutdown")
                except Exception as error:
                    self._trouble.report("a task could not be ended with its session", error)

    async def _wait(self, doing: Awaitable[T]) -> T:
        try:
            return await doing
        except (CursorError, ClosedError, InvalidArgument):
            raise
        except TidingsError as error:
            raise self._failed(error) from error

    def _failed(self, error: TidingsError) -> McpError:
        (self._trouble.swallow if error.retryable else self._trouble.report)("a request about a task failed", error)
        return _error("The store of tasks does not answer", error.code, retryable=error.retryable)


async def tail_from_now(hub: Hub, record: Record) -> Tail:
    """The call's own events from here on; it ends with the task."""
    stream = hub.stream(record.scope, record.name)
    return stream.tail((await stream.read(limit=1)).head_seq)


def time_of(text: str) -> datetime:
    """The time that a text of RFC 3339 names; Python 3.10 reads no ``Z``."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


def _error(message: str, reason: str, *, retryable: bool = False) -> McpError:
    return McpError(ErrorData(code=INTERNAL_ERROR, message=message, data={"reason": reason, "retryable": retryable}))

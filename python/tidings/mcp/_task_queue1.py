"""What a task of the 2025-11-25 experiment asks of its client: `TaskMessageQueue`, for ``enable_tasks`` of mcp 1.x.

The messages and the answers stand in two streams beside the task's events: a client may answer at any worker, and what was
asked can be read after the task's end. In a process, each message is handed out once.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.shared.exceptions import McpError
from mcp.shared.experimental.tasks.message_queue import QueuedMessage
from mcp.shared.experimental.tasks.message_queue import TaskMessageQueue as _Base
from mcp.shared.experimental.tasks.resolver import Resolver
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCNotification, JSONRPCRequest

from .. import Call, ClosedError, CursorError, Event, Hub, Stream, TidingsError
from ._aside import spawn
from ._task_ids1 import call_id_of
from ._task_store1 import find, running_of, tail_from_now, time_of
from ._trouble import Trouble
from ._wire import dumps

_MESSAGES: Final = "messages"
_REPLIES: Final = "replies"

ASKED_EVENT: Final = "io.tidings.input_required"
"""On the task's own stream: it asks for something now."""

_Reply = Resolver[dict[str, Any]]


@dataclass
class _Queue:
    """The messages of one task, as one process sees them."""

    waiting: deque[QueuedMessage] = field(default_factory=deque)
    read_to: int | None = None
    """Up to where the messages of another process were read."""
    asked: dict[str, _Reply] = field(default_factory=dict)
    """Who waits in this process for which answer."""
    attended: bool = False


class TaskMessageQueue(_Base):
    """Keeps what tasks ask of their clients in the hub on which `TaskStore` keeps the tasks."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._queues: dict[str, _Queue] = {}
        self._trouble = Trouble()

    # -- the SDK's interface

    async def enqueue(self, task_id: str, message: QueuedMessage) -> None:
        """Put a message in line. Raises `McpError` when the task has ended: nobody will answer it."""
        call_id = call_id_of(task_id)
        own = None if call_id is None else running_of(self._hub).get(call_id)
        if call_id is None or own is None:
            raise _over()
        queue = self._queue(call_id)
        try:
            if message.resolver is not None and message.original_request_id is not None:
                queue.asked[_key(message.original_request_id)] = message.resolver
                await self._attend(queue, own.call)
            written = message.message.model_dump(by_alias=True, mode="json", exclude_none=True)
            entry = {
                "type": message.type,
                "message": written,
                "timestamp": message.timestamp.isoformat(),
                "originalRequestId": message.original_request_id,
            }
            queue.waiting.append(message)
            await self._stream(call_id, _MESSAGES).append(dumps(entry))
            own.call.emit(ASKED_EVENT, dumps({"method": written["method"]}))
        except TidingsError as error:
            raise _over() from error

    async def dequeue(self, task_id: str) -> QueuedMessage | None:
        """Take the next message."""
        queue = await self._filled(task_id)
        return queue.waiting.popleft() if queue.waiting else None

    async def peek(self, task_id: str) -> QueuedMessage | None:
        """The next message, which stays."""
        queue = await self._filled(task_id)
        return queue.waiting[0] if queue.waiting else None

    async def is_empty(self, task_id: str) -> bool:
        """Whether there is none."""
        return not (await self._filled(task_id)).waiting

    async def clear(self, task_id: str) -> list[QueuedMessage]:
        """Take all messages."""
        queue = await self._filled(task_id)
        taken = list(queue.waiting)
        queue.waiting.clear()
        return taken

    async def wait_for_message(self, task_id: str) -> None:
        """Wait until there is a message, put in line by whichever process, or the task ends."""
        call_id = call_id_of(task_id)
        record = None if call_id is None else find(self._hub, call_id)
        if record is None:
            return
        # From before the look: what comes between the two is not missed.
        async with await tail_from_now(self._hub, record) as tail:
            if not await self.is_empty(task_id):
                return
            async for item in tail:
                if isinstance(item, Event) and item.type == ASKED_EVENT:
                    return

    async def notify_message_available(self, task_id: str) -> None:
        """Nothing: who waits is woken by the hub."""

    # -- how it is done

    def _queue(self, call_id: str) -> _Queue:
        return self._queues.setdefault(call_id, _Queue())

    def _stream(self, call_id: str, name: str) -> Stream:
        return self._hub.stream(f"call:{call_id}", name)

    async def _filled(self, task_id: str) -> _Queue:
        call_id = call_id_of(task_id)
        if call_id is None:
            return _Queue()
        here = call_id in running_of(self._hub)
        if here or call_id in self._queues:
            queue = self._queue(call_id)
        else:
            record = find(self._hub, call_id)
            if record is None or record.status != "working":
                return _Queue()
            queue = self._queue(call_id)
            spawn(self._forget_at_end, call_id, record)
        if not here:
            await self._read(call_id, queue)
        return queue

    async def _read(self, call_id: str, queue: _Queue) -> None:
        """What another process has put in line since, and nobody has answered."""
        try:
            messages = await self._stream(call_id, _MESSAGES).read(queue.read_to)
            answered = await self._answered(call_id)
        except TidingsError:
            return  # there is none
        for event in messages.events:
            queue.read_to = event.seq
            entry = json.loads(event.payload)
            asked = entry["originalRequestId"]
            if asked is not None and _key(asked) in answered:
                continue
            kind = JSONRPCRequest if entry["type"] == "request" else JSONRPCNotification
            queue.waiting.append(
                QueuedMessage(
                    type=entry["type"],
                    message=kind.model_validate(entry["message"]),
                    timestamp=time_of(entry["timestamp"]),
                    resolver=None
                    if asked is None
                    else _Elsewhere(self._stream(call_id, _REPLIES), asked, self._trouble),
                    original_request_id=asked,
                )
            )

    async def _answered(self, call_id: str) -> set[str]:
        try:
            page = await self._stream(call_id, _REPLIES).read()
        except CursorError:
            return set()
        return {_key(json.loads(event.payload).get("id")) for event in page.events}

    async def _attend(self, queue: _Queue, call: Call) -> None:
        """Have answers that are given in another process brought here, and nobody wait for one after the task's end."""
        if queue.attended:
            return
        queue.attended = True
        begin = await self._stream(call.id, _REPLIES).append(b"{}")
        spawn(self._bring_replies, queue, call, begin)
        spawn(self._end_with, queue, call)

    async def _bring_replies(self, queue: _Queue, call: Call, begin: int) -> None:
        try:
            async with self._stream(call.id, _REPLIES).tail(begin) as tail:
                async for item in tail:
                    reply = json.loads(item.payload) if isinstance(item, Event) else {}
                    resolver = queue.asked.pop(_key(reply.get("id")), None)
                    if resolver is None or resolver.done():
                        continue
                    if "error" in reply:
                        resolver.set_exception(McpError(ErrorData.model_validate(reply["error"])))
                    else:
                        resolver.set_result(reply["result"])
        except (ClosedError, CursorError):
            pass
        except Exception as error:
            self._trouble.report("the answers to a task could not be followed", error)

    async def _end_with(self, queue: _Queue, call: Call) -> None:
        try:
            await call.ended()
        except Exception as error:
            if not isinstance(error, ClosedError):
                self._trouble.report("the end of a task could not be followed", error)
        self._queues.pop(call.id, None)
        for resolver in queue.asked.values():
            if not resolver.done():
                resolver.set_exception(_over())
        for name in (_MESSAGES, _REPLIES):
            try:
                await self._stream(call.id, name).close()
            except TidingsError:
                pass  # not there, or the hub went down

    async def _forget_at_end(self, call_id: str, record: Any) -> None:
        try:
            async with await tail_from_now(self._hub, record) as tail:
                async for _ in tail:
                    pass
        except TidingsError:
            pass
        self._queues.pop(call_id, None)


class _Elsewhere(Resolver[dict[str, Any]]):
    """Takes the answer to a question of a task that runs in another process, and writes it down for it."""

    def __init__(self, replies: Stream, asked: int | str, trouble: Trouble) -> None:
        super().__init__()
        self._replies = replies
        self._asked = asked
        self._trouble = trouble

    def set_result(self, value: dict[str, Any]) -> None:
        """The client's answer."""
        super().set_result(value)
        spawn(self._write, {"id": self._asked, "result": value})

    def set_exception(self, exc: BaseException) -> None:
        """The client's error."""
        super().set_exception(exc)
        error = exc.error if isinstance(exc, McpError) else ErrorData(code=INTERNAL_ERROR, message=str(exc))
        written = error.model_dump(by_alias=True, mode="json", exclude_none=True)
        spawn(self._write, {"id": self._asked, "error": written})

    async def _write(self, reply: dict[str, Any]) -> None:
        try:
            await self._replies.append(dumps(reply), durability="disk")
        except ClosedError:
            pass  # the task has ended
        except Exception as error:
            self._trouble.report("an answer to a task could not be stored", error)


def _key(request_id: Any) -> str:
    """A request id, by its JSON type and value."""
    return json.dumps(request_id)


def _over() -> McpError:
    return McpError(ErrorData(code=INTERNAL_ERROR, message="The task has ended", data={"reason": "ended"}))

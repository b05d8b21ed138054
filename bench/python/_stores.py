"""The stores that are compared, and messages for them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage, JSONRPCNotification, ProgressNotification, ProgressNotificationParams

BYTES = 232
"""Of one message as JSON."""


@dataclass
class _Entry:
    event_id: str
    stream_id: str
    message: JSONRPCMessage | None


class ExampleStore(EventStore):
    """What the SDK's example server keeps events in: memory, the last 100 of a stream, random ids.

    Written anew from its documented behaviour, so that nobody's example is in this repository.
    """

    def __init__(self, keep: int = 100) -> None:
        self._keep = keep
        self._streams: dict[str, deque[_Entry]] = {}
        self._by_id: dict[str, _Entry] = {}

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        entry = _Entry(str(uuid4()), stream_id, message)
        kept = self._streams.get(stream_id)
        if kept is None:
            kept = self._streams[stream_id] = deque(maxlen=self._keep)
        if len(kept) == self._keep:
            self._by_id.pop(kept[0].event_id, None)
        kept.append(entry)
        self._by_id[entry.event_id] = entry
        return entry.event_id

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = self._by_id.get(last_event_id)
        if last is None:
            return None
        found = False
        for entry in self._streams[last.stream_id]:
            if not found:
                found = entry.event_id == last_event_id
            elif entry.message is not None:
                await send_callback(EventMessage(entry.message, entry.event_id))
        return last.stream_id


def progress(n: int) -> JSONRPCNotification:
    """A progress notification as the SDK sends it, of `BYTES` bytes."""
    message = _progress(n, "")
    short = BYTES - len(text(message))
    return _progress(n, "x" * short)


def _progress(n: int, note: str) -> JSONRPCNotification:
    params = ProgressNotificationParams(progress_token="call-1", progress=float(n), total=1e6, message=note)
    fields = ProgressNotification(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)
    return JSONRPCNotification(jsonrpc="2.0", **fields)


def text(message: JSONRPCMessage) -> bytes:
    """What the SDK puts on the wire for it."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


class _Serializer:
    @staticmethod
    def to_json(message: Ready, **_options: Any) -> bytes:
        return message.payload


class Ready:
    """A message that is text already: its dump hands over the bytes it was made with."""

    __slots__ = ("payload",)

    __pydantic_serializer__ = _Serializer()

    def __init__(self, payload: bytes) -> None:
        self.payload = payload

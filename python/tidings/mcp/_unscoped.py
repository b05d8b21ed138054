"""Streams of sessions nobody named: the plain contract of the SDK, without handing one session another's events.

Stream ids are bare request ids here, so two sessions of one store may use the same one. A stream is replayed only
while nothing suggests that: never the standalone stream (every session's has the same id), never a stream that was
opened without a priming event (a client too old for them, or an event of somebody else), never one primed a second
time by anything but its own resume.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, cast

from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage

from .. import CursorError, Gap, Hub, Writer
from ._replay import MESSAGE, OPENED, Replayed, gap_notice
from ._sdk import is_final, wire_bytes

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

_REMEMBERED: Final = 1024
"""How many streams, the most recent ones, can be replayed."""


class _Stream:
    __slots__ = ("ambiguous", "closed", "head", "name", "resumes", "writer")

    def __init__(self, name: str, writer: Writer, ambiguous: bool) -> None:
        self.name = name
        self.writer = writer
        self.ambiguous = ambiguous
        self.closed = False
        self.head = writer.cursor()
        self.resumes = 0


class UnscopedStreams:
    """The streams of one `EventStore` that was put to use as it is. May raise what the hub raises."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        # Nothing is shared beyond this object: two stores on one database do not see each other's streams.
        self._scope = "unscoped:" + uuid.uuid4().hex
        self._opened = 0
        self._open: dict[str, _Stream] = {}
        self._known: OrderedDict[str, _Stream] = OrderedDict()

    def store(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Append, or mark a position; returns the event id."""
        stream = self._open.get(stream_id)
        if stream is None:
            stream = self._begin(stream_id, primed=message is None)
        elif message is None:
            if stream.resumes:
                stream.resumes -= 1
            else:
                stream.ambiguous = True
        if message is None:
            return stream.head
        final = stream_id != GET_STREAM_KEY and is_final(message)
        if final:
            stream.closed = True
            del self._open[stream_id]
        stream.head = stream.writer.append(wire_bytes(message), close=final, give_up=True)
        return stream.head

    async def replay(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what came after `last_event_id`; returns the stream's id when more may come."""
        try:
            tail = self._hub.resume(self._scope, last_event_id)
        except CursorError:
            return None
        try:
            stream = self._known.get(tail.stream)
            if stream is None or stream.ambiguous:
                return None
            at = last_event_id
            while at != stream.head and not stream.ambiguous:
                try:
                    item = await anext(tail)
                except StopAsyncIteration:
                    break
                if isinstance(item, Gap):
                    await send_callback(EventMessage(cast("JSONRPCMessage", gap_notice(item)), item.cursor))
                    continue
                at = item.cursor
                if item.type == MESSAGE:
                    await send_callback(EventMessage(cast("JSONRPCMessage", Replayed(item.payload)), item.cursor))
            if stream.closed or stream.ambiguous:
                return None
            stream.resumes += 1
            return stream.name
        finally:
            tail.close()

    def _begin(self, stream_id: str, primed: bool) -> _Stream:
        self._opened += 1
        writer = self._hub.new_writer(self._scope, f"{self._opened}:{stream_id[:64]}")
        stream = _Stream(stream_id, writer, ambiguous=not primed or stream_id == GET_STREAM_KEY)
        if primed:
            stream.head = writer.append(b"{}", type=OPENED, give_up=True)
        self._open[stream_id] = stream
        self._known[writer.stream] = stream
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return stream

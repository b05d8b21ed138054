"""The SDK's `EventStore` on a hub: scoped to the session, durable, resumable without a gap or a double."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, cast

import anyio
from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage
from mcp.server.streamable_http import EventStore as SdkEventStore
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from .. import ClosedError, CongestedError, CursorError, Gap, Hub, Tail, TidingsError, UnavailableError, Writer, _port
from . import _compat, _scoping
from ._opening import opening_of
from ._replay import Replayed, gap_notice
from ._trouble import Trouble
from ._unscoped import UnscopedStreams

_log: Final = logging.getLogger("tidings.mcp")

_FINAL: Final = frozenset({JSONRPCResponse, JSONRPCError})

_DUMP: Final = {kind: kind.__pydantic_serializer__.to_json for kind in (JSONRPCNotification, JSONRPCRequest)}
"""What a server sends before a stream's final response, and how it becomes JSON (`_compat.wire_bytes`, looked up once)."""

_SHOWN: Final = 64
"""How many characters of a request id, which is the client's to choose, go into a stream's name."""

_CATCH_UP: Final = 2.0
"""Seconds a message waits for a store that is behind, before others that were not stored yet are given up for it."""

_APPEND: Final = "an event could not be stored; it cannot be replayed"
_REPLAY: Final = "a stream could not be replayed to its end"
_NOT_OPEN: Final = UnavailableError("the store is not open")


class EventStore(SdkEventStore):
    """What goes into ``event_store=`` of the SDK: ``server.streamable_http_app(event_store=EventStore(hub))``.

    Guarantees, for each session by itself:

    - a client that resumes gets every later message of the stream it names once, in order, and then follows the
      stream live; the connection closes after the stream's final response;
    - an event id of another session, an unknown one or a malformed one replays nothing;
    - what retention has dropped is told by ``notifications/io.tidings/gap`` before the earliest message left;
    - what had to be given up while the store was down is told in the same way, reason `lost`;
    - no failure of the store is raised into the SDK, where it would end the session.

    One object serves any number of sessions: each transport the SDK makes with it gets a `SessionEventStore`.
    Handed to something that makes no SDK transport, the object itself keeps the plain contract of the SDK and
    replays only where it can tell the streams of two sessions apart; use `scoped` there.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._opening = opening_of(hub)
        self._trouble = Trouble()
        self._unscoped: UnscopedStreams | None = None
        _scoping.install()

    @property
    def failures(self) -> int:
        """How many calls failed and were answered without an event (nothing was raised), in all sessions together."""
        return self._trouble.count

    def scoped(self, session_id: str, *, close_sse_stream: Callable[[str], None] | None = None) -> SessionEventStore:
        """The store of one session. `close_sse_stream` ends the connection a stream is still sent on, if given."""
        return SessionEventStore(self._hub, session_id, self._trouble, close_sse_stream)

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store a message of a session nobody named (see the class). Never raises."""
        if not self._opening.ready():
            self._trouble.swallow(_APPEND, _NOT_OPEN)
            return ""
        try:
            return self._anonymous().store(stream_id, message)
        except Exception as error:
            self._trouble.report(_APPEND, error)
            return ""

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Replay a stream of a session nobody named, up to its head, and return its id for the SDK to go on with."""
        if not self._opening.ready():
            self._trouble.swallow(_REPLAY, _NOT_OPEN)
            return None
        try:
            return await self._anonymous().replay(last_event_id, send_callback)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return None
        except Exception as error:
            self._trouble.report(_REPLAY, error)
            return None

    def _anonymous(self) -> UnscopedStreams:
        if self._unscoped is None:
            _log.warning(
                "tidings.mcp.EventStore is used without a session: streams that two sessions may share are not "
                "replayed. Pass EventStore.scoped(session_id) to whatever makes your transports."
            )
            self._unscoped = UnscopedStreams(self._hub)
        return self._unscoped


class SessionEventStore(SdkEventStore):
    """The event store of one MCP session. Made by the SDK's transports through `EventStore`, or by `EventStore.scoped`."""

    __slots__ = (
        "_behind",
        "_close_sse_stream",
        "_hub",
        "_opened",
        "_opening",
        "_scope",
        "_tails",
        "_trouble",
        "_writers",
    )

    def __init__(
        self, hub: Hub, session_id: str, trouble: Trouble, close_sse_stream: Callable[[str], None] | None = None
    ) -> None:
        self._hub = hub
        self._opening = opening_of(hub)
        self._scope = "session:" + session_id
        self._trouble = trouble
        self._close_sse_stream = close_sse_stream
        # Open streams by the SDK's stream id; a request id used again after its final response opens a fresh one.
        self._writers: dict[str, Writer] = {}
        self._opened = 0
        # The store did not catch up within the time one message waits: the next ones do not wait as well.
        self._behind = False
        # The tail now following a stream, by the stream's own id.
        self._tails: dict[str, Tail] = {}
        _port.attend()

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Append `message` to the session's stream `stream_id` and return its event id; None only marks a position.

        Takes microseconds, never blocks on the disk and never raises. After a failure the id is empty, which the
        SDK leaves off the wire: the client keeps its last good one.
        """
        # The hot path of every message a server sends, in the middle of an open stream: no awaits, no locks, no
        # formatting. Everything else goes the long way, also what went wrong here: nothing was appended then.
        dump = _DUMP.get(type(message))
        if dump is not None:
            try:
                return self._writers[stream_id].append(dump(message, by_alias=True, exclude_unset=True))
            except Exception:  # noqa: S110  the long way tells what is wrong
                pass
        return await self._store(stream_id, message)

    async def _store(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        try:
            writer = self._writers.get(stream_id)
            if writer is None:
                if not self._opening.ready():
                    self._trouble.swallow(_APPEND, _NOT_OPEN)
                    return ""
                writer = self._open(stream_id)
            if message is None:
                return writer.cursor()
            try:
                payload = message.__pydantic_serializer__.to_json(message, by_alias=True, exclude_unset=True)
            except Exception as error:
                self._trouble.report(_APPEND, error)
                substitute = _substitute(message)
                if substitute is None:
                    return writer.cursor()
                payload = substitute
            # Exact types: `isinstance` asks a pydantic class in Python.
            final = type(message) in _FINAL and stream_id != GET_STREAM_KEY
            if final:
                del self._writers[stream_id]
            try:
                return writer.append(payload, close=final)
            except CongestedError:
                return await self._append_later(writer, payload, final)
        except Exception as error:
            self._trouble.report(_APPEND, error)
            # A writer that failed is not used again: the next message starts a fresh stream, and who follows this one
            # must not wait for ever.
            failed = self._writers.pop(stream_id, None)
            if failed is not None:
                self._close(failed)
            return ""

    async def _append_later(self, writer: Writer, payload: bytes, final: bool) -> str:
        """Append when the store has caught up: the session sends faster than the disk takes, for once it has to wait.

        A store that does not catch up is as good as down: what must be given up is told as a gap.
        """
        try:
            if self._behind and not writer.congested:
                self._behind = False
            if not self._behind:
                with anyio.move_on_after(_CATCH_UP):
                    await self._caught_up(writer)
                try:
                    return writer.append(payload, close=final)
                except CongestedError:
                    self._behind = True
            return writer.append(payload, close=final, give_up=True)
        except Exception as error:
            self._trouble.report(_APPEND, error)
            if final:
                self._close(writer)
            return ""

    async def _caught_up(self, writer: Writer) -> None:
        try:
            await writer.flush()
        except TidingsError as error:
            _log.debug("a stream of %s could not be flushed: %s", self._scope, error)  # the append finds out what holds

    def _open(self, stream_id: str) -> Writer:
        # The number makes the name one that the session has never had; the rest is for people, and bounded.
        self._opened += 1
        writer = self._hub.new_writer(self._scope, f"{self._opened}:{stream_id[:_SHOWN]}")
        self._writers[stream_id] = writer
        return writer

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> None:
        """Send everything after `last_event_id` and go on live until the stream's final response.

        Returning None tells the SDK that there is nothing to go on with, so it closes the connection and does not
        register a second, racing path for the same messages. Never raises; ends when the client leaves.
        """
        if not self._opening.ready():
            self._trouble.swallow(_REPLAY, _NOT_OPEN)
            return
        tail: Tail | None = None
        try:
            tail = self._hub.resume(self._scope, last_event_id)
            self._take_over(tail)
            async for batch in tail.batches():
                for item in batch:
                    replayed = gap_notice(item) if isinstance(item, Gap) else Replayed(item.payload)
                    await send_callback(EventMessage(cast("JSONRPCMessage", replayed), item.cursor))
        except CursorError as error:
            _log.debug("nothing to replay in %s: %s", self._scope, error)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            _log.debug("the client left a replay in %s", self._scope)
        except Exception as error:
            self._trouble.report(_REPLAY, error)
        finally:
            if tail is not None:
                self._leave(tail)

    def close(self) -> None:
        """Close the streams left open, when the session is over. Never raises."""
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            self._close(writer)

    def _close(self, writer: Writer) -> None:
        try:
            writer.close()
        except ClosedError:
            pass  # with its hub, or by its final response
        except Exception as error:
            self._trouble.report("a stream could not be closed", error)

    def _take_over(self, tail: Tail) -> None:
        """End the connection the resumed stream is still sent on: a message goes out on one connection only.

        A client that cuts and resumes is often back before its old connection is noticed to be dead. That one would
        swallow messages, and, unread, hold up the whole session.
        """
        older = self._tails.get(tail.stream)
        self._tails[tail.stream] = tail
        if older is not None:
            older.close()
        if self._close_sse_stream is not None:
            for stream_id, writer in self._writers.items():
                if writer.stream == tail.stream:
                    self._close_sse_stream(stream_id)
                    return

    def _leave(self, tail: Tail) -> None:
        if self._tails.get(tail.stream) is tail:
            del self._tails[tail.stream]
        try:
            tail.close()
        except Exception as error:
            self._trouble.report(_REPLAY, error)


def _substitute(message: JSONRPCMessage) -> bytes | None:
    """What is stored for a message that has no JSON text: an error in place of a response, else nothing.

    A client that resumes must not wait for ever for a response that could not be written.
    """
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return None
    error = ErrorData(code=INTERNAL_ERROR, message="The response could not be serialised")
    return _compat.wire_bytes(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))

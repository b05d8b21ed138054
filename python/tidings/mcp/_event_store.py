"""The SDK's `EventStore` on a hub: scoped to the session, durable, resumable without a gap or a double."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import anyio
from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage
from mcp.server.streamable_http import EventStore as SdkEventStore

from .. import ClosedError, CongestedError, CursorError, Gap, Hub, Tail, TidingsError, UnavailableError, Writer, _port
from . import _scoping, _sessions
from ._opening import opening_of
from ._replay import MESSAGE, OPENED, Replayed, gap_notice
from ._resume import Resumer
from ._sdk import DUMP, is_final, substitute, wire_bytes
from ._trouble import Trouble
from ._unscoped import UnscopedStreams

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

_log: Final = logging.getLogger("tidings.mcp")

_SHOWN: Final = 64
"""How many characters of a request id, which is the client's to choose, go into a stream's name."""

_CATCH_UP: Final = 2.0
"""Seconds a message waits for a store that is behind, before others that were not stored yet are given up for it."""

_RECORDED_WITHIN: Final = 2.0
"""Seconds that a session's first event waits until other processes know of the session."""

_PATIENCE: Final = 2.0
"""Seconds in all that a client which reads slowly may hold up the other calls of its session, for each stream."""

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
    - a client that does not read a stream holds up the rest of its session for at most 2 s: then that connection is
      closed, and the client resumes (clients of before 2025-11-25, which may not know how, are waited for);
    - no failure of the store is raised into the SDK, where it would end the session;
    - a client that resumes at another process on the same store, or after its server died and was started again, is
      served from the store (`resume_front=False` leaves such a request to the SDK, which answers 404); see `ResumeFront`.

    One object serves any number of sessions: each transport the SDK makes with it gets a `SessionEventStore`.
    Handed to something that makes no SDK transport, the object itself keeps the plain contract of the SDK and
    replays only where it can tell the streams of two sessions apart; use `scoped` there.
    """

    def __init__(self, hub: Hub, *, resume_front: bool = True) -> None:
        self._hub = hub
        self._opening = opening_of(hub)
        self._trouble = Trouble()
        self._unscoped: UnscopedStreams | None = None
        self._resumer = Resumer(hub, self._trouble) if resume_front else None
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
        "_is_full",
        "_lagging",
        "_on_record",
        "_opened",
        "_opening",
        "_owner",
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
        self._scope = _sessions.scope_of(session_id)
        self._owner: _sessions.Owner | None = None
        # The session's record was waited for: other processes know of it.
        self._on_record = False
        self._trouble = trouble
        self._close_sse_stream = close_sse_stream
        # Open streams by the SDK's stream id; a request id used again after its final response opens a fresh one.
        self._writers: dict[str, Writer] = {}
        self._opened = 0
        # The store did not catch up within the time one message waits: the next ones do not wait as well.
        self._behind = False
        # Set by the SDK's transport: whether the connection of a stream takes no more messages for now.
        self._is_full: Callable[[str], bool] | None = None
        # Seconds that open streams may still hold up the session, by the SDK's stream id: those whose client knows how to
        # come back.
        self._lagging: dict[str, float] = {GET_STREAM_KEY: _PATIENCE}
        # The tail now following a stream, by the stream's own id.
        self._tails: dict[str, Tail] = {}
        _port.attend()

    def owned_by(self, principal: str | None) -> None:
        """Say whose session it is (None: nobody's in particular); it is on record before the session's first event."""
        self._owner = _sessions.Owner(self._hub, self._scope, principal)

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Append `message` to the session's stream `stream_id` and return its event id; None only marks a position.

        Takes microseconds, never blocks on the disk and never raises; only a session's first event waits, for the commit
        by which other processes know of the session, and for two seconds at most. After a failure the id is empty, which
        the SDK leaves off the wire: the client keeps its last good one.
        """
        # The hot path of every message a server sends, in the middle of an open stream: no awaits, no locks, no
        # formatting. Everything else goes the long way, also what went wrong here: nothing was appended then.
        try:
            event_id = self._writers[stream_id].append(DUMP[type(message)](message, by_alias=True, exclude_unset=True))
        except Exception:
            event_id = await self._store(stream_id, message)  # tells what is wrong, if anything is
            if event_id and not self._on_record:
                await self._recorded()
            ended = stream_id not in self._writers and stream_id != GET_STREAM_KEY
        else:
            ended = False
        if self._is_full is not None and event_id and stream_id in self._lagging and self._is_full(stream_id):
            await self._let_go(stream_id)
        if ended:
            self._lagging.pop(stream_id, None)
        return event_id

    async def _store(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        try:
            writer = self._writers.get(stream_id)
            if writer is None:
                if not self._opening.ready():
                    self._trouble.swallow(_APPEND, _NOT_OPEN)
                    return ""
                writer = self._open(stream_id)
                if message is None:
                    return await self._prime(stream_id, writer)
            if message is None:
                return writer.cursor()
            try:
                payload = wire_bytes(message)
            except Exception as error:
                self._trouble.report(_APPEND, error)
                instead = substitute(message)
                if instead is None:
                    return writer.cursor()
                payload = instead
            final = stream_id != GET_STREAM_KEY and is_final(message)
            if final:
                del self._writers[stream_id]
            return await self._append(writer, payload, final)
        except Exception as error:
            self._trouble.report(_APPEND, error)
            # A writer that failed is not used again: the next message starts a fresh stream, and who follows this one
            # must not wait for ever.
            failed = self._writers.pop(stream_id, None)
            if failed is not None:
                self._close(failed)
            return ""

    async def _recorded(self) -> None:
        """Wait until the session is on record: a client that has an event's id may come back with it at another process,
        which would have to tell it that there is no such session."""
        if self._owner is None:
            return
        try:
            with anyio.move_on_after(_RECORDED_WITHIN):
                self._on_record = await self._owner.committed()
                return
        except Exception as error:
            _log.debug("%s is not on record: %s", self._scope, error)
        self._on_record = True  # nothing else waits for a store that is slow or down

    async def _let_go(self, stream_id: str) -> None:
        """Wait for a client that does not read, for a while; then close its connection, so that it does not hold up the
        other calls of its session. It comes back for the rest, which is in the store by now."""
        assert self._is_full is not None
        began = anyio.current_time()
        pause = 0.0
        while self._is_full(stream_id):
            left = self._lagging[stream_id] - (anyio.current_time() - began)
            if left <= 0:
                self._lagging[stream_id] = _PATIENCE if stream_id == GET_STREAM_KEY else 0.0
                _log.info("a client does not read a stream of %s; its connection is closed", self._scope)
                if self._close_sse_stream is not None:
                    self._close_sse_stream(stream_id)
                return
            await anyio.sleep(min(pause, left))
            pause = min(0.05, pause * 2 or 0.001)
        self._lagging[stream_id] -= anyio.current_time() - began

    async def _prime(self, stream_id: str, writer: Writer) -> str:
        """Make a new stream exist for whoever comes back with its first position, wherever that is, however long the
        tool says nothing."""
        if stream_id != GET_STREAM_KEY:
            self._lagging[stream_id] = _PATIENCE
        return await self._append(writer, b"{}", final=False, type=OPENED)

    async def _append(self, writer: Writer, payload: bytes, final: bool, type: str = MESSAGE) -> str:
        try:
            return writer.append(payload, type=type, close=final)
        except CongestedError:
            return await self._append_later(writer, payload, final, type)

    async def _append_later(self, writer: Writer, payload: bytes, final: bool, type: str) -> str:
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
                    return writer.append(payload, type=type, close=final)
                except CongestedError:
                    self._behind = True
            return writer.append(payload, type=type, close=final, give_up=True)
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
        if self._owner is not None:
            try:
                self._owner.record()
            except CongestedError:
                pass  # with the session's next stream
            except Exception as error:
                self._trouble.report("the owner of a session could not be recorded", error)
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
                    if isinstance(item, Gap):
                        replayed = gap_notice(item)
                    elif item.type == MESSAGE:
                        replayed = Replayed(item.payload)
                    else:
                        continue
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
        if self._owner is not None:
            self._close_owner(self._owner, deleted=False)

    def deleted(self) -> None:
        """The client ended the session: nobody may resume it any more, here or elsewhere. Never raises."""
        if self._owner is not None:
            self._close_owner(self._owner, deleted=True)

    def _close_owner(self, owner: _sessions.Owner, *, deleted: bool) -> None:
        try:
            owner.close(deleted=deleted)
        except ClosedError:
            pass  # with its hub
        except Exception as error:
            self._trouble.report("the end of a session could not be recorded", error)

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

"""The resume front: a GET with ``Last-Event-ID`` for a session that another process held, or still holds.

The SDK keeps its sessions in memory and answers 404 for any other. What such a session said is in the store all the same,
so that the client can have the rest of the stream it names, and follow it live, without its session: nothing here needs
more than the record of the session's owner and the stream.

Everything else is left to the app: requests of sessions that live here, POST (which needs the session itself and gets the
app's 404, upon which a client starts a new one), and whatever cannot be served. A 404 and not an empty stream is then what
tells a client that there is no use in asking again.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from sse_starlette import EventSourceResponse

from .. import CursorError, Event, Gap, Hub, Tail, UnavailableError
from . import _sessions
from ._opening import opening_of
from ._principals import principal_in
from ._replay import MESSAGE, gap_text
from ._trouble import Trouble

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

KEEP_ALIVE: Final = 15.0
"""Seconds between two comments on a stream; proxies cut what is silent for longer than some 25."""

RETRY: Final = 1000
"""Milliseconds a client is asked to wait before it comes back."""

MAX_RETRY: Final = 2**31 - 1
"""The longest wait: timers of clients take no more, and wrap around."""

_PRIMED_SINCE: Final = "2025-11-25"
"""The first protocol version whose clients read events without data."""

_LOOK: Final = 1.0
"""Seconds between two looks whether the process that writes a silent stream is still there."""

_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Seconds between the looks for an event that a living session may not have committed yet."""

_NOT_SERVED: Final = "a stream could not be resumed from the store"

_COMMENT: Final = b":\n\n"

_CHUNK: Final = 256 * 1024
"""Bytes handed to the server at a time, at least one event."""

PrincipalOf: TypeAlias = "Callable[[Scope], str | Awaitable[str | None] | None]"


class Resumption:
    """A stream that can be served: where it stands, and what it has by now."""

    def __init__(self, tail: Tail, first: list[Event | Gap] | None) -> None:
        self.tail = tail
        self.first = first
        """None: the stream is over and everything was read."""


def _start(tail: Tail, session_lives: bool) -> Resumption | None:
    try:
        # In this order: a writer that is gone adds nothing to what is read afterwards.
        abandoned = tail.abandoned()
        first = tail.take()
    except BaseException:
        tail.close()
        raise
    if not first and (abandoned or (first is None and not session_lives)):
        tail.close()
        return None
    return Resumption(tail, first)


class Resumer:
    """Serves streams from the store. Holds nothing but a place in the stream for each client, however slow it reads."""

    def __init__(
        self, hub: Hub, trouble: Trouble, *, keep_alive: float = KEEP_ALIVE, retry: int | None = RETRY
    ) -> None:
        self._hub = hub
        self._trouble = trouble
        self._keep_alive = keep_alive
        self._retry = retry

    async def find(self, session_id: str, last_event_id: str, principal: str | None) -> Resumption | None:
        """The stream `last_event_id` is of, after it, or None: the session or the event is not known, the session is
        somebody else's, or there is nothing and nobody left to say more. Never raises."""
        if not opening_of(self._hub).ready():
            self._trouble.swallow(_NOT_SERVED, UnavailableError("the store is not open"))
            return None
        try:
            record = _sessions.look_up(self._hub, session_id)
            if record is None or record.principal != principal:
                return None
            tail = await self._tail(session_id, last_event_id, record.alive)
            return None if tail is None else _start(tail, record.alive)
        except Exception as error:
            self._trouble.report(_NOT_SERVED, error)
            return None

    async def _tail(self, session_id: str, last_event_id: str, alive: bool) -> Tail | None:
        for pause in (*_PAUSES, None):
            try:
                return self._hub.resume(_sessions.scope_of(session_id), last_event_id)
            except CursorError:
                if pause is None or not alive:
                    break
            # An event goes out before it is committed: a client may be here before the other process's commit.
            await anyio.sleep(pause)
        return None

    async def serve(
        self, found: Resumption, session_id: str, version: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer with the stream: what there is, then live, until it ends, its writer is gone or the client leaves."""
        writer, reader = anyio.create_memory_object_stream[bytes](0)

        async def sender() -> None:
            async with writer:
                try:
                    # A proxy may hold the headers back until the first byte of the body.
                    await writer.send(_opening(self._retry, version))
                    await self._follow(found, writer)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    pass  # the client left
                except Exception as error:
                    self._trouble.report("a stream could not be replayed to its end", error)

        response = EventSourceResponse(
            content=reader,
            data_sender_callable=sender,
            # Comments move no cursor and are no events.
            ping=self._keep_alive,
            ping_message_factory=lambda: _COMMENT,  # type: ignore[arg-type, return-value]
            headers={
                "Cache-Control": "no-cache, no-transform",
                "Connection": "keep-alive",
                "Content-Type": "text/event-stream",
                "X-Accel-Buffering": "no",
                "mcp-session-id": session_id,
            },
        )
        try:
            await response(scope, receive, send)
        finally:
            found.tail.close()
            writer.close()
            reader.close()

    async def _follow(self, found: Resumption, writer: MemoryObjectSendStream[bytes]) -> None:
        tail, batch = found.tail, found.first
        batches = tail.batches()
        while batch is not None:
            for chunk in _chunks(batch):
                await writer.send(chunk)
            batch = []
            with anyio.move_on_after(_LOOK):
                batch = await anext(batches, None)
            if batch == [] and tail.abandoned():
                batch = tail.take() or None


def _opening(retry: int | None, version: str | None) -> bytes:
    if retry is None or version is None or version < _PRIMED_SINCE:
        return _COMMENT
    return _COMMENT + b"retry: %d\n\n" % retry


def _chunks(batch: Iterable[Event | Gap]) -> Iterator[bytes]:
    gathered: list[bytes] = []
    size = 0
    for item in batch:
        if isinstance(item, Gap):
            payload = gap_text(item)
        elif item.type == MESSAGE:
            payload = item.payload
        else:
            continue
        frame = _frame(item.cursor, payload)
        if gathered and size + len(frame) > _CHUNK:
            yield b"".join(gathered)
            gathered, size = [], 0
        gathered.append(frame)
        size += len(frame)
    if gathered:
        yield b"".join(gathered)


def _frame(cursor: str, payload: bytes) -> bytes:
    if b"\n" in payload or b"\r" in payload:
        # Between the tokens of a JSON text only; a client joins the lines with LF, which is the same text to it.
        payload = b"\ndata: ".join(payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    return b"id: %b\nevent: message\ndata: %b\n\n" % (cursor.encode(), payload)


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a request's header."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


def asked(scope: Scope) -> tuple[str, str, str | None] | None:
    """Session id, last event id and protocol version of a request that resumes a legacy stream; else None."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    session_id, last_event_id = header(scope, b"mcp-session-id"), header(scope, b"last-event-id")
    accept = header(scope, b"accept") or ""
    version = header(scope, b"mcp-protocol-version")
    if not session_id or not last_event_id or ("text/event-stream" not in accept and "*/*" not in accept):
        return None
    # From 2026-07-28 on there is nothing to resume.
    return None if version is not None and version > _PRIMED_SINCE else (session_id, last_event_id, version)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class ResumeFront:
    """ASGI middleware that resumes streams of sessions that live in another process, or in none any more.

    The SDK's own app does this already when its event store is an `EventStore` (which is what `attach` brings). This
    class is for what does not go through there: an app that only resumes, or a server of another make over the same
    store. `app` gets every request but a GET with ``Last-Event-ID`` whose session does not live in this process, is on
    record, belongs to the one who asks and has something left to say.

    `principal` tells who asks, from the ASGI scope: the text that `principal` (the function) makes, or None for nobody in
    particular; it may be async. Without it the SDK's own authentication is asked, which has to run outside of this
    middleware. A session of somebody is never served to nobody, nor the other way round.

    `keep_alive` is the time between two comments on a silent stream, in seconds, above 0 and at most 25; `retry` the
    whole milliseconds, below 2^31, that clients are asked to wait before they come back (None asks nothing). Raises ValueError
    for others.

    Host and Origin are not checked here: put it inside whatever checks them.
    """

    def __init__(
        self,
        app: ASGIApp,
        hub: Hub,
        *,
        principal: PrincipalOf | None = None,
        keep_alive: float = KEEP_ALIVE,
        retry: int | None = RETRY,
    ) -> None:
        if not _is_number(keep_alive) or not 0 < keep_alive <= 25:
            raise ValueError(f"keep_alive must be a number of seconds above 0 and at most 25, not {keep_alive!r}")
        if retry is not None and (not _is_number(retry) or retry != int(retry) or not 0 <= retry <= MAX_RETRY):
            raise ValueError(f"retry must be whole milliseconds from 0 to {MAX_RETRY}, or None, not {retry!r}")
        self._app = app
        self._principal = principal if principal is not None else principal_in
        self._trouble = Trouble()
        self._resumer = Resumer(hub, self._trouble, keep_alive=keep_alive, retry=retry)

    @property
    def failures(self) -> int:
        """How many requests could not be served because the store failed; the app answered them."""
        return self._trouble.count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        from ._scoping import lives_here

        wanted = asked(scope)
        if wanted is not None and not lives_here(wanted[0]):
            session_id, last_event_id, version = wanted
            who: Any = self._principal(scope)
            if inspect.isawaitable(who):
                who = await who
            found = await self._resumer.find(session_id, last_event_id, who)
            if found is not None:
                await self._resumer.serve(found, session_id, version, scope, receive, send)
                return
        await self._app(scope, receive, send)

"""The receiving side of webhooks, ready to be mounted: verified, each one handled once, challenges answered.

`Receiver` is an ASGI application, for Starlette, FastAPI and every server of such::

    receiver = Receiver("whsec_…", handler=handle)
    app = Starlette(routes=[Route("/hook", receiver, methods=["POST"])])      # FastAPI: app.add_route("/hook", receiver)

Other frameworks give `Receiver.receive` the raw body and the headers, and answer what it says.
"""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from . import _native
from ._errors import CursorError, InvalidArgument, WebhookError
from ._hub import Hub
from ._native import Event
from ._stream import Tail
from ._webhook import DecryptionKeys, Webhook

__all__ = ["Answer", "DecryptionKeys", "Incoming", "Receiver", "ReceiverDocument", "Seen", "StoredSeen"]

WELL_KNOWN: Final = "/.well-known/mcp-webhook-receiver.json"
"""Where a host says which of its paths receive webhooks (SEP-3415, a draft)."""

_log: Final = logging.getLogger("tidings.webhook")

_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Incoming:
    """A webhook that came from a holder of a secret, unchanged, and that was not handled before."""

    id: str
    """The `webhook-id`: the same on every attempt and route of one firing."""
    body: bytes
    """The body: the raw bytes, or what they were before they were encrypted, where the receiver has `keys`."""

    def json(self) -> Any:
        """The body: `{"eventId", "name", "timestamp", "data", "cursor"?}`, or of a batch `{"events": […]}`."""
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """What is told of, in the order in which it fired: each one as `json` is without a batch."""
        body = self.json()
        together = isinstance(body, dict) and "eventId" not in body and isinstance(body.get("events"), list)
        return list(body["events"]) if together else [body]


class Answer(NamedTuple):
    """What the sender is to be answered."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


Handler: TypeAlias = Callable[[Incoming], "object | Awaitable[object]"]


class Remembers(Protocol):
    """Which webhooks were handled."""

    async def has(self, id: str) -> bool:
        """Whether that one was."""

    async def add(self, id: str) -> None:
        """That one was."""


class Seen:
    """A window in memory over the webhooks that were handled: at most `size`, each for `ttl` seconds.

    `ttl` is at least as long as senders try again: 24 hours for Tidings.
    """

    def __init__(
        self, *, size: int = 100_000, ttl: float = 2 * 86_400.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if size < 1 or not ttl > 0:
            raise InvalidArgument("size and ttl: must be more than nothing")
        self._size = size
        self._ttl = ttl
        self._clock = clock
        self._at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._at)

    async def has(self, id: str) -> bool:
        """Whether that one was handled within the window."""
        self._forget()
        return id in self._at

    async def add(self, id: str) -> None:
        """That one was handled."""
        self.remember(id)

    def remember(self, id: str) -> None:
        """The same, at once."""
        self._at[id] = self._clock()
        self._at.move_to_end(id)
        self._forget()

    def _forget(self) -> None:
        oldest = self._clock() - self._ttl
        while self._at and (len(self._at) > self._size or next(iter(self._at.values())) <= oldest):
            self._at.popitem(last=False)


class StoredSeen:
    """The same window in a hub's store: it holds over a restart, and all processes on the store share it.

    Kept as the stream (`scope`, `seen`), for as long as the hub's retention keeps events. Two processes that handle the same
    webhook at the very same moment both do.
    """

    def __init__(
        self, hub: Hub, *, scope: str = "io.tidings.receiver", size: int = 100_000, ttl: float = 2 * 86_400.0
    ) -> None:
        self._stream = hub.stream(scope, "seen")
        self._window = Seen(size=size, ttl=ttl)
        self._tail: Tail | None = None

    async def has(self, id: str) -> bool:
        """Whether any process handled that one within the window."""
        self._catch_up()
        return await self._window.has(id)

    async def add(self, id: str) -> None:
        """That one was handled; on disk when this returns."""
        await self._stream.append(json.dumps(id), type="io.tidings.seen", durability="disk")
        self._window.remember(id)

    def _catch_up(self) -> None:
        if self._tail is None:
            try:
                self._tail = self._stream.tail()
            except CursorError:
                return  # nothing was handled yet
        while items := self._tail.take():
            for item in items:
                if isinstance(item, Event):
                    self._window.remember(json.loads(item.payload))


class Receiver:
    """Receives the webhooks of a sender, whose `secrets` (`whsec_…`) are two while one replaces the other.

    - `handler` gets each genuine webhook once as an `Incoming`; async, or sync and quick. When it raises, the sender is
      answered 500 and tries again.
    - `seen` remembers what was handled: `Seen()` in memory, or `StoredSeen(hub)`.
    - `tolerance`: seconds that the signature's time may be off.
    - `keys`: private keys (JWKs) for bodies that are encrypted to this receiver; see `DecryptionKeys`.
    - `max_body` bytes are read of a request, more are refused with 413.

    A challenge (a signed request by which a sender asks whether this URL wants its webhooks) is answered; an unsigned one,
    or somebody else's, is not. Raises `InvalidArgument` for a secret that is malformed.
    """

    def __init__(
        self,
        *secrets: str,
        handler: Handler,
        seen: Remembers | None = None,
        tolerance: float = 300.0,
        max_body: int = 1 << 20,
        keys: Sequence[str | Mapping[str, Any]] = (),
    ) -> None:
        if not callable(handler):
            raise TypeError(f"handler: must be a function of one Incoming, not {handler!r}")
        self._webhook = Webhook(*secrets)
        self._handler = handler
        self._seen: Remembers = Seen() if seen is None else seen
        self._tolerance = tolerance
        self._max_body = max_body
        self._keys = DecryptionKeys(*keys) if keys else None
        self._running: set[str] = set()

    def __repr__(self) -> str:
        return "Receiver(…)"

    async def receive(self, body: bytes, headers: Mapping[str, str], *, now: float | None = None) -> Answer:
        """Handles one request; its answer is never more than the sender may know. Never raises but what cancels it."""
        try:
            self._webhook.verify(body, headers, tolerance=self._tolerance, now=now)
        except WebhookError as error:
            _log.info("a webhook was refused: %s", error.code)
            return Answer(401)
        if (answer := _native.challenge_answer(body)) is not None:
            return Answer(200, answer, {"content-type": "application/json"})
        id = next(value for name, value in headers.items() if name.lower() == "webhook-id")
        if id in self._running:
            return Answer(503, headers={"retry-after": "1"})  # its first attempt is still at work
        self._running.add(id)
        try:
            if not await self._seen.has(id):
                handled = self._handler(Incoming(id, self._plain(body)))
                if inspect.isawaitable(handled):
                    await handled
                await self._seen.add(id)
        except Exception:  # noqa: BLE001 - whatever it is, the sender tries again
            _log.exception("the handler of a webhook failed; its sender tries again")
            return Answer(500)
        finally:
            self._running.discard(id)
        return Answer(204)

    def _plain(self, body: bytes) -> bytes:
        # Not by the content-type, which is not signed: JSON never begins as a JWE does.
        if self._keys is None or body.lstrip()[:1] in (b"{", b"["):
            return body
        return self._keys.decrypt(body)

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """One ASGI connection."""
        if not _is_http(scope):
            return
        if scope["method"] != "POST":
            await _respond(send, Answer(405, headers={"allow": "POST"}))
            return
        body = await _body(receive, self._max_body)
        if body is None:
            await _respond(send, Answer(413))
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        await _respond(send, await self.receive(body, headers))


@dataclass(frozen=True)
class ReceiverDocument:
    """The document that says which paths of this host receive webhooks, as an ASGI application for `WELL_KNOWN`.

    With it a sender needs no challenge: `Route(WELL_KNOWN, ReceiverDocument(["/hooks/"]))`. Paths are prefixes, and begin
    with a slash.
    """

    receivers: Sequence[str]
    max_age: int = 3_600
    """Seconds a sender may keep it."""
    _text: bytes = field(init=False, repr=False, default=b"")

    def __post_init__(self) -> None:
        if isinstance(self.receivers, str):
            raise TypeError("receivers: must be a list of str, not one str")
        if not self.receivers or not all(path.startswith("/") for path in self.receivers):
            raise InvalidArgument("receivers: each must be a path that begins with a slash")
        object.__setattr__(self, "_text", _native.receiver_document(list(self.receivers)))

    @property
    def text(self) -> bytes:
        """The document."""
        return self._text

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """One ASGI connection."""
        if not _is_http(scope):
            return
        if scope["method"] not in ("GET", "HEAD"):
            await _respond(send, Answer(405, headers={"allow": "GET, HEAD"}))
            return
        headers = {"content-type": "application/json", "cache-control": f"max-age={self.max_age}"}
        await _respond(send, Answer(200, b"" if scope["method"] == "HEAD" else self._text, headers))


def _is_http(scope: _Scope) -> bool:
    if scope["type"] == "http":
        return True
    if scope["type"] == "lifespan":
        raise RuntimeError("no lifespan here")  # what ASGI servers take for "not supported"
    return False


async def _body(receive: _Receive, most: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""  # the sender left
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


async def _respond(send: _Send, answer: Answer) -> None:
    headers = {"content-length": str(len(answer.body)), **answer.headers}
    if answer.status == 204:
        del headers["content-length"]  # RFC 9110 section 8.6
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": answer.body})

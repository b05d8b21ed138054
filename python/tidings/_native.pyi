"""The extension module (bindings/python); `make check-stubs` compares the two. Private: import from `tidings`."""

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, Generic, TypeVar, final

from typing_extensions import Self, disjoint_base

from ._identity import Identity

__all__ = [
    "Call",
    "DecryptionKeys",
    "Delivery",
    "Ended",
    "Endpoint",
    "Event",
    "Export",
    "Fanout",
    "Gap",
    "HostDelivery",
    "Hub",
    "Outbox",
    "Outlet",
    "Page",
    "Pending",
    "Port",
    "Profile",
    "Progress",
    "Room",
    "Stats",
    "Stream",
    "Tail",
    "Task",
    "Webhook",
    "Writer",
    "WriterHandle",
    "__version__",
    "after_fork",
    "after_fork_in_parent",
    "before_fork",
    "challenge_answer",
    "check_event",
    "check_fire",
    "check_route",
    "close_all",
    "default_retention",
    "error_table",
    "log_passes",
    "log_waits",
    "receiver_document",
    "take_log",
]

_T = TypeVar("_T")

__version__: str

def after_fork() -> None: ...
def after_fork_in_parent() -> None: ...
def before_fork() -> None: ...
def challenge_answer(body: bytes) -> bytes | None: ...
def check_event(type: str, payload: bytes | str) -> None: ...
def check_fire(name: str, payload: bytes | str) -> None: ...
def check_route(route_type: str, name: str | None) -> None: ...
def close_all(timeout: float) -> bool: ...
def default_retention() -> tuple[int | None, int | None, float | None, float | None, int | None, int | None]: ...
def error_table() -> list[tuple[str, int, bool]]: ...
def log_passes(per_request: bool, asked: str | None, level: str) -> bool: ...
def log_waits() -> bool: ...
def receiver_document(paths: list[str]) -> bytes: ...
def take_log() -> tuple[list[tuple[int, str, str]], int]: ...

@final
class Pending(Generic[_T]):
    """An operation that waits, until a port takes it."""
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class Port:
    """Where the operations of one event loop wait."""
    def __new__(cls) -> Port: ...
    def fileno(self) -> int: ...
    def park(self, pending: Pending[Any]) -> int: ...
    def drain(self) -> list[int]: ...
    def take(self, token: int) -> Any: ...
    def cancel(self, token: int) -> None: ...
    def wait(self, timeout: float) -> bool: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...

@final
class Event:
    """One event of a stream."""
    @property
    def seq(self) -> int:
        """Its number in the stream, from 0, without holes."""
    @property
    def cursor(self) -> str:
        """The cursor of a reader that has this event and all before it."""
    @property
    def type(self) -> str:
        """What it is."""
    @property
    def payload(self) -> bytes:
        """JSON text as it was given."""
    @property
    def time(self) -> float:
        """When it was appended, in seconds since the epoch."""
    @property
    def identity(self) -> bytes | None:
        """Who and what it belongs to, as JSON text of an object, if it was said."""

@final
class Gap:
    """Why a read could not be complete. What follows it goes on after the hole."""
    @property
    def reason(self) -> str:
        """`evicted`, `regressed`, `lost` or `unknown`."""
    @property
    def earliest_seq(self) -> int | None:
        """The first event that is there."""
    @property
    def head_seq(self) -> int | None:
        """The newest event."""
    @property
    def cursor(self) -> str:
        """The cursor of a reader that was told this gap."""

@final
class Page:
    """Events of one read."""
    @property
    def events(self) -> list[Event]:
        """In order."""
    @property
    def gap(self) -> Gap | None:
        """Tell this first: the read could not be complete."""
    @property
    def cursor(self) -> str:
        """Where the reader stands after these events."""
    @property
    def head_seq(self) -> int | None:
        """The newest event's number; `None` if there never was one."""
    @property
    def ended(self) -> bool:
        """The stream is closed and the events reach its end."""

@final
class Ended:
    """How a call ended."""
    @property
    def outcome(self) -> str:
        """`completed`, `failed`, `cancelled` or `timeout`."""
    @property
    def reason(self) -> str | None:
        """Why, where the outcome alone does not say."""
    @property
    def ours(self) -> bool:
        """It was this very request to end the call that won; otherwise the call had ended before."""
    @property
    def committed(self) -> bool:
        """The outcome is on disk. If not, the store did not take it in time; it is tried again while the process lives."""
    @property
    def undelivered(self) -> str | None:
        """The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered."""

@final
class Delivery:
    """One delivery, for people."""
    @property
    def id(self) -> str:
        """Its own id."""
    @property
    def event_id(self) -> str:
        """The firing's id: the `webhook-id`, the same on every attempt and route."""
    @property
    def call_id(self) -> str | None:
        """The call it is about, if it is about one."""
    @property
    def principal(self) -> str:
        """On whose behalf."""
    @property
    def trigger(self) -> str:
        """The trigger that fired."""
    @property
    def route(self) -> str:
        """The route's id."""
    @property
    def state(self) -> str:
        """`pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`."""
    @property
    def attempts(self) -> int:
        """Attempts begun."""
    @property
    def last_error(self) -> str | None:
        """The category of the last failure, never the receiver's own text."""

@final
class Task:
    """A task as it was when it was asked for."""
    @property
    def status(self) -> str:
        """`working`, `input_required`, `completed`, `failed` or `cancelled`."""
    @property
    def json(self) -> str:
        """The `DetailedTask` of SEP-2663, as JSON text."""
    @property
    def scope(self) -> str:
        """The scope of the stream of its events."""
    @property
    def name(self) -> str:
        """The stream's name there."""

@final
class Stats:
    """What a hub has done and holds, at one moment."""
    @property
    def groups(self) -> int:
        """Groups committed by this process."""
    @property
    def events(self) -> int:
        """Events of this process's writers committed."""
    @property
    def lost(self) -> int:
        """Events given up while the store was down."""
    @property
    def refused(self) -> int:
        """Events dropped because another writer had claimed the stream or it was closed."""
    @property
    def failures(self) -> int:
        """Groups that failed."""
    @property
    def failing(self) -> bool:
        """The last group failed: events wait in memory."""
    @property
    def attempts(self) -> int:
        """Attempts at deliveries that ended."""
    @property
    def delivered(self) -> int:
        """Deliveries that ended here as `delivered`."""
    @property
    def dead(self) -> int:
        """The same as `dead`."""
    @property
    def expired(self) -> int:
        """The same as `expired`."""
    @property
    def superseded(self) -> int:
        """The same as `superseded`: the next route took over."""
    @property
    def in_flight(self) -> int:
        """Attempts at webhooks under way."""

@final
class Endpoint:
    """A URL of one principal, as deliveries know it. Never the URL itself, which may hold a secret."""
    @property
    def key(self) -> str:
        """Its key, in hex."""
    @property
    def principal(self) -> str:
        """Whose it is."""
    @property
    def host(self) -> str:
        """Its host."""
    @property
    def state(self) -> str:
        """`unverified`, `verified` or `disabled`."""
    @property
    def proof(self) -> str | None:
        """How it was verified: `challenge`, `well_known`, `allow_list` or `address`."""
    @property
    def disabled(self) -> str | None:
        """Why it is disabled: `gone`, `failing`, `unverified` or `operator`."""
    @property
    def failures(self) -> int:
        """Failures in a row."""
    @property
    def tripped(self) -> bool:
        """Its breaker has opened since the last success."""
    @property
    def last_error(self) -> str | None:
        """The category of the last failure."""

@final
class WriterHandle:
    """A writer on its way to its Python class, which takes it once."""

@disjoint_base
class Writer:
    """The right of one writer to number a stream in memory."""
    def __new__(cls, handle: WriterHandle) -> Self: ...
    @property
    def stream(self) -> str:
        """The stream's random id."""
    def append(
        self,
        payload: bytes | str,
        *,
        type: str = "message",
        close: bool = False,
        give_up: bool = False,
        identity: Mapping[str, str] | Identity | None = None,
    ) -> str:
        """Appends one event and returns its cursor, without waiting for anything.

        `payload` is JSON text, kept byte for byte and not checked. `close` closes the stream after it. `identity` says who
        and what it belongs to: `task`, `session`, `turn`, `toolCall`, `sourceType`. Raises `ClosedError`, `FencedError`,
        `CongestedError`, `TooLargeError` or `ForkedError`. With `give_up` the oldest buffered events go, and are told as a
        gap, where it would raise `CongestedError`.
        """
    def append_many(
        self,
        payloads: list[bytes | str],
        *,
        type: str = "message",
        close: bool = False,
        identity: Mapping[str, str] | Identity | None = None,
    ) -> list[str]:
        """Appends events of one type, all of them or none, and returns their cursors. They become visible together; `close`
        closes the stream after them in the same step.
        """
    def cursor(self) -> str:
        """The cursor of a reader that has everything appended so far."""
    @property
    def congested(self) -> bool:
        """More is buffered than is good: whoever can should wait for `flush`."""
    @property
    def closed(self) -> bool:
        """Whether the stream takes no more events from this writer."""
    def close(self) -> None:
        """Closes the stream after the last event, without waiting. Raises `ClosedError` when it is closed already."""
    def _flush(self, durability: str) -> Pending[None] | None: ...

@final
class Stream:
    """A stream, by its key."""
    @property
    def scope(self) -> str: ...
    @property
    def name(self) -> str: ...
    def append(
        self,
        payloads: list[bytes | str],
        *,
        type: str,
        identity: Mapping[str, str] | Identity | None,
        close: bool,
        key: str | None,
        durability: str,
    ) -> Pending[int] | int: ...
    def export(self, after: int | str | None) -> Export: ...
    def claim(self) -> Pending[WriterHandle] | WriterHandle: ...
    def close(self) -> Pending[None] | None: ...
    def read(self, after: int | str | None, limit: int) -> Page: ...
    def tail(self, after: int | str | None) -> Tail: ...

@final
class Export:
    """A stream as JSON Lines, a page at a time."""
    def lines(self) -> list[bytes] | None:
        """The next lines, or `None` at the end."""

@final
class Tail:
    """A reader that replays and goes on live."""
    @property
    def stream(self) -> str: ...
    def cursor(self) -> str: ...
    def next(self) -> Pending[list[Event | Gap] | None] | list[Event | Gap] | None:
        """The next batch, `None` at the end, an empty list to ask again; or a `Pending` of that."""
    def abandoned(self) -> bool: ...
    def close(self) -> None: ...

@final
class Outlet:
    """A place that takes deliveries."""
    def next(self) -> Pending[HostDelivery | None] | HostDelivery | None: ...
    def close(self) -> None: ...

@final
class HostDelivery:
    """A delivery in a handler's hands."""
    @property
    def id(self) -> str:
        """Its own id."""
    @property
    def event_id(self) -> str:
        """The firing's id: the same on every attempt and route."""
    @property
    def call_id(self) -> str | None:
        """The call it is about, if it is about one."""
    @property
    def principal(self) -> str:
        """On whose behalf."""
    @property
    def trigger(self) -> str:
        """The trigger that fired."""
    @property
    def route(self) -> str:
        """The route's id."""
    @property
    def route_type(self) -> str:
        """The route's type."""
    @property
    def endpoint(self) -> str | None:
        """What the client named, if it did."""
    @property
    def signal(self) -> str | None:
        """The signal to ring with, for a route of type `signal`."""
    @property
    def attempt(self) -> int:
        """Attempts begun, this one included."""
    @property
    def body(self) -> bytes:
        """The JSON text that a webhook would carry."""
    def frame(self) -> bytes:
        """The JSON-RPC notification `notifications/io.tidings/triggered` that carries it."""
    def _confirm(self) -> bool: ...
    def _refuse(self, why: str) -> bool: ...

@final
class Call:
    """A watched call."""
    @property
    def id(self) -> str: ...
    @property
    def accepted_routes(self) -> list[str]: ...
    @property
    def ignored_triggers(self) -> list[str]: ...
    def acknowledgement(self) -> bytes: ...
    def emit(self, type: str, payload: bytes | str) -> int: ...
    def fire(self, name: str, payload: bytes | str) -> int: ...
    def become_task(self, ttl: float, bound: bool) -> Pending[bool] | bool: ...
    def ask(self, requests: bytes | str) -> Pending[bytes] | bytes: ...
    def detach(self, counted_as: str, calls: int, time: float) -> bool: ...
    def disconnected(self) -> None: ...
    def complete(self, result: bytes | str) -> Pending[Ended] | Ended: ...
    def fail(self, error: bytes | str | None, reason: str | None) -> Pending[Ended] | Ended: ...
    def cancel(self, reason: str | None) -> Pending[Ended] | Ended: ...
    def ended(self) -> Pending[Ended] | Ended: ...

@final
class Hub:
    """The hub."""
    def __new__(
        cls,
        url: str,
        *,
        allow_networks: list[str],
        allow_hosts: list[str],
        allow_http: bool,
        allow_ports: list[int],
        proxy: str | None,
        default_secret: str | None,
        previous_secret: str | None,
        require_secret: bool,
        verify: str | None,
        concurrency: int | None,
        endpoint_concurrency: int | None,
        endpoint_rate: int | None,
        host_rate: int | None,
        max_pending: int | None,
        undeliverable: str | None,
        secret_key: bytes | None,
        retention: tuple[int | None, int | None, float | None, float | None, int | None, int | None] | None,
        header_names: list[str],
        redact: list[str],
        attempt_timeout: float | None,
        worker_lease: float | None,
        max_body_bytes: int | None,
        buffer_bytes: int | None,
    ) -> Hub: ...
    def open(self) -> None: ...
    def new_writer(self, scope: str, name: str) -> WriterHandle: ...
    def resume(self, scope: str, cursor: str) -> Tail: ...
    def stream(self, scope: str, name: str) -> Stream: ...
    def begin_call(
        self,
        *,
        config: bytes | str | None,
        route_types: list[str],
        principal: str,
        session: str | None,
        peer: str | None,
        open: list[str],
        request_id: int | str,
        tool: str,
        timeout: float | None,
        task: tuple[float, bool] | None,
        traceparent: str | None,
    ) -> Pending[Call] | Call: ...
    def cancel_call(self, id: str, asker: str) -> Pending[bool] | bool: ...
    def check_config(
        self, config: bytes | str, route_types: list[str], open: list[str], has_peer: bool
    ) -> list[str]: ...
    def offers(self, route_type: str, name: str | None) -> bool: ...
    def outlet(
        self, route_type: str, name: str | None, peer: str | None, limit: int | None, timeout: float | None
    ) -> Outlet: ...
    def task(self, id: str, asker: str) -> Task | None: ...
    def cancel_task(self, id: str, asker: str) -> Pending[bool] | bool: ...
    def answer_task(self, id: str, asker: str, responses: bytes | str) -> Pending[bool] | bool: ...
    def outbox(self) -> Outbox: ...
    def notify(self, kinds: list[str], name: str | None, audience: str | None) -> Fanout: ...
    def failed_sinks(self) -> list[tuple[int, int]]: ...
    def deliveries(
        self, principal: str | None, call_id: str | None, state: str | None, limit: int
    ) -> list[Delivery]: ...
    def room(self, counted_as: str, calls: int) -> Room | None: ...
    def detached(self) -> int: ...
    def stats(self) -> Stats: ...
    def attempts(self, id: str) -> list[str | None]: ...
    def delivery_body(self, id: str) -> bytes | None: ...
    def send_again(self, id: str) -> str: ...
    def purge(self, id: str | None, principal: str | None, state: str | None) -> int: ...
    def endpoints(self, principal: str | None, limit: int) -> list[Endpoint]: ...
    def set_endpoint(self, key: str, enabled: bool) -> None: ...
    def set_paused(self, paused: bool) -> None: ...
    def drain(self, timeout: float) -> Pending[bool] | bool: ...
    def prometheus(self) -> str: ...
    def flush(self, durability: str) -> Pending[None] | None: ...
    def close(self, timeout: float) -> Pending[bool] | bool: ...

@final
class Profile:
    """What a peer and its server negotiated."""
    def __new__(cls, version: str, server: str, client: str) -> Profile: ...
    @property
    def listens(self) -> bool:
        """Whether peers of this version are told only within acknowledged filters."""
    def honoured(self, filter: str) -> str:
        """The part of a listener's filter that is honoured; both are JSON text."""

@final
class Fanout:
    """What a publish came to, in this process, in listeners."""
    @property
    def told(self) -> int:
        """It is queued for them, or coalesced with what was."""
    @property
    def skipped(self) -> int:
        """They did not ask for it, or may not hear of it, or cannot be reached."""
    @property
    def failed(self) -> int:
        """They asked for it, and their connections were found not to have taken a frame in time."""
    def __eq__(self, value: object, /) -> bool: ...

@final
class Outbox:
    """Where the host of one event loop takes frames for its connections."""
    @property
    def number(self) -> int: ...
    def add_sink(self, principal: str | None, deadline: float | None) -> int: ...
    def attend(self, sink: int, profile: Profile) -> int: ...
    def listen(self, sink: int, profile: Profile, id: int | str, filter: str) -> int: ...
    def open(self, listener: int) -> None: ...
    def subscribe(self, listener: int, profile: Profile, name: str) -> None: ...
    def unsubscribe(self, listener: int, profile: Profile, name: str) -> None: ...
    def set_reachable(self, sink: int, reachable: bool) -> None: ...
    def end(self, listener: int) -> None: ...
    def end_all(self) -> None: ...
    def cancel(self, listener: int) -> bool: ...
    def drop_sink(self, sink: int) -> int: ...
    def take(self, limit: int) -> list[tuple[int, int, str | None, str | None]]: ...
    def written(self, sink: int, frames: int) -> bool: ...
    def broke(self, sink: int) -> int: ...
    def ready(self) -> Pending[None] | None: ...
    def __len__(self) -> int: ...

@final
class Progress:
    """The progress of one request."""
    def __new__(cls, token: int | str | None, min_interval: float) -> Progress: ...
    def report(
        self, progress: float, total: float | None, message: str | None, now: float
    ) -> tuple[str | None, str | None]:
        """The parameters of the notification as JSON text and `None`, or `None` and why there is none."""
    def end(self) -> None: ...

@final
class DecryptionKeys:
    """The private keys of a receiver."""
    def __new__(cls, keys: list[str]) -> DecryptionKeys: ...
    def decrypt(self, body: bytes) -> bytes: ...

@final
class Room:
    """Room for one call that goes on without its request."""
    def release(self) -> None:
        """Gives it back; doing so again changes nothing."""

@final
class Webhook:
    """The secrets of a sender."""
    def __new__(cls, secrets: list[str]) -> Webhook: ...
    def verify(self, body: bytes, headers: list[tuple[str, str]], now: int, tolerance: int) -> None: ...
    def sign(self, body: bytes, id: str, timestamp: int) -> list[tuple[str, str]]: ...

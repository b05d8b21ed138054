"""The hub."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import _log, _native, _port, _routes
from ._call import Call
from ._errors import InvalidArgument
from ._native import Delivery, Endpoint, Fanout, Room, Stats, Task
from ._port import wait
from ._routes import LIMIT, TIMEOUT, Handler
from ._stream import Stream, Tail, Writer
from .fanout import Outbox, Sink

if sys.version_info >= (3, 11):
    from typing import Self
else:  # pragma: no cover
    Self = Any

T = TypeVar("T")

_EVENTS, _BYTES, _AGE, _AFTER_CLOSE, _TOTAL_EVENTS, _TOTAL_BYTES = _native.default_retention()


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How much is kept, of each stream and of all; whichever limit cuts first, cuts. `None` sets no limit.

    Events leave oldest first. A stream's head and identity outlive its events, so that a reader who comes too late is
    told of a gap. When all streams together keep too much, closed streams lose all but their last event first, those closed
    longest before others; then goes what was committed first.
    """

    max_events: int | None = _EVENTS
    """At most this many events."""
    max_bytes: int | None = _BYTES
    """At most about this many bytes (whole stored chunks are cut)."""
    max_age: float | None = _AGE
    """No event older than about this many seconds."""
    after_close: float | None = _AFTER_CLOSE
    """The whole stream goes this many seconds after it was closed."""
    max_total_events: int | None = _TOTAL_EVENTS
    """At most this many events of all streams."""
    max_total_bytes: int | None = _TOTAL_BYTES
    """At most about this many bytes of all streams."""


class Hub:
    """The entry point: one store, and the threads that serve it.

    Cheap to make, also before a fork: it opens at first use, in the process that uses it. A hub that nobody closed is
    closed when the process ends, which takes at most two seconds.

    - `url`: `memory:`, `sqlite:PATH` or `sqlite:///PATH`.
    - `allow_networks`, `allow_hosts`, `allow_ports`, `allow_http`: where webhooks may go besides `https`, port 443 and
      public addresses; for development and private networks.
    - `proxy` (``http://[user:password@]host:port``): the HTTP proxy through which webhooks leave, by ``CONNECT`` to an
      address that was looked up and checked here. Never taken from the environment.
    - `default_secret` (`whsec_…`) signs webhooks whose route brings no secret; `previous_secret` signs them too while
      receivers change over; `require_secret` refuses those that would go unsigned.
    - `verify`: what a URL has to show before its first delivery. `challenge` (default): that it wants webhooks, by echoing
      a signed challenge or by its origin's `/.well-known/mcp-webhook-receiver.json`, unless `allow_hosts` or
      `allow_networks` vouches for it. `always`: those too. `address`: nothing.
    - `concurrency` (default 128), `endpoint_concurrency` (8): attempts under way at a time, in all and at one URL of one
      principal. One that takes longer than half a second counts no more in all where it would keep others waiting; of those there
      are at most as many again. `endpoint_rate` (100), `host_rate` (500): attempts a second; 0 is no limit.
    - `max_pending` (default 1,000): unfinished deliveries of one principal.
    - `undeliverable`: what becomes of a firing that no route can carry: `drop` it, or `annotate` the tool's result.
    - `secret_key`: 32 bytes that seal secrets at rest. Without it a key file beside the database does.
    - `retention`: what is kept, of each stream and of all.
    - `header_names`: names that a route's headers may have besides `authorization` and `x-*`.
    - `redact`: what is taken out of every event and outcome before anything is kept or told: names of members, at every
      depth, and JSON Pointers (``/result/structuredContent/card``) into the event's payload, which of an outcome is
      ``{"status", "reason"?, "result" | "error"?}``. ``"[redacted]"`` stands in the value's place. A connected client still
      gets its tool's whole result.
    - `attempt_timeout` (default 10 s): one webhook attempt, from name lookup to response.
    - `worker_lease` (default 15 s): a process that was not heard of for so long is taken for dead, and its calls end as
      `failed`, reason `server_lost`.
    - `max_body_bytes` (default 256 KiB): a webhook body of more carries the truncated form of the outcome.
    - `buffer_bytes` (default 64 MiB): events that may wait for the store in memory.

    Raises `InvalidArgument`, which names the argument and the rule.
    """

    __slots__ = ("__weakref__", "_native", "_registered", "_url")

    def __init__(
        self,
        url: str = "sqlite:tidings.db",
        *,
        allow_networks: Sequence[str] = (),
        allow_hosts: Sequence[str] = (),
        allow_http: bool = False,
        allow_ports: Sequence[int] = (),
        proxy: str | None = None,
        default_secret: str | None = None,
        previous_secret: str | None = None,
        require_secret: bool = False,
        verify: Literal["challenge", "always", "address"] | None = None,
        concurrency: int | None = None,
        endpoint_concurrency: int | None = None,
        endpoint_rate: int | None = None,
        host_rate: int | None = None,
        max_pending: int | None = None,
        undeliverable: Literal["drop", "annotate"] | None = None,
        secret_key: bytes | None = None,
        retention: Retention | None = None,
        header_names: Sequence[str] = (),
        redact: Sequence[str] = (),
        attempt_timeout: float | None = None,
        worker_lease: float | None = None,
        max_body_bytes: int | None = None,
        buffer_bytes: int | None = None,
    ) -> None:
        self._url = url
        self._registered: list[_routes.Route] = []
        keep = retention
        self._native = _native.Hub(
            url,
            allow_networks=_texts("allow_networks", allow_networks),
            allow_hosts=_texts("allow_hosts", allow_hosts),
            allow_http=allow_http,
            allow_ports=list(allow_ports),
            proxy=proxy,
            default_secret=default_secret,
            previous_secret=previous_secret,
            require_secret=require_secret,
            verify=verify,
            concurrency=concurrency,
            endpoint_concurrency=endpoint_concurrency,
            endpoint_rate=endpoint_rate,
            host_rate=host_rate,
            max_pending=max_pending,
            undeliverable=undeliverable,
            secret_key=secret_key,
            retention=None
            if keep is None
            else (
                keep.max_events,
                keep.max_bytes,
                keep.max_age,
                keep.after_close,
                keep.max_total_events,
                keep.max_total_bytes,
            ),
            header_names=_texts("header_names", header_names),
            redact=_texts("redact", redact),
            attempt_timeout=attempt_timeout,
            worker_lease=worker_lease,
            max_body_bytes=max_body_bytes,
            buffer_bytes=buffer_bytes,
        )

    def __repr__(self) -> str:
        return f"Hub({self._url!r})"

    def open(self) -> None:
        """Opens the store now, so that what is wrong with it is told here and not at first use. Blocks."""
        self._native.open()

    def new_writer(self, scope: str, name: str) -> Writer:
        """A writer of a new stream, at once: the stream comes to be with its first event.

        For keys that nobody else uses. If the key turns out to be taken, the writer is refused, and its events are
        dropped and counted; `stream(…).claim()` takes over a stream that is there.
        """
        return Writer(self._native.new_writer(scope, name))

    def resume(self, scope: str, cursor: str) -> Tail:
        """A tail after a cursor, whatever its stream's name, if the stream belongs to `scope`.

        Raises `CursorError` for a cursor that is malformed, unknown or of another scope.
        """
        return Tail(self._native.resume(scope, cursor))

    def stream(self, scope: str, name: str) -> Stream:
        """The stream of that key."""
        return Stream(self._native.stream(scope, name))

    async def begin_call(
        self,
        *,
        config: bytes | str | None,
        route_types: Sequence[str] = ("webhook",),
        principal: str,
        session: str | None = None,
        peer: str | None = None,
        open: Sequence[str] = (),
        request_id: int | str,
        tool: str,
        timeout: float | None = None,
        task_ttl: float | None = None,
        task_bound: bool = True,
        traceparent: str | None = None,
    ) -> Call:
        """Accepts a tool call that asks to be watched; it is on disk when this returns.

        `traceparent` (W3C) is carried on as a header of the call's webhooks.

        `config` is the raw JSON text of `notificationConfig`, if it has one; `timeout` is the server's limit, which the config
        may only lower. `open` are the names that routes of type `message` and `callback` may have; `peer` is your own name for
        the connection of the calling session, where one outlives the request, for routes that go there. With `task_ttl` the call is a task from the start, see `Call.become_task`. Raises `ConfigError`, which lists the broken rules; nothing runs then.

        Whoever is cancelled while this waits leaves no call behind: it is cancelled too.
        """
        native = await wait(
            self._native.begin_call(
                config=config,
                route_types=_texts("route_types", route_types),
                principal=principal,
                session=session,
                peer=peer,
                open=_texts("open", open),
                request_id=request_id,
                tool=tool,
                timeout=timeout,
                task=None if task_ttl is None else (task_ttl, task_bound),
                traceparent=traceparent,
            )
        )
        return Call(native)

    def register_route_type(self, name: str, handler: Handler, *, limit: int = LIMIT, timeout: float = TIMEOUT) -> None:
        """Adds a route type of your own: `handler` gets each delivery of routes of type `name`, whatever their `endpoint`.

        The handler is a function of a `HostDelivery`, async, or sync (then it runs in a thread). It confirms by returning,
        refuses by returning `False` (the trigger's next route has its turn), and fails by raising or by taking longer than
        `timeout` seconds (tried again, as a webhook would be). At most `limit` deliveries are in its hands or queued for it;
        the others wait in the store. It may see a delivery twice, under the same `event_id`.

        It is served once `serve_routes` runs (`tidings.mcp.attach` runs it); until then such routes count as not
        deliverable. Raises `InvalidArgument` for a name that is taken or breaks the rules, which names them.
        """
        self._register(_routes.route(name, handler, limit=limit, timeout=timeout))

    def register_callback(self, name: str, handler: Handler, *, limit: int = LIMIT, timeout: float = TIMEOUT) -> None:
        """Adds a handler for routes of type `callback` with the `endpoint` `name`; see `register_route_type`. Clients may name
        it only where the policy opens it."""
        self._register(_routes.route("callback", handler, name=_name(name), limit=limit, timeout=timeout))

    def register_sink(self, name: str, handler: Handler, *, limit: int = LIMIT, timeout: float = TIMEOUT) -> None:
        """Adds a place for routes of type `message` with the `endpoint` `name`; see `register_route_type`. The handler gets
        one delivery after the other, and sends `delivery.frame()`. Clients may name it only where the policy opens it."""
        self._register(_routes.route("message", handler, name=_name(name), limit=limit, timeout=timeout, in_order=True))

    def _register(self, route: _routes.Route) -> None:
        key = (route.route_type, route.name)
        if any((other.route_type, other.name) == key for other in self._registered):
            raise InvalidArgument(f"name: {route.name or route.route_type!r} is registered already")
        _native.check_route(route.route_type, route.name)
        self._registered.append(route)

    @property
    def route_types(self) -> list[str]:
        """The route types that were registered."""
        return list(dict.fromkeys(route.route_type for route in self._registered))

    def serves(self, route_type: str, name: str | None = None) -> bool:
        """Whether this process serves such a place now: a type of your own, or a `callback` or `message` of that name."""
        return self._native.offers(route_type, name)

    async def serve_routes(self) -> None:
        """Hands deliveries to what was registered before, until it is cancelled or the hub closes.

        Under asyncio, uvloop or trio; in a program without an event loop, `hub.run(hub.serve_routes())` in a thread.
        """
        await _routes.serve([route.open(self._native) for route in self._registered])

    async def serve_sink(self, name: str, handler: Handler, *, limit: int = 16, timeout: float = TIMEOUT) -> None:
        """Serves a place for routes of type `message` that comes and goes, such as an open WebSocket, until it is cancelled or
        the hub closes; see `register_sink`."""
        route = _routes.route("message", handler, name=_name(name), limit=limit, timeout=timeout, in_order=True)
        await _routes.serve([route.open(self._native)])

    def _offer_peer(self, route_type: str, peer: str, handler: Handler) -> _routes.Place:
        """The connection of a session as a place for deliveries, from now on; `_routes.serve` hands them over."""
        return _routes.route(route_type, handler, peer=peer, limit=16, in_order=True).open(self._native)

    def check_config(
        self,
        config: bytes | str,
        *,
        route_types: Sequence[str] = ("webhook",),
        open: Sequence[str] = (),
        peer: bool = True,
    ) -> list[str]:
        """Judges a `notificationConfig` (raw JSON text) as `begin_call` would, without a call; raises `ConfigError`.

        Returns the names of triggers that nothing here fires. `peer`: whether the calling session has a connection that
        outlives the request. Opens nothing.
        """
        return self._native.check_config(config, _texts("route_types", route_types), _texts("open", open), peer)

    async def cancel_call(self, call_id: str, *, principal: str) -> bool:
        """Ends a call as `cancelled`, in whichever process it runs, unless it has ended.

        `False`: there is none of that id, or it is another principal's; which of them is not told.
        """
        return await wait(self._native.cancel_call(call_id, principal))

    def task(self, task_id: str, *, principal: str) -> Task | None:
        """The task of that id, for the principal who asks.

        `None`: there is none, it is not theirs, or its time is over; which of them is not told.
        """
        return self._native.task(task_id, principal)

    async def cancel_task(self, task_id: str, *, principal: str) -> bool:
        """Ends a task as `cancelled`, in whichever process it runs, unless it has ended; `False` where `task` finds none."""
        return await wait(self._native.cancel_task(task_id, principal))

    async def answer_task(self, task_id: str, responses: bytes | str, *, principal: str) -> bool:
        """Gives a task its client's answers, in whichever process it runs: the JSON text of an object, ``{key: response}``.

        On disk when this returns; answers to what is not outstanding are ignored. `False` where `task` finds none. See
        `Call.ask`.
        """
        return await wait(self._native.answer_task(task_id, principal, responses))

    def notify(self, *kinds: str, uri: str | None = None, audience: str | None = None) -> Fanout:
        """Tells everybody who asked for it that something has changed, each once; never waits.

        `kinds`: `tools`, `prompts`, `resources`, `resource_templates`, `events`. `uri`: that one resource. With `audience`
        only connections of that principal are told. The answer counts listeners of this process; those of other processes
        on the same store are told within milliseconds. Whoever changes many things may call it each time: what comes
        before a connection was written to is one frame.

        Raises `InvalidArgument` for a kind that there is not.
        """
        named = kinds if uri is None else (*kinds, "resource")
        return self._native.notify(list(named), uri, audience)

    def outbox(self) -> Outbox:
        """A place to take notifications for connections of your own, one for each event loop; see `tidings.fanout`."""
        return Outbox(self)

    def failed_sinks(self) -> list[Sink]:
        """The connections that have failed since this was last asked, each once: one that did not take a notification, or not
        in time, has lost its listeners, and is told nothing more under this handle. `notify` cannot know of it yet when it
        answers. Handles are opaque: to be counted, compared with one another and with those of `tidings.fanout.Outbox`, or
        used as keys; connections that `tidings.mcp.attach` registered are among them. At most the newest 4,096 are kept.
        """
        return [Sink(outbox, number) for outbox, number in self._native.failed_sinks()]

    def deliveries(
        self,
        call_id: str | None = None,
        state: str | None = None,
        limit: int = 100,
        *,
        principal: str | None = None,
    ) -> list[Delivery]:
        """Deliveries of one call or all, in one state or any, of one principal or all, oldest first. They hold no body,
        address or secret.

        Without `principal` these are everybody's, for the operator. With one they are what may be shown to a client: its own
        (of somebody else's call there are none), and `last_error` as it may know it, so that a denied address looks like
        one that refuses.
        """
        return self._native.deliveries(principal, call_id, state, limit)

    def attempts(self, delivery_id: str) -> list[str | None]:
        """What the settled attempts of a delivery came to, in order: the category of each failure, `None` for the one that
        was taken."""
        return self._native.attempts(delivery_id)

    def delivery_body(self, delivery_id: str) -> bytes | None:
        """The body of a delivery as it was sent, where its route encrypts before that; `None`: there is none of that id."""
        return self._native.delivery_body(delivery_id)

    def send_again(self, delivery_id: str) -> str:
        """Sends a dead letter again, with the same `webhook-id` and bytes; answers the id of the new delivery. Blocks.

        Raises `InvalidArgument` where no delivery of that id was given up.
        """
        return self._native.send_again(delivery_id)

    def purge(self, delivery_id: str | None = None, *, principal: str | None = None, state: str | None = None) -> int:
        """Forgets finished deliveries before their time: one, all of a principal or in a state, or all. Answers how many.
        Blocks."""
        return self._native.purge(delivery_id, principal, state)

    def endpoints(self, principal: str | None = None, limit: int = 100) -> list[Endpoint]:
        """The URLs that configs have named, of a principal or of all, and where they stand."""
        return self._native.endpoints(principal, limit)

    def enable_endpoint(self, key: str) -> None:
        """Has an endpoint tried again: verified anew where it needs that, else at once. Blocks."""
        self._native.set_endpoint(key, True)

    def disable_endpoint(self, key: str) -> None:
        """Sends nothing more to an endpoint until it is enabled or verified again. Blocks."""
        self._native.set_endpoint(key, False)

    def pause(self) -> None:
        """Holds deliveries back in this process until `unpause`; what fires meanwhile is kept."""
        self._native.set_paused(True)

    def unpause(self) -> None:
        """Ends a `pause`."""
        self._native.set_paused(False)

    async def drain(self, timeout: float = 10.0) -> bool:
        """Pauses, and waits at most `timeout` seconds for the attempts under way; whether they have ended."""
        return await wait(self._native.drain(timeout))

    def prometheus(self) -> str:
        """Counters of this process in Prometheus's text format, for a `/metrics` of yours."""
        return self._native.prometheus()

    def room(self, counted_as: str, *, calls: int = 64) -> Room | None:
        """Room for one call that is to go on without its request by an adapter's own doing, such as a task.

        It is counted under that name together with what `Call.detach` let go on, until its `release()`. `None`: `calls` of
        them do so already, in this process. Opens nothing.
        """
        return self._native.room(counted_as, calls)

    @property
    def detached(self) -> int:
        """How many calls of this process go on without their request."""
        return self._native.detached()

    def stats(self) -> Stats:
        """What the hub has done and holds; all zero before its first use."""
        return self._native.stats()

    async def flush(self, durability: Literal["process", "disk"] = "process") -> None:
        """Waits until everything that was appended before, by every writer of this process, is committed; `disk`: until it
        survives the loss of power. Raises `UnavailableError` while the store fails."""
        await wait(self._native.flush(durability))

    async def close(self, timeout: float = 2.0) -> bool:
        """Ends running calls (`failed`, reason `shutdown`), commits what is buffered, closes the store.

        Takes at most about `timeout` seconds; `False`: not all was done by then. Goes on when the wait is cancelled.
        """
        complete = await wait(self._native.close(timeout))
        _log.flush()
        return complete

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs an async function of this library in a thread without an event loop: `hub.run(hub.close())`.

        The function may await methods of this library only. Ctrl-C ends it with `KeyboardInterrupt`.
        """
        return _port.run(coroutine)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()


def _name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name: must be str, not {type(name).__name__}")
    if not name:
        raise InvalidArgument("name: must not be empty")
    return name


def _texts(name: str, values: Sequence[str]) -> list[str]:
    if isinstance(values, str):
        # A str is a sequence of str, and hardly what was meant.
        raise TypeError(f"{name}: must be a list of str, not one str")
    return list(values)

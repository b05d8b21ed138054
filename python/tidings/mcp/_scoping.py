"""Giving every transport of the SDK an event store of its own session.

The SDK's `EventStore` interface does not say which session an event belongs to, and its stream ids are bare request
ids, so one store shared by a manager mixes sessions. The only place that knows both the store and the session is a
transport's constructor; it is wrapped once, at class level, and acts only on transports that were given a
`tidings.mcp.EventStore`. That covers the SDK's session manager and any other that makes the SDK's transports, also where
the store comes inside a wrapper (FastMCP's `SessionScopedEventStore` would hold a replay back until it is over and throw
a tailing one away).

A session manager is wrapped in the same way in two places: where it admits a session, which is where the session's owner
is known, and where it handles a request with a session, which is where it would answer 404 for a session that it does not hold.
"""

from __future__ import annotations

import functools
import uuid
import weakref
from typing import TYPE_CHECKING, Any, Final

from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.requests import Request

from . import _principals, _resume, _transports

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from ._event_store import EventStore

_MARK: Final = "__tidings_scoped__"

_here: Final[weakref.WeakValueDictionary[str, StreamableHTTPServerTransport]] = weakref.WeakValueDictionary()
"""The transports of this process's sessions that have a store of ours, by session id."""

_json: Final[weakref.WeakValueDictionary[str, StreamableHTTPServerTransport]] = weakref.WeakValueDictionary()
"""The transports of this process's sessions whose answers are single JSON texts, by session id."""

_all: Final[weakref.WeakValueDictionary[str, StreamableHTTPServerTransport]] = weakref.WeakValueDictionary()
"""The transports of this process's sessions, with whatever store, by session id."""

_defaults: Final[weakref.WeakKeyDictionary[Any, EventStore]] = weakref.WeakKeyDictionary()
"""What managers use that were given no event store, by the server they serve."""


def install() -> None:
    """Wrap the SDK's transport and session manager. Doing it twice does nothing."""
    _wrap(StreamableHTTPServerTransport, "__init__", _make_init)
    _wrap(StreamableHTTPSessionManager, "_admit_session", _make_admit)
    _wrap(StreamableHTTPSessionManager, "_handle_stateful_request", _make_handle)


def default_store(server: Any, store: EventStore) -> None:
    """Sessions of `server` get `store` when their manager was made without any."""
    _defaults[server] = store


def lives_here(session_id: str) -> bool:
    """Whether this process holds the session."""
    transport = _here.get(session_id)
    return transport is not None and not transport.is_terminated


def is_over(session_id: str) -> bool:
    """Whether a session of this process was ended: what is sent to it now is read by nobody, which the SDK does not say."""
    transport = _all.get(session_id)
    return transport is not None and transport.is_terminated


def answers_in_json(session_id: str | None) -> bool:
    """Whether the answers of a session of this process are single JSON texts, beside which nothing can be sent."""
    return session_id is not None and session_id in _json


def arrives(session_id: str) -> bool:
    """Whether what is sent outside any request can reach a session's client: it has a stream open for it, or the event
    store keeps it. A session whose transport is not known is taken to be reachable."""
    transport = _all.get(session_id)
    if transport is None:
        return True
    return session_id in _here or _transports.has_stream_of_its_own(transport)


def close_own_stream(session_id: str) -> bool:
    """Close the stream a session's client has open for what belongs to no request, where the event store keeps what it
    misses; whether that is so."""
    transport = _here.get(session_id)
    if transport is None:
        return False
    transport.close_standalone_sse_stream()
    return True


def _wrap(cls: type, name: str, make: Any) -> None:
    original = cls.__dict__[name]
    if not hasattr(original, _MARK):
        wrapper = functools.wraps(original)(make(original))
        setattr(wrapper, _MARK, True)
        setattr(cls, name, wrapper)


def _make_init(original: Any) -> Any:
    def init(self: StreamableHTTPServerTransport, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.is_json_response_enabled and self.mcp_session_id is not None:
            _json[self.mcp_session_id] = self
        if self.mcp_session_id is not None:
            _all[self.mcp_session_id] = self
        _scope(self)

    return init


def _scope(transport: StreamableHTTPServerTransport) -> None:
    store = _ours(_transports.store_of(transport))
    if store is None:
        return
    # A transport without a session serves one client and nothing is shared beyond it.
    session = transport.mcp_session_id or uuid.uuid4().hex
    scoped = store.scoped(session, close_sse_stream=_closer(transport))
    scoped._is_full = _looker(transport)
    _transports.set_store(transport, scoped)
    if transport.mcp_session_id is not None:
        _here[session] = transport
    # When the session is gone its open streams are closed, so that their retention can end.
    weakref.finalize(transport, scoped.close).atexit = False


def _ours(store: Any) -> EventStore | None:
    """The `EventStore` in `store`, which may be a wrapper around one."""
    from ._event_store import EventStore

    if store is not None and not isinstance(store, EventStore):
        store = _transports.inner_store(store)
    return store if isinstance(store, EventStore) else None


def _closer(transport: StreamableHTTPServerTransport) -> Any:
    held = weakref.ref(transport)

    def close(stream_id: str) -> None:
        alive = held()
        if alive is not None:
            alive.close_sse_stream(stream_id)

    return close


def _looker(transport: StreamableHTTPServerTransport) -> Any:
    held = weakref.ref(transport)

    def is_full(stream_id: str) -> bool:
        alive = held()
        return alive is not None and _transports.is_full(alive, stream_id)

    return is_full


def _make_admit(original: Any) -> Any:
    def admit(self: StreamableHTTPSessionManager, requestor: Any) -> Any:
        if _transports.manager_store(self) is None and self.app in _defaults:
            self.event_store = _defaults[self.app]
        transport = original(self, requestor)
        if transport is not None:
            _record_owner(transport, requestor)
        return transport

    return admit


def _record_owner(transport: StreamableHTTPServerTransport, requestor: Any) -> None:
    from ._event_store import SessionEventStore

    store = _transports.store_of(transport)
    if isinstance(store, SessionEventStore):
        owner = None
        if requestor is not None:
            owner = _principals.principal(requestor["issuer"], requestor["subject"], requestor["client_id"])
        store.owned_by(owner)


def _make_handle(original: Any) -> Any:
    async def handle(self: StreamableHTTPSessionManager, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        if method == "GET" and await _resume_elsewhere(self, scope, receive, send):
            return
        if method != "DELETE":
            await original(self, scope, receive, send)
            return
        transport = _transports.session(self, _resume.header(scope, b"mcp-session-id"))
        await original(self, scope, receive, send)
        if transport is not None and transport.is_terminated:
            _forget(transport)

    return handle


def _forget(transport: StreamableHTTPServerTransport) -> None:
    from ._event_store import SessionEventStore

    store = _transports.store_of(transport)
    if isinstance(store, SessionEventStore):
        store.deleted()


async def _resume_elsewhere(manager: StreamableHTTPSessionManager, scope: Scope, receive: Receive, send: Send) -> bool:
    """Serve a resume that the manager would answer with 404, if it can be served. Whether it was.

    This runs where the SDK's own lookup would: behind its authentication, and with its checks of Host and Origin.
    """
    wanted = _resume.asked(scope)
    if wanted is None or _transports.session(manager, wanted[0]) is not None:
        return False
    store = _ours(_transports.manager_store(manager)) or _defaults.get(manager.app)
    resumer = None if store is None else store._resumer
    if resumer is None:
        return False
    refusal = await TransportSecurityMiddleware(manager.security_settings).validate_request(Request(scope))
    if refusal is not None:
        await refusal(scope, receive, send)
        return True
    session_id, last_event_id, version = wanted
    found = await resumer.find(session_id, last_event_id, _principals.principal_in(scope))
    if found is None:
        return False
    await resumer.serve(found, session_id, version, scope, receive, send)
    return True

"""What `attach` puts into a server of mcp 1.x so that its sessions are told of changes; `_fan_out` is for mcp 2.x.

mcp 1.x has no middleware, answers ``initialize`` inside the session, and knows of no session outside its requests. So the
server's `run` says whose sessions they are, and two methods of the session's class, wrapped once, say what they hear.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final

from mcp import types
from mcp.server.fastmcp import FastMCP
from mcp.server.lowlevel.server import Server, request_ctx
from mcp.server.session import ServerSession
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.session import RequestResponder
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

from .. import Hub, InvalidArgument, TidingsError
from .._native import Profile
from . import _components, _request1, _scoping, _wire
from ._desk import Desks
from ._gates1 import GatedStream
from ._nursery import Nurseries
from ._opening import opening_of
from ._sdk import make_error
from ._session_peer import NOT_REGISTERED, Peer
from ._transports import assigns
from ._trouble import Trouble

_MARK: Final = "__tidings_fan_out__"

_NOT_TOLD: Final = "a change could not be published"

_LISTS: Final = ("tools", "prompts", "resources")

_session_ids: Final[weakref.WeakKeyDictionary[Any, str]] = weakref.WeakKeyDictionary()
"""The MCP session of each Streamable HTTP connection, by the stream that its server writes to."""


def install(
    server: Server, hub: Hub, nurseries: Nurseries, trouble: Trouble, outer: object, progress_interval: float
) -> Peers:
    """Register the server's sessions, and tell them of what changes. `outer` is what the server's author made."""
    desks = Desks(hub, nurseries, trouble)
    peers = Peers(desks, progress_interval)
    _serve_subscriptions(server, peers)
    _serve_level(server)
    _advertise(server, hides_lists=isinstance(outer, FastMCP))
    _wrap_run(server, peers)
    _wrap_sessions()
    _scoping.install()

    def changed(kind: str) -> None:
        # Before the server serves there is nobody to tell, and the store is not to be opened.
        if desks.serving:
            try:
                hub.notify(kind)
            except TidingsError as error:
                trouble.report(_NOT_TOLD, error)

    _components.follow(outer, changed)
    return peers


def missing() -> list[str]:
    """The private names that fan-out needs and the installed SDK does not have."""
    wanted = {
        "mcp.server.session.ServerSession._received_request": hasattr(ServerSession, "_received_request"),
        "mcp.server.session.ServerSession._received_notification": hasattr(ServerSession, "_received_notification"),
        "mcp.server.session.ServerSession._init_options": assigns(ServerSession, "_init_options"),
    }
    return [*(name for name, there in wanted.items() if not there), *_components.missing()]


class Peers:
    """The sessions of one server."""

    def __init__(self, desks: Desks, progress_interval: float) -> None:
        self._desks = desks
        self._progress_interval = progress_interval
        self._by_session: weakref.WeakKeyDictionary[ServerSession, Peer] = weakref.WeakKeyDictionary()

    def heard(self, session: ServerSession, responder: RequestResponder[Any, Any], *, stateless: bool) -> None:
        """A request has come."""
        stream = session._write_stream
        if not isinstance(stream, GatedStream):
            session_id = _session_ids.get(stream)
            session._write_stream = GatedStream(stream, session_id, session._in_flight, self._progress_interval)
        if stateless:
            return  # it is over with its first request, and there is nothing to be told on
        if isinstance(responder.request.root, types.InitializeRequest):
            self._initialize(session, responder)
        elif (peer := self._by_session.get(session)) is not None and not peer.registered:
            self._register(peer)

    def told(self, session: ServerSession, notification: types.ClientNotification) -> None:
        """A notification has come."""
        if isinstance(notification.root, types.InitializedNotification):
            peer = self._by_session.get(session)
            if peer is not None:
                peer.initialized()

    def _initialize(self, session: ServerSession, responder: RequestResponder[Any, Any]) -> None:
        asked = responder.request.root.params
        # As the session is about to answer.
        known = asked.protocolVersion in SUPPORTED_PROTOCOL_VERSIONS
        spoken = asked.protocolVersion if known else types.LATEST_PROTOCOL_VERSION
        server = session._init_options.capabilities.model_dump_json(by_alias=True, exclude_none=True)
        try:
            profile = Profile(spoken, server, asked.capabilities.model_dump_json(by_alias=True, exclude_none=True))
        except InvalidArgument as error:
            # A version that we do not know: its rules are not known either.
            self._desks.trouble.report(NOT_REGISTERED, error)
            return
        session_id = session._write_stream.session_id
        metadata = responder.message_metadata
        request = metadata.request_context if isinstance(metadata, ServerMessageMetadata) else None
        name = _request1.principal_name(request, session_id, session)
        before = self._by_session.get(session)
        if before is not None:
            before.leave()
        peer = self._by_session[session] = Peer(session_id, _request1.sender(session), profile, name)
        self._register(peer)
        session._exit_stack.callback(self._leave, session, peer)

    def _register(self, peer: Peer) -> None:
        if not opening_of(self._desks.hub).ready():
            return
        try:
            desk = self._desks.current(None)
            if desk is not None:
                peer.register(desk)
        except Exception as error:
            # Whatever it is, the session goes on without.
            self._desks.trouble.report(NOT_REGISTERED, error)

    def _leave(self, session: ServerSession, peer: Peer) -> None:
        if self._by_session.get(session) is peer:
            del self._by_session[session]
        peer.leave()

    def current(self) -> Peer | None:
        """The peer that the running request is of."""
        return self._by_session.get(request_ctx.get().session)

    def end_listeners(self) -> None:
        """Nothing: there are no listeners before 2026-07-28, and sessions have no end of their own."""

    def look(self) -> None:
        """See who can be reached."""
        for peer in list(self._by_session.values()):
            peer.look()


_serving: Final[ContextVar[tuple[Peers, bool]]] = ContextVar("tidings_fan_out")
"""Whose session it is, in everything that a session does, and whether it is one that only looks like a session."""


def _wrap_run(server: Server, peers: Peers) -> None:
    inner = server.run
    bound = inspect.signature(inner)

    @functools.wraps(inner)
    async def run(*args: Any, **kwargs: Any) -> None:
        stateless = bool(bound.bind(*args, **kwargs).arguments.get("stateless"))
        token = _serving.set((peers, stateless))
        try:
            await inner(*args, **kwargs)
        finally:
            _serving.reset(token)

    server.run = run


def _wrap_sessions() -> None:
    """Have sessions say what they hear, and connections whose they are. Doing it twice does nothing."""
    if hasattr(ServerSession._received_request, _MARK):
        return
    request, notification = ServerSession._received_request, ServerSession._received_notification

    @functools.wraps(request)
    async def received_request(self: ServerSession, responder: RequestResponder[Any, Any]) -> None:
        serving = _serving.get(None)
        if serving is not None:
            serving[0].heard(self, responder, stateless=serving[1])
        await request(self, responder)

    @functools.wraps(notification)
    async def received_notification(self: ServerSession, received: types.ClientNotification) -> None:
        await notification(self, received)
        serving = _serving.get(None)
        if serving is not None:
            serving[0].told(self, received)

    connect = StreamableHTTPServerTransport.connect

    @functools.wraps(connect)
    @asynccontextmanager
    async def connected(self: StreamableHTTPServerTransport) -> Any:
        async with connect(self) as streams:
            if self.mcp_session_id is not None:
                _session_ids[streams[1]] = self.mcp_session_id
            yield streams

    setattr(received_request, _MARK, True)
    ServerSession._received_request = received_request
    ServerSession._received_notification = received_notification
    StreamableHTTPServerTransport.connect = connected


def _serve_subscriptions(server: Server, peers: Peers) -> None:
    """Serve ``resources/subscribe`` and ``resources/unsubscribe``, before whoever serves them by then."""
    inner = {kind: server.request_handlers.get(kind) for kind in (types.SubscribeRequest, types.UnsubscribeRequest)}
    if types.ListResourcesRequest not in server.request_handlers:
        return

    async def subscribe(request: types.SubscribeRequest) -> types.ServerResult:
        handler = inner[types.SubscribeRequest]
        result = types.ServerResult(types.EmptyResult()) if handler is None else await handler(request)
        if (peer := peers.current()) is not None:
            try:
                peer.subscribe(str(request.params.uri))
            except InvalidArgument as error:
                raise make_error(_wire.INVALID_PARAMS, str(error)) from error
        return result

    async def unsubscribe(request: types.UnsubscribeRequest) -> types.ServerResult:
        handler = inner[types.UnsubscribeRequest]
        result = types.ServerResult(types.EmptyResult()) if handler is None else await handler(request)
        if (peer := peers.current()) is not None:
            peer.unsubscribe(str(request.params.uri))
        return result

    server.request_handlers[types.SubscribeRequest] = subscribe
    server.request_handlers[types.UnsubscribeRequest] = unsubscribe


def _serve_level(server: Server) -> None:
    """Serve ``logging/setLevel``, before whoever serves it by then."""
    inner = server.request_handlers.get(types.SetLevelRequest)

    async def set_level(request: types.SetLevelRequest) -> types.ServerResult:
        result = types.ServerResult(types.EmptyResult()) if inner is None else await inner(request)
        stream = request_ctx.get().session._write_stream
        if isinstance(stream, GatedStream):
            stream.level = request.params.level
        return result

    server.request_handlers[types.SetLevelRequest] = set_level


def _advertise(server: Server, *, hides_lists: bool) -> None:
    """Say that resources can be subscribed to, and what `FastMCP` sends and says that it does not: its lists' changes."""
    inner = server.get_capabilities

    @functools.wraps(inner)
    def get_capabilities(*args: Any, **kwargs: Any) -> types.ServerCapabilities:
        found: types.ServerCapabilities = inner(*args, **kwargs)
        if found.resources is not None and types.SubscribeRequest in server.request_handlers:
            found.resources.subscribe = True
        if hides_lists:
            for name in _LISTS:
                if (capability := getattr(found, name)) is not None:
                    capability.listChanged = True
        return found

    server.get_capabilities = get_capabilities

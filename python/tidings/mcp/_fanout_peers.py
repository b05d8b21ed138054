"""The peers of a server with sessions (up to 2025-11-25): who they are, what they subscribed to, how they are written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import EmptyResult, SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams

from .. import InvalidArgument
from .._native import Profile
from . import _compat, _gates, _scoping, _wire
from ._desk import Desk, Desks
from ._opening import opening_of
from ._principal import principal_of

_PEER: Final = "io.tidings/fanout-peer"

_LISTS: Final = ("tools", "prompts", "resources")

_NOT_REGISTERED: Final = "a session could not be registered for notifications"


class Peer:
    """One session: its place at a desk. A writer, see `_desk.Writer`."""

    def __init__(self, connection: Connection, version: str, server: str, client: str, principal: str) -> None:
        self._connection = connection
        self._profile = Profile(version, server, client)
        self._principal = principal
        self._close_stream: Any = None
        self._desk: Desk | None = None
        self._sink = 0
        self._listener = 0
        self._uris: set[str] = set()
        self._gone = False
        self.level: str | None = None
        """What ``logging/setLevel`` asked for."""

    def register(self, desk: Desk) -> None:
        """Take a place at `desk`. May raise what the hub raises."""
        self._desk = desk
        self._sink = desk.add(self, self._principal)
        self._listener = desk.outbox.attend(self._sink, self._profile)
        if self._connection.initialized.is_set():
            desk.outbox.open(self._listener)
        for uri in self._uris:
            desk.outbox.subscribe(self._listener, self._profile, uri)
        self.look()

    @property
    def registered(self) -> bool:
        return self._desk is not None

    def initialized(self, close_stream: Any) -> None:
        """The handshake is complete."""
        self._close_stream = close_stream
        if self._desk is not None:
            self._desk.outbox.open(self._listener)

    def subscribe(self, uri: str) -> None:
        """May raise what the hub raises."""
        self._uris.add(uri)
        if self._desk is not None:
            self._desk.outbox.subscribe(self._listener, self._profile, uri)

    def unsubscribe(self, uri: str) -> None:
        """Never raises."""
        self._uris.discard(uri)
        if self._desk is not None:
            self._desk.outbox.unsubscribe(self._listener, self._profile, uri)

    def look(self) -> None:
        """Over HTTP, whether what is sent can arrive: on an open GET stream, or later from the event store."""
        session = self._connection.session_id
        if session is not None and self._desk is not None:
            self._desk.outbox.set_reachable(self._sink, _scoping.arrives(session))

    def leave(self) -> None:
        """The session is over."""
        self._gone = True
        if self._desk is not None:
            self._desk.drop(self._sink)

    async def write(self, method: str, params: dict[str, Any] | None) -> None:
        # `Connection.notify` would say nothing of a channel that is closed.
        await self._connection.outbound.notify(method, params)

    def failed(self) -> None:
        """Its GET stream is closed, if the rest of it can be had from the event store; then it goes on."""
        desk, self._desk = self._desk, None
        if self._gone or desk is None or self._close_stream is None:
            return
        try:
            self._close_stream()
            self.register(desk)
        except Exception as error:
            desk.trouble.report(_NOT_REGISTERED, error)

    def finished(self) -> None:
        """Sessions have no end of their own."""


def peer_of(connection: Connection) -> Peer | None:
    """The peer of a connection, if it is one."""
    found: Peer | None = connection.state.get(_PEER)
    return found


class Peers:
    """The middleware that registers sessions, and the handlers of what they ask for."""

    def __init__(self, server: Server[Any], desks: Desks, *, hides_lists: bool, progress_interval: float) -> None:
        self._server = server
        self._desks = desks
        self._hides_lists = hides_lists
        self._progress_interval = progress_interval
        self._peers: dict[int, Peer] = {}

    def install(self) -> None:
        """Serve ``resources/subscribe`` and ``logging/setLevel`` where nobody does."""
        serves = self._server.get_request_handler

        async def nothing(ctx: Any, params: Any) -> EmptyResult:
            return EmptyResult()

        if serves("resources/list") is not None:
            if serves("resources/subscribe") is None:
                self._server.add_request_handler("resources/subscribe", SubscribeRequestParams, nothing)
            if serves("resources/unsubscribe") is None:
                self._server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, nothing)
        if serves("logging/setLevel") is None:
            self._server.add_request_handler("logging/setLevel", SetLevelRequestParams, nothing)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """One inbound request or notification."""
        if ctx.method == "initialize":
            return await self._initialize(ctx, call_next)
        connection = _compat.connection(ctx.session)
        peer = peer_of(connection)
        if peer is not None and not peer.registered:
            self._register(peer, ctx)
        if ctx.request_id is not None:
            if ctx.method == "tools/call":
                return await _gates.gated(ctx, call_next, peer, self._progress_interval)
            result = await call_next(ctx)
            if peer is not None:
                self._served(peer, ctx.method, ctx.params or {})
            return result
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized" and peer is not None:
            peer.initialized(ctx.close_standalone_sse_stream)
        return result

    async def _initialize(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = _wire.result_dict(await call_next(ctx))
        capabilities = result.get("capabilities")
        version = result.get("protocolVersion")
        if not isinstance(capabilities, dict) or not isinstance(version, str):
            return result
        if self._hides_lists:
            # MCPServer sends these and says that it does not.
            for name in _LISTS:
                if isinstance(capabilities.get(name), dict):
                    capabilities[name] = {**capabilities[name], "listChanged": True}
        connection = _compat.connection(ctx.session)
        client = (ctx.params or {}).get("capabilities")
        try:
            peer = Peer(
                connection,
                version,
                _text(capabilities),
                _text(client if isinstance(client, Mapping) else {}),
                principal_of(ctx)[0],
            )
        except InvalidArgument as error:
            # A version that we do not know: its rules are not known either.
            self._desks.trouble.report(_NOT_REGISTERED, error)
            return result
        before = connection.state.get(_PEER)
        connection.state[_PEER] = peer
        if before is not None:
            before.leave()
        _gates.gate_connection(connection, peer)
        self._register(peer, ctx)
        self._peers[id(peer)] = peer
        connection.exit_stack.callback(self._leave, peer)
        return result

    def _register(self, peer: Peer, ctx: ServerRequestContext[Any, Any]) -> None:
        if not opening_of(self._desks.hub).ready():
            return
        try:
            desk = self._desks.current(ctx.lifespan_context)
            if desk is not None:
                peer.register(desk)
        except Exception as error:
            # Whatever it is, the session goes on without.
            self._desks.trouble.report(_NOT_REGISTERED, error)

    def _leave(self, peer: Peer) -> None:
        self._peers.pop(id(peer), None)
        peer.leave()

    def _served(self, peer: Peer, method: str, params: Mapping[str, Any]) -> None:
        if method == "resources/subscribe" and isinstance(uri := params.get("uri"), str):
            try:
                peer.subscribe(uri)
            except InvalidArgument as error:
                raise MCPError(_wire.INVALID_PARAMS, str(error)) from error
        elif method == "resources/unsubscribe" and isinstance(uri := params.get("uri"), str):
            peer.unsubscribe(uri)
        elif method == "logging/setLevel" and isinstance(level := params.get("level"), str):
            peer.level = level

    def end_listeners(self) -> None:
        """End every listener of this server in order; sessions have no end of their own."""
        for desk in self._desks.each():
            desk.outbox.end_all()

    def look(self) -> None:
        """See who can be reached."""
        for peer in list(self._peers.values()):
            peer.look()


def _text(value: Mapping[str, Any]) -> str:
    return _wire.dumps(value).decode()

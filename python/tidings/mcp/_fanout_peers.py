"""The sessions of a server of mcp 2.x (up to 2025-11-25): who they are, and what they ask for; `_fanout_peers1` is for mcp 1.x."""

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
from . import _compat, _gates, _wire
from ._desk import Desks
from ._opening import opening_of
from ._principal import principal_of
from ._session_peer import NOT_REGISTERED, Peer, Send

_PEER: Final = "io.tidings/fanout-peer"

_LISTS: Final = ("tools", "prompts", "resources")


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
            peer.initialized()
        return result

    async def _initialize(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = _wire.result_dict(await call_next(ctx))
        capabilities = result.get("capabilities")
        version = result.get("protocolVersion")
        connection = _compat.connection(ctx.session)
        # Without a channel of its own (a server without sessions) it is over with this request, and nothing can be sent.
        reachable = connection.has_standalone_channel
        if not isinstance(capabilities, dict) or not isinstance(version, str) or not reachable:
            return result
        if self._hides_lists:
            # MCPServer sends these and says that it does not.
            for name in _LISTS:
                if isinstance(capabilities.get(name), dict):
                    capabilities[name] = {**capabilities[name], "listChanged": True}
        client = (ctx.params or {}).get("capabilities")
        try:
            profile = Profile(version, _text(capabilities), _text(client if isinstance(client, Mapping) else {}))
        except InvalidArgument as error:
            # A version that we do not know: its rules are not known either.
            self._desks.trouble.report(NOT_REGISTERED, error)
            return result
        peer = Peer(connection.session_id, _sender(connection), profile, principal_of(ctx)[0])
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
            self._desks.trouble.report(NOT_REGISTERED, error)

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


def _sender(connection: Connection) -> Send:
    async def send(method: str, params: dict[str, Any] | None) -> None:
        # `Connection.notify` would say nothing of a channel that is closed.
        await connection.outbound.notify(method, params)

    return send


def _text(value: Mapping[str, Any]) -> str:
    return _wire.dumps(value).decode()

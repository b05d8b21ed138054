"""Every private name of mcp 2.x that the adapter touches besides those in `_transports`.

`missing` says which of them the installed release lacks; `attach` asks it, and a test asks it on every release.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from mcp.server import mcpserver
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import ListenHandler
from mcp.shared.dispatcher import DispatchContext
from mcp_types import SERVER_INFO_META_KEY
from pydantic import BaseModel

from . import _components, _transports
from ._transports import assigns, takes

TELEMETRY: Final = "OpenTelemetryMiddleware"
"""Class name of the SDK's own outermost middleware (`mcp.server._otel`)."""


def request_outbound(session: ServerSession) -> DispatchContext[Any]:
    """The channel of one request: what is sent on it arrives on that request's own stream."""
    return session._request_outbound


def connection(session: ServerSession) -> Connection:
    """The client connection a request came in on."""
    return session._connection


def low_level(server: object) -> Server[Any] | None:
    """The low-level server inside `server`, or None when `server` is not one of mcp 2.x (FastMCP included)."""
    fastmcp = sys.modules.get("fastmcp")
    if fastmcp is not None and isinstance(server, fastmcp.FastMCP):
        inner: Server[Any] = server._mcp_server
        return inner
    if isinstance(server, mcpserver.MCPServer):
        return server._lowlevel_server
    return server if isinstance(server, Server) else None


def hides_lists(server: object) -> bool:
    """Whether the server tells sessions that it does not send ``list_changed`` although it does."""
    return isinstance(server, mcpserver.MCPServer)


def bus(server: object, listen: Any) -> Any:
    """What a server publishes changes on: an `MCPServer`'s own (`ctx.notify_tools_changed()`), or what the SDK's handler of
    ``subscriptions/listen`` was made with; None if there is neither. `listen`: the server's handler entry, if it has one."""
    if isinstance(server, mcpserver.MCPServer):
        return server._subscriptions
    handler = None if listen is None else listen.handler
    return handler._bus if isinstance(handler, ListenHandler) else None


def may_serve_listeners(server: object, listen: Any) -> bool:
    """Whether our handler may take the place of the server's: not of one that its author wrote, nor where an `MCPServer` was
    made with ``subscriptions=False``."""
    if listen is None:
        return not isinstance(server, mcpserver.MCPServer)
    return isinstance(listen.handler, ListenHandler)


def existing_manager(server: Server[Any]) -> StreamableHTTPSessionManager | None:
    """The session manager of an app that was made before `attach`, if there is one."""
    return server._session_manager


def has_stream(session: ServerSession) -> bool:
    """Whether notifications of this request go anywhere; 2026-07-28 over HTTP with JSON responses has no place for them."""
    return getattr(session._request_outbound, "sink", True) is not None


def server_info_meta(server: Server[Any]) -> dict[str, Any]:
    """The `_meta` that the SDK puts into every result of 2026-07-28, for a result it does not see."""
    return {SERVER_INFO_META_KEY: server.server_info_stamp}


def missing() -> list[str]:
    """The private names (and signatures) the adapter relies on and the installed SDK does not have."""
    wanted = {
        "mcp.server.session.ServerSession.__init__(request_outbound, connection, request_meta)": takes(
            ServerSession.__init__, "request_outbound", "connection", "request_meta"
        ),
        "mcp.server.session.ServerSession._request_outbound": assigns(ServerSession, "_request_outbound"),
        "mcp.server.session.ServerSession._connection": assigns(ServerSession, "_connection"),
        "mcp.server.mcpserver.MCPServer._lowlevel_server": assigns(mcpserver.MCPServer, "_lowlevel_server"),
        "mcp.server.mcpserver.MCPServer._subscriptions": assigns(mcpserver.MCPServer, "_subscriptions"),
        "mcp.server.subscriptions.ListenHandler._bus": assigns(ListenHandler, "_bus"),
        "mcp.server.lowlevel.Server._session_manager": assigns(Server, "_session_manager"),
        "mcp.server.lowlevel.Server.server_info_stamp": hasattr(Server, "server_info_stamp"),
        "mcp.server.lowlevel.Server.extensions": assigns(Server, "extensions"),
        "pydantic.BaseModel.__pydantic_serializer__": hasattr(BaseModel, "__pydantic_serializer__"),
    }
    return [*(name for name, there in wanted.items() if not there), *_transports.missing(), *_components.missing()]

"""Every private name of the MCP SDK that the adapter touches, in one place.

`missing` says which of them the installed release lacks; `attach` asks it, and a test asks it on every release.
"""

from __future__ import annotations

import inspect
from importlib import metadata
from typing import Any, Final

from mcp.server import mcpserver
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http import EventStore, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import DispatchContext
from mcp_types import SERVER_INFO_META_KEY
from pydantic import BaseModel

TELEMETRY: Final = "OpenTelemetryMiddleware"
"""Class name of the SDK's own outermost middleware (`mcp.server._otel`)."""


def request_outbound(session: ServerSession) -> DispatchContext[Any]:
    """The channel of one request: what is sent on it arrives on that request's own stream."""
    return session._request_outbound


def connection(session: ServerSession) -> Connection:
    """The client connection a request came in on."""
    return session._connection


def low_level(server: object) -> Server[Any] | None:
    """The low-level server inside `server`, or None when `server` is not one of mcp 2.x."""
    if isinstance(server, mcpserver.MCPServer):
        return server._lowlevel_server
    return server if isinstance(server, Server) else None


def existing_manager(server: Server[Any]) -> StreamableHTTPSessionManager | None:
    """The session manager of an app that was made before `attach`, if there is one."""
    return server._session_manager


def transport_store(transport: StreamableHTTPServerTransport) -> EventStore | None:
    """The event store a transport was made with."""
    return transport._event_store


def set_transport_store(transport: StreamableHTTPServerTransport, store: EventStore) -> None:
    """Give a transport another event store; it reads the attribute at each use."""
    transport._event_store = store


def wire_bytes(message: BaseModel) -> bytes:
    """The JSON text of a message, byte for byte what ``model_dump_json(by_alias=True, exclude_unset=True)`` gives.

    That call is what the legacy transport puts on the wire. Asking the serialiser itself gives the bytes without
    the detour through `str`, in less than half the time.
    """
    return message.__pydantic_serializer__.to_json(message, by_alias=True, exclude_unset=True)


def has_stream(session: ServerSession) -> bool:
    """Whether notifications of this request go anywhere; 2026-07-28 over HTTP with JSON responses has no place for them."""
    return getattr(session._request_outbound, "sink", True) is not None


def server_info_meta(server: Server[Any]) -> dict[str, Any]:
    """The `_meta` that the SDK puts into every result of 2026-07-28, for a result it does not see."""
    return {SERVER_INFO_META_KEY: server.server_info_stamp}


def missing() -> list[str]:
    """The private names (and signatures) the adapter relies on and the installed SDK does not have."""
    wanted = {
        "mcp.server.session.ServerSession.__init__(request_outbound, connection, request_meta)": _takes(
            ServerSession.__init__, "request_outbound", "connection", "request_meta"
        ),
        "mcp.server.session.ServerSession._request_outbound": _assigns(ServerSession, "_request_outbound"),
        "mcp.server.session.ServerSession._connection": _assigns(ServerSession, "_connection"),
        "mcp.server.mcpserver.MCPServer._lowlevel_server": _assigns(mcpserver.MCPServer, "_lowlevel_server"),
        "mcp.server.lowlevel.Server.server_info_stamp": hasattr(Server, "server_info_stamp"),
        "mcp.server.lowlevel.Server.extensions": _assigns(Server, "extensions"),
        "mcp.server.lowlevel.Server._session_manager": _assigns(Server, "_session_manager"),
        "mcp.server.streamable_http.StreamableHTTPServerTransport._event_store": _assigns(
            StreamableHTTPServerTransport, "_event_store"
        ),
        "pydantic.BaseModel.__pydantic_serializer__": hasattr(BaseModel, "__pydantic_serializer__"),
    }
    return [name for name, there in wanted.items() if not there]


def sdk_version() -> str:
    """The version of the installed SDK, for messages."""
    try:
        return metadata.version("mcp")
    except metadata.PackageNotFoundError:
        return "unknown"


def _takes(function: Any, *names: str) -> bool:
    parameters = inspect.signature(getattr(function, "__wrapped__", function)).parameters
    return all(name in parameters for name in names)


def _assigns(cls: type, name: str) -> bool:
    # Instance attributes exist only once an instance does; the constructor's code names them without one.
    constructor: Any = inspect.unwrap(cls.__dict__["__init__"])
    return name in constructor.__code__.co_names

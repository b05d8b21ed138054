"""The test servers on mcp 1.x: see `mcp_stage`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from mcp import types
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import McpError
from mcp_stage_tools import Stage
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.routing import Route


def meta_of(ctx: Any) -> dict[str, Any]:
    return {} if ctx.meta is None else dict(ctx.meta.model_dump())


def fast_server(stage: Stage, **options: Any) -> FastMCP:
    server = FastMCP("test", log_level="CRITICAL", **options)

    @server.tool()
    async def steps(ctx: Context, count: int = 0, hold_at: int = -1, size: int = 0) -> str:
        stage.params.append({"name": "steps", "arguments": {"count": count}})
        stage.metas.append(meta_of(ctx.request_context))
        return await stage.steps(ctx, count, hold_at, size)

    @server.tool()
    async def stubborn(hold_at: int = 0) -> str:
        return await stage.stubborn()

    @server.tool()
    async def broken() -> str:
        raise RuntimeError("it broke")

    @server.tool()
    async def refused() -> str:
        raise McpError(types.ErrorData(code=4711, message="not today", data={"why": "because"}))

    @server.tool(structured_output=False)
    async def surrogate() -> str:
        return "a lone \ud800 surrogate"

    @server.tool()
    async def announce(ctx: Context, times: int = 1) -> str:
        for _ in range(times):
            await ctx.session.send_tool_list_changed()
        return "announced"

    return server


class Reporter:
    """Reports progress as FastMCP's context does, for a server that has none."""

    def __init__(self, server: Server) -> None:
        self._ctx = server.request_context

    async def report_progress(self, progress: float, total: float, message: str) -> None:
        token = self._ctx.meta.progressToken if self._ctx.meta else None
        if token is not None:
            await self._ctx.session.send_progress_notification(
                token, progress, total, message, related_request_id=str(self._ctx.request_id)
            )


def low_level_server(stage: Stage) -> Server:
    server: Server = Server("test")
    names = ("steps", "stubborn", "broken", "refused", "surrogate", "announce")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [types.Tool(name=name, inputSchema={"type": "object"}) for name in names]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        if name == "steps":
            stage.params.append({"name": name, "arguments": {"count": arguments.get("count", 0)}})
            stage.metas.append(meta_of(server.request_context))
            text = await stage.steps(
                Reporter(server), arguments.get("count", 0), arguments.get("hold_at", -1), arguments.get("size", 0)
            )
        elif name == "stubborn":
            text = await stage.stubborn()
        elif name == "surrogate":
            text = "a lone \ud800 surrogate"
        elif name == "announce":
            for _ in range(arguments.get("times", 1)):
                await server.request_context.session.send_tool_list_changed()
            text = "announced"
        elif name == "refused":
            raise McpError(types.ErrorData(code=4711, message="not today", data={"why": "because"}))
        else:
            raise RuntimeError("it broke")
        return [types.TextContent(type="text", text=text)]

    return server


SERVERS: dict[str, Callable[[Stage], Any]] = {"FastMCP": fast_server, "Server": low_level_server}


def high_level_server(stage: Stage, **options: Any) -> Any:
    """The kind that people use."""
    return fast_server(stage, **options)


def app_of(server: Any, **options: Any) -> Any:
    """The Streamable HTTP app of a server."""
    if isinstance(server, FastMCP):
        if "event_store" in options:
            server._event_store = options.pop("event_store")
        for name, value in options.items():
            setattr(server.settings, name, value)
        return server.streamable_http_app()
    local = TransportSecuritySettings(allowed_hosts=["127.0.0.1:*"], allowed_origins=["http://127.0.0.1:*"])
    manager = StreamableHTTPSessionManager(server, security_settings=local, **options)

    class Endpoint:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route("/mcp", endpoint=Endpoint())], lifespan=lifespan)


def plain_tool(server: Any) -> Any:
    """The decorator of a tool whose text is the whole of its result."""
    return server.tool(structured_output=False)


def guarded_server(stage: Stage, who: Callable[[str], tuple[str, str, str] | None]) -> Any:
    """A server behind a login: `who` tells issuer, subject and client id of a token."""

    class Verifier(TokenVerifier):
        async def verify_token(self, token: str) -> AccessToken | None:
            found = who(token)
            if found is None:
                return None
            issuer, subject, client = found
            return AccessToken(token=token, client_id=client, scopes=[], subject=subject, claims={"iss": issuer})

    settings = AuthSettings(
        issuer_url=AnyHttpUrl("https://login.example"), resource_server_url=None, required_scopes=[]
    )
    return fast_server(stage, token_verifier=Verifier(), auth=settings)

"""The test servers on mcp 2.x: see `mcp_stage`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_stage_tools import Stage
from pydantic import AnyHttpUrl


def mcp_server(stage: Stage, **options: Any) -> MCPServer:
    server: MCPServer = MCPServer("test", log_level="CRITICAL", **options)

    @server.tool()
    async def steps(ctx: Context[Any, Any], count: int = 0, hold_at: int = -1, size: int = 0) -> str:
        stage.params.append(dict(ctx.request_context.params or {}))
        stage.metas.append(dict(ctx.request_context.meta or {}))
        return await stage.steps(ctx.session, count, hold_at, size)

    @server.tool()
    async def stubborn(hold_at: int = 0) -> str:
        return await stage.stubborn()

    @server.tool()
    async def broken() -> str:
        raise RuntimeError("it broke")

    @server.tool()
    async def refused() -> str:
        raise MCPError(4711, "not today", {"why": "because"})

    @server.tool()
    async def surrogate() -> str:
        return "a lone \ud800 surrogate"

    @server.tool()
    async def announce(ctx: Context[Any, Any], times: int = 1) -> str:
        for _ in range(times):
            await ctx.session.send_tool_list_changed()
        return "announced"

    return server


def low_level_server(stage: Stage) -> Server[Any]:
    names = ("steps", "stubborn", "broken", "refused", "surrogate", "announce")

    async def list_tools(ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names])

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = params.arguments or {}
        if params.name == "steps":
            stage.params.append(dict(ctx.params or {}))
            stage.metas.append({**(ctx.meta or {}), **(params.meta or {})})
            text = await stage.steps(
                ctx.session, arguments.get("count", 0), arguments.get("hold_at", -1), arguments.get("size", 0)
            )
        elif params.name == "stubborn":
            text = await stage.stubborn()
        elif params.name == "surrogate":
            text = "a lone \ud800 surrogate"
        elif params.name == "announce":
            for _ in range(arguments.get("times", 1)):
                await ctx.session.send_tool_list_changed()
            text = "announced"
        elif params.name == "refused":
            raise MCPError(4711, "not today", {"why": "because"})
        else:
            return types.CallToolResult(content=[types.TextContent(type="text", text="it broke")], is_error=True)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("test", on_list_tools=list_tools, on_call_tool=call_tool)


SERVERS: dict[str, Callable[[Stage], Any]] = {"MCPServer": mcp_server, "Server": low_level_server}


def high_level_server(stage: Stage, **options: Any) -> Any:
    """The kind that people use."""
    return mcp_server(stage, **options)


def app_of(server: Any, **options: Any) -> Any:
    """The Streamable HTTP app of a server."""
    return server.streamable_http_app(**options)


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
    return mcp_server(stage, token_verifier=Verifier(), auth=settings)

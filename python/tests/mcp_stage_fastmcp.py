"""The test servers on FastMCP: see `mcp_stage`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import AccessToken, TokenVerifier
from mcp.shared.exceptions import MCPError
from mcp_stage_tools import Stage


def fast_server(stage: Stage, **options: Any) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("test", **options)

    @server.tool
    async def steps(ctx: Context, count: int = 0, hold_at: int = -1, size: int = 0) -> str:
        assert ctx.request_context is not None
        stage.params.append(dict(ctx.request_context._srctx.params or {}))
        stage.metas.append(dict(ctx.request_context.meta or {}))
        return await stage.steps(ctx, count, hold_at, size)

    @server.tool
    async def stubborn(hold_at: int = 0) -> str:
        return await stage.stubborn()

    @server.tool
    async def broken() -> str:
        raise ToolError("it broke")

    @server.tool
    async def refused() -> str:
        raise MCPError(4711, "not today", {"why": "because"})

    @server.tool(output_schema=None)
    async def surrogate() -> str:
        return "a lone \ud800 surrogate"

    @server.tool
    async def announce(ctx: Context, times: int = 1) -> str:
        for _ in range(times):
            await ctx.session.send_tool_list_changed()
        return "announced"

    return server


SERVERS: dict[str, Callable[[Stage], Any]] = {"FastMCP": fast_server}


def high_level_server(stage: Stage, **options: Any) -> Any:
    """The kind that people use."""
    return fast_server(stage, **options)


def app_of(server: Any, **options: Any) -> Any:
    """The Streamable HTTP app of a server."""
    return server.http_app(path="/mcp", **options)


def plain_tool(server: Any) -> Any:
    """The decorator of a tool whose text is the whole of its result."""
    return server.tool(output_schema=None)


def guarded_server(stage: Stage, who: Callable[[str], tuple[str, str, str] | None]) -> Any:
    """A server behind a login: `who` tells issuer, subject and client id of a token."""

    class Verifier(TokenVerifier):
        async def verify_token(self, token: str) -> AccessToken | None:
            found = who(token)
            if found is None:
                return None
            issuer, subject, client = found
            return AccessToken(token=token, client_id=client, scopes=[], subject=subject, claims={"iss": issuer})

    return fast_server(stage, auth=Verifier())

"""Servers of both kinds with the same tools, for every test of the mcp adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_wire import Gate


class Stage:
    """What the tools of a test server do and where they wait."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As new, for another call."""
        self.gate = Gate()
        """Opened by the test: lets a tool go on."""
        self.reached = Gate()
        """Opened by a tool: it has come to the gate."""
        self.cancelled = Gate()
        """Opened by a tool that was cancelled."""
        self.params: list[dict[str, Any]] = []
        """The parameters each call reached a tool with."""

    async def steps(self, session: Any, count: int, hold_at: int) -> str:
        """Report `count` steps; wait at the gate after `hold_at` of them (never, if negative)."""
        try:
            for step in range(count + 1):
                if step == hold_at:
                    self.reached.open()
                    await self.gate.passed()
                if step < count:
                    await session.report_progress(step + 1, count, f"step {step + 1}")
            return "done"
        except anyio.get_cancelled_exc_class():
            self.cancelled.open()
            raise

    async def stubborn(self) -> str:
        """Cannot be stopped: answers something even when it is cancelled."""
        try:
            self.reached.open()
            await self.gate.passed()
            return "done"
        except anyio.get_cancelled_exc_class():
            self.cancelled.open()
            return ""


def mcp_server(stage: Stage, **options: Any) -> MCPServer:
    server: MCPServer = MCPServer("test", log_level="CRITICAL", **options)

    @server.tool()
    async def steps(ctx: Context[Any, Any], count: int = 0, hold_at: int = -1) -> str:
        stage.params.append(dict(ctx.request_context.params or {}))
        return await stage.steps(ctx.session, count, hold_at)

    @server.tool()
    async def stubborn() -> str:
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
            text = await stage.steps(ctx.session, arguments.get("count", 0), arguments.get("hold_at", -1))
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


high_level_server = mcp_server
"""The kind that people use, whatever the SDK calls it."""

KINDS = ("MCPServer", "Server")


SERVERS: dict[str, Callable[[Stage], Any]] = {"MCPServer": mcp_server, "Server": low_level_server}


def app_of(server: Any, **options: Any) -> Any:
    """The Streamable HTTP app of a server."""
    return server.streamable_http_app(**options)

"""What of outcomes is mcp 2.x's alone: interim answers, and the author's own middleware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
import tidings.mcp
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp_stage import Stage
from mcp_stage_v2 import low_level_server
from mcp_wire import LEGACY, MODERN, Client, Receiver, Served
from tidings import Hub

EVERY = ("completed", "failed", "timeout", "cancelled")


def test_an_interim_answer_is_not_a_completed_call(receiver: Receiver, hub: Hub, serve: Callable[..., Served]) -> None:
    async def ask(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.InputRequiredResult:
        return types.InputRequiredResult(request_state="a")

    async def list_tools(ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema={"type": "object"})])

    server: Server[Any] = Server("test", on_list_tools=list_tools, on_call_tool=ask)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, MODERN)
    answer = client.call("ask", notificationConfig=receiver.config(*EVERY)).messages()[-1]
    assert answer["result"]["resultType"] == "input_required"
    assert receiver.next()["data"]["outcome"]["status"] == "cancelled"


def test_middleware_added_by_the_author_shapes_what_is_delivered(
    stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = low_level_server(stage)

    async def mask(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/call":
            result = {**result, "content": [{"type": "text", "text": "***"}]}
        return result

    server.middleware.append(mask)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, LEGACY)
    answer = client.call("steps", notificationConfig=receiver.config(*EVERY)).messages()[-1]
    assert answer["result"]["content"] == [{"type": "text", "text": "***"}]
    assert receiver.next()["data"]["outcome"]["result"]["content"] == [{"type": "text", "text": "***"}]

"""The server that the official conformance suite is run against: the SDK's own, with our adapter or without.

  server.py plain              the SDK alone
  server.py attached DATABASE  with everything that `attach` can bring, on that store

It says its port and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import warnings
from typing import Any

import fixture
import mcp_types as types
import uvicorn
from fixture import Context, Result
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import InputRequiredResult
from pydantic import BaseModel

# The suite asks for what 2026-07-28 calls deprecated too.
warnings.simplefilter("ignore")


def _typed(kind: type[BaseModel], result: Result) -> BaseModel:
    """A result as the SDK's own model, so that the SDK writes it for the client's version."""
    return (InputRequiredResult if result.get("resultType") == "input_required" else kind).model_validate(result)


def _described(name: str) -> Result:
    return {"name": name, "description": f"The suite's {name}."}


async def _list_tools(ctx: Context, params: Any) -> Any:
    listed = [{**_described(name), "inputSchema": tool["inputSchema"]} for name, tool in fixture.DATA["tools"].items()]
    return _typed(types.ListToolsResult, {"tools": listed})


async def _call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
    found = fixture.DATA["tools"].get(params.name)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return _typed(types.CallToolResult, await fixture.call(ctx, found, params.arguments or {}))


async def _list_prompts(ctx: Context, params: Any) -> Any:
    listed = [
        {
            **_described(name),
            "arguments": [{"name": argument, "required": True} for argument in prompt.get("arguments", [])],
        }
        for name, prompt in fixture.DATA["prompts"].items()
    ]
    return _typed(types.ListPromptsResult, {"prompts": listed})


async def _get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
    found = fixture.DATA["prompts"].get(params.name)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    return _typed(types.GetPromptResult, fixture.get(ctx, found, params.arguments))


async def _list_resources(ctx: Context, params: Any) -> Any:
    listed = [
        {"uri": uri, "mimeType": contents["mimeType"], **_described(uri)}
        for uri, contents in fixture.DATA["resources"].items()
    ]
    return _typed(types.ListResourcesResult, {"resources": listed})


async def _list_templates(ctx: Context, params: Any) -> Any:
    listed = [{"uriTemplate": template, **_described("template")} for template in fixture.DATA["templates"]]
    return _typed(types.ListResourceTemplatesResult, {"resourceTemplates": listed})


async def _read(ctx: Context, params: types.ReadResourceRequestParams) -> Any:
    return _typed(types.ReadResourceResult, fixture.read(str(params.uri)))


async def _complete(ctx: Context, params: Any) -> Any:
    return _typed(types.CompleteResult, {"completion": fixture.DATA["completion"]})


async def _nothing(ctx: Context, params: Any) -> Any:
    return types.EmptyResult()


def make_server() -> Server[Any]:
    server: Server[Any] = Server(
        "conformance",
        version="1",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read,
        on_subscribe_resource=_nothing,
        on_unsubscribe_resource=_nothing,
        on_subscriptions_listen=ListenHandler(fixture.BUS),
        on_completion=_complete,
        on_set_logging_level=_nothing,
    )
    # What `MCPServer` has by itself: the state that a client hands back is sealed.
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity(keys=[os.urandom(32)]), default_audience="conformance")
    )
    return server


async def serve(server: Server[Any]) -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        server.streamable_http_app(retry_interval=200), log_level="error", timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)

    def until_told() -> None:
        sys.stdin.read()
        running.should_exit = True

    threading.Thread(target=until_told, daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    await running.serve([listening])


def main() -> None:
    server = make_server()
    if sys.argv[1] == "plain":
        asyncio.run(serve(server))
        return
    import tidings.mcp
    from tidings import Hub

    modes = {name: tool["task"] for name, tool in fixture.DATA["tools"].items() if "task" in tool}
    hub = Hub(f"sqlite:{sys.argv[2]}")
    terms = tidings.mcp.Tasks(inline=0.25, tools=modes)
    tidings.mcp.attach(server, hub, routes=["webhook"], tasks=terms, tasks_stream=True, timeout=60)
    asyncio.run(serve(server))
    hub.run(hub.close())


if __name__ == "__main__":
    main()

"""What a running request says: log messages by level, and why a tool is being cancelled."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import tidings.mcp
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_listen import Listener
from mcp_stage import Stage
from mcp_stage_v2 import low_level_server
from mcp_types import SubscriptionsListenRequestParams
from mcp_wire import LEGACY, MODERN, WAIT, Client, Gate, Served
from tidings import Hub

LEVELS = ("info", "warning", "emergency")


@pytest.fixture
def server() -> MCPServer:
    made: MCPServer = MCPServer("test", log_level="CRITICAL")

    @made.tool()
    async def say(ctx: Context[Any, Any]) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for level in LEVELS:
                await ctx.session.send_log_message(level, "said", related_request_id=ctx.request_id)  # type: ignore[arg-type]
        return "done"

    return made


def said(client: Client, **meta: Any) -> list[str]:
    *messages, last = client.request("tools/call", {"name": "say", "arguments": {}}, **meta).messages()
    assert "result" in last
    return [message["params"]["level"] for message in messages if message["method"] == "notifications/message"]


def test_levels_are_per_session_and_per_request(server: MCPServer, hub: Hub, serve: Callable[..., Served]) -> None:
    """Field case B55."""
    tidings.mcp.attach(server, hub)
    port = serve(server).port
    a, b, c = (Client(port, LEGACY) for _ in range(3))
    assert a.initialized["result"]["capabilities"]["logging"] == {}
    assert a.request("logging/setLevel", {"level": "warning"}).messages()[-1]["result"] == {}
    assert b.request("logging/setLevel", {"level": "debug"}).messages()[-1]["result"] == {}
    assert a.request("logging/setLevel", {"level": "loud"}).messages()[-1]["error"]["code"] == -32602
    assert (said(a), said(b), said(c)) == (["warning", "emergency"], list(LEVELS), list(LEVELS))
    modern = Client(port, MODERN)
    assert said(modern) == []
    assert said(modern, **{"io.modelcontextprotocol/logLevel": "warning"}) == ["warning", "emergency"]


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_tool_can_tell_a_cancel_from_a_lost_connection(era: str, hub: Hub, serve: Callable[..., Served]) -> None:
    reached, over = Gate(), Gate()
    why: list[bool] = []
    server: MCPServer = MCPServer("test", log_level="CRITICAL")

    @server.tool()
    async def work() -> str:
        try:
            reached.open()
            await anyio.sleep_forever()
        finally:
            why.append(tidings.mcp.current_call().request_cancelled)
            over.open()
        return "never"

    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, era)
    if era == LEGACY:
        answer = client.call("work", id=9)
        reached.wait()
        client.cancel(9)
        assert answer.messages()[-1]["error"]["code"] == -32800
        over.wait()
        assert why == [True]
        return
    import http.client
    import json

    # 2026-07-28 commits no headers before there is something to say, so that the answer cannot be waited for.
    connection = http.client.HTTPConnection("127.0.0.1", client.port)
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 9,
        "method": "tools/call",
        "params": {"name": "work", "arguments": {}, "_meta": meta},
    }
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "work",
    }
    connection.request("POST", "/mcp", json.dumps(body), headers)
    reached.wait()
    connection.close()
    over.wait()
    assert why == [False]


def test_a_client_hears_everything_in_one_place(hub: Hub, serve: Callable[..., Served]) -> None:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from tidings.mcp import ClientNotices, StreamGap, _compat

    server: MCPServer = MCPServer("test", log_level="CRITICAL")

    @server.tool()
    async def work(ctx: Context[Any, Any]) -> str:
        outbound = _compat.request_outbound(ctx.session)
        await outbound.notify("notifications/message", {"level": "info", "data": "said"})
        await ctx.report_progress(1, 2)
        await outbound.notify("notifications/io.tidings/gap", {"reason": "evicted", "earliestSeq": 3, "headSeq": 7})
        tidings.mcp.notify(server, "tools")
        tidings.mcp.notify(server, uri="x:/y")
        return "done"

    tidings.mcp.attach(server, hub)
    port = serve(server).port
    heard: list[Any] = []
    all_heard = anyio.Event()

    def hear(kind: str, what: Any) -> None:
        heard.append((kind, what))
        if len(heard) == 5:
            all_heard.set()

    async def message(params: Any) -> None:
        hear("message", params.data)

    notices = ClientNotices(
        message=message,
        progress=lambda params: hear("progress", params.progress),
        list_changed=lambda kind: hear("list_changed", kind),
        updated=lambda uri: hear("updated", uri),
        gap=lambda gap: hear("gap", gap),
    )

    async def scene() -> None:
        async with (
            streamable_http_client(f"http://127.0.0.1:{port}/mcp") as streams,
            ClientSession(
                streams[0], streams[1], message_handler=notices, notification_bindings=notices.bindings
            ) as session,
        ):
            await session.initialize()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is of the era that is tested
                await session.subscribe_resource("x:/y")
            await session.call_tool("work", {}, meta={"progressToken": "mine"})
            with anyio.fail_after(WAIT):
                await all_heard.wait()

    anyio.run(scene)
    assert sorted(heard, key=str) == sorted(
        [
            ("message", "said"),
            ("progress", 1.0),
            ("gap", StreamGap("evicted", 3, 7)),
            ("list_changed", "tools"),
            ("updated", "x:/y"),
        ],
        key=str,
    )


def test_a_client_that_never_drains_still_gets_its_answers(hub: Hub, serve: Callable[..., Served]) -> None:
    """Field case B44, inbound: 150 notifications that nobody takes, then the response. The oldest give way, and are counted."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from tidings.mcp import ClientNotices, _compat

    server: MCPServer = MCPServer("test", log_level="CRITICAL")

    @server.tool()
    async def work(ctx: Context[Any, Any]) -> str:
        outbound = _compat.request_outbound(ctx.session)
        for number in range(150):
            await outbound.notify("notifications/message", {"level": "info", "data": number})
        return "done"

    tidings.mcp.attach(server, hub)
    port = serve(server).port
    begun: list[Any] = []

    async def never(params: Any) -> None:
        begun.append(params.data)
        await anyio.sleep_forever()

    notices = ClientNotices(message=never, max_waiting=100)

    async def scene() -> None:
        async with (
            streamable_http_client(f"http://127.0.0.1:{port}/mcp") as streams,
            ClientSession(streams[0], streams[1], message_handler=notices) as session,
        ):
            await session.initialize()
            with anyio.fail_after(WAIT):
                result = await session.call_tool("work", {})
                assert result.content[0].text == "done"  # type: ignore[union-attr]
                while len(begun) < 150:
                    await anyio.lowlevel.checkpoint()
            assert notices.dropped == 50
            assert (await session.send_ping()) is not None

    anyio.run(scene)
    assert begun == list(range(150))


def test_a_bus_of_the_authors_is_followed_and_his_own_handler_left_alone(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    bus = InMemorySubscriptionBus()
    server = low_level_server(stage)
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(bus))
    tidings.mcp.attach(server, hub)
    served = serve(server)
    listener = Listener(Client(served.port, MODERN), {"toolsListChanged": True}, "a")
    asyncio.run_coroutine_threadsafe(bus.publish(ToolsListChanged()), served.loop).result(WAIT)
    assert listener.next() == ("notifications/tools/list_changed", {})
    listener.answer.close()

    async def own(ctx: Any, params: Any) -> Any:
        raise MCPError(4711, "not today")

    other = low_level_server(stage)
    other.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, own)
    tidings.mcp.attach(other, hub)
    client = Client(serve(other).port, MODERN)
    error = client.request("subscriptions/listen", {"notifications": {}}).messages()[-1]["error"]
    assert error["code"] == 4711


def test_progress_may_be_spaced(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = low_level_server(stage)
    tidings.mcp.attach(server, hub, progress_interval=3600)
    client = Client(serve(server).port, LEGACY)
    *reports, last = client.call("steps", {"count": 50}, progress=True).messages()
    assert [report["params"]["progress"] for report in reports] == [1, 50], "the first, and the one that completes it"
    assert "result" in last

"""What mcp 1.x does in its own way, and what `attach` does about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp_stage import KINDS, Stage, server_of
from mcp_wire import LEGACY, Client, Receiver, Served
from tidings import Hub
from tidings.mcp import EventStore, SessionEventStore, _host1, _scoping, _transports

EVERY = ("completed", "failed", "timeout", "cancelled")


def test_it_says_which_sdk_it_found() -> None:
    assert tidings.mcp.SDK_VERSION == "1.30.0"


def test_every_private_name_is_there() -> None:
    assert _host1.missing() == []


def test_a_moved_private_name_is_named(monkeypatch: pytest.MonkeyPatch, server: Any, hub: Hub) -> None:
    monkeypatch.setattr(_host1, "missing", lambda: ["mcp.somewhere._gone"])
    with pytest.raises(RuntimeError, match=r"mcp 1.30.0 lacks what tidings.mcp needs: mcp.somewhere._gone"):
        tidings.mcp.attach(server, hub)


def test_it_takes_only_servers_once(server: Any, hub: Hub) -> None:
    with pytest.raises(TypeError, match=r"a FastMCP or a low-level Server of mcp 1.x, not builtins.object"):
        tidings.mcp.attach(object(), hub)
    tidings.mcp.attach(server, hub)
    with pytest.raises(RuntimeError, match="attached already"):
        tidings.mcp.attach(server, hub)


def the_store(session: str | None) -> Any:
    assert session is not None
    transport: StreamableHTTPServerTransport = _scoping._here[session]
    return _transports.store_of(transport)


def test_a_session_manager_made_by_hand_gets_the_store(server: Any, hub: Hub, serve: Callable[..., Served]) -> None:
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    assert isinstance(the_store(client.session), SessionEventStore)


def test_the_store_yields_to_one_that_is_given_and_needs_no_attach(
    server: Any, hub: Hub, serve: Callable[..., Served]
) -> None:
    client = Client(serve(server, event_store=EventStore(hub)).port, LEGACY)
    answer = client.call("steps", {"count": 3}, progress=True)
    primed, events = answer.priming(), answer.rest()
    assert client.get(primed.id).rest() == events


def test_the_store_can_be_left_out(server: Any, hub: Hub, serve: Callable[..., Served]) -> None:
    assert tidings.mcp.attach(server, hub, event_store=False).event_store is None
    assert Client(serve(server).port, LEGACY).session not in _scoping._here


def test_a_handler_that_is_registered_later_is_watched_too(
    receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    server: Server[Any] = Server("test")
    tidings.mcp.attach(server, hub, routes=["webhook"])

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [types.Tool(name="late", inputSchema={"type": "object"})]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        return [types.TextContent(type="text", text="done")]

    client = Client(serve(server).port, LEGACY)
    answer = client.call("late", notificationConfig=receiver.config(*EVERY)).messages()[-1]
    assert receiver.next()["data"]["outcome"]["result"] == answer["result"]


def watching(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> tuple[Client, list[types.CallToolRequest]]:
    """A client of a server with routes, and the calls that come to its handler."""
    server = server_of("Server", stage)
    seen: list[types.CallToolRequest] = []
    inner = server.request_handlers[types.CallToolRequest]

    async def spy(request: types.CallToolRequest) -> Any:
        seen.append(request)
        return await inner(request)

    server.request_handlers[types.CallToolRequest] = spy
    tidings.mcp.attach(server, hub, routes=["webhook"])
    return Client(serve(server).port, LEGACY), seen


def test_the_tool_does_not_see_the_config(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    client, seen = watching(stage, hub, serve)
    config = {"routes": [{"id": "a", "type": "webhook", "endpoint": "https://example.com/", "triggers": ["completed"]}]}
    client.call("steps", notificationConfig=config, other={"kept": 1}).rest()
    [request] = seen
    assert request.params.model_extra == {"other": {"kept": 1}}


def test_nor_a_config_in_the_meta_of_a_call_that_is_to_be_a_task(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    client, seen = watching(stage, hub, serve)
    params = {"name": "steps", "arguments": {}, "task": {"ttl": 60_000}}
    client.request("tools/call", params, kept=1, **{"io.tidings/notification-config": None}).rest()
    [request] = seen
    assert request.params.meta is not None
    assert request.params.meta.model_extra == {"kept": 1}
    assert stage.metas == [{"kept": 1, "progressToken": None}]


def test_a_session_without_sessions_believes_no_header(
    receiver: Receiver, hub: Hub, stage: Stage, serve: Callable[..., Served]
) -> None:
    begun: list[dict[str, Any]] = []

    class Spy:
        def __getattr__(self, name: str) -> Any:
            return getattr(hub, name)

        async def begin_call(self, **how: Any) -> Any:
            begun.append(how)
            return await hub.begin_call(**how)

    server = server_of(KINDS[0], stage)
    tidings.mcp.attach(server, Spy(), routes=["webhook"])  # type: ignore[arg-type]
    option = {"stateless_http": True}
    client = Client(serve(server, **option).port, LEGACY)
    client.session = "somebody-elses"
    client.call("steps", notificationConfig=receiver.config(*EVERY)).messages()
    assert receiver.next()["name"] == "tool_call.completed"
    [how] = begun
    assert how["session"] is None
    assert how["principal"].startswith("connection:")

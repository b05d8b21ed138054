"""What FastMCP does of its own around the SDK, and what `attach` does about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tidings.mcp
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.event_store import EventStore as TheirStore
from fastmcp.server.extensions import MethodBinding, ServerExtension
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp_stage import ERAS, Stage, high_level_server
from mcp_tasks import TaskClient
from mcp_types import RequestParams
from mcp_wire import LEGACY, Client, Receiver, Served
from tidings import Hub
from tidings.mcp import EventStore, SessionEventStore, _compat, _scoping, _transports


def test_every_private_name_is_there() -> None:
    assert _compat.missing() == []
    assert isinstance(FastMCP("x")._mcp_server.middleware, list)


def test_it_takes_only_servers(hub: Hub) -> None:
    with pytest.raises(TypeError, match=r"a FastMCP of fastmcp 4, not builtins.object; the installed SDK is mcp 2"):
        tidings.mcp.attach(object(), hub)


def test_a_server_is_attached_once(stage: Stage, hub: Hub) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    with pytest.raises(RuntimeError, match="attached already"):
        tidings.mcp.attach(server, hub)


def the_store(session: str | None) -> Any:
    assert session is not None
    transport: StreamableHTTPServerTransport = _scoping._here[session]
    return _transports.store_of(transport)


@pytest.mark.parametrize("made", ["before attach", "after attach", "with a store of ours"])
def test_each_session_gets_a_store_of_its_own_in_place_of_the_wrapper(
    made: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    if made == "with a store of ours":
        served = serve(server, event_store=EventStore(hub))
    elif made == "after attach":
        tidings.mcp.attach(server, hub)
        served = serve(server)
    else:
        app = server.http_app(path="/mcp")
        tidings.mcp.attach(server, hub)
        served = Served(app)
    client = Client(served.port, LEGACY)
    store = the_store(client.session)
    assert isinstance(store, SessionEventStore)
    # By the session's own id, and not a fresh random one, so that it outlives the process.
    assert store._scope == f"session:{client.session}"
    answer = client.call("steps", {"count": 3, "hold_at": 1}, progress=True)
    seen = answer.take(1)
    answer.cut()
    resumed = client.get(seen[0].id)
    stage.gate.open()
    # Replayed as it comes and followed live: not held back until it is over, nor thrown away.
    assert [event.message.get("method", "result") for event in resumed.rest()] == [
        "notifications/progress",
        "notifications/progress",
        "result",
    ]
    if made == "before attach":
        served.stop()


def test_a_store_of_somebody_elses_is_left_alone(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server, event_store=TheirStore()).port, LEGACY)
    assert client.session not in _scoping._here
    assert client.call("steps", {"count": 1}, progress=True).rest()


def test_the_store_can_be_left_out(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    assert tidings.mcp.attach(server, hub, event_store=False).event_store is None
    client = Client(serve(server).port, LEGACY)
    assert client.session not in _scoping._here


@pytest.mark.parametrize("raised", ["a ToolError", "any other"])
@pytest.mark.parametrize("era", ERAS)
def test_a_tool_error_is_a_failed_call(
    era: str, raised: str, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)

    @server.tool
    def fails() -> str:
        raise ToolError("said so") if raised == "a ToolError" else RuntimeError("said nothing")

    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    answer = client.call("fails", notificationConfig=receiver.config("completed", "failed")).messages()[-1]
    told = receiver.next()
    assert answer["result"]["isError"] is True
    assert told["name"] == "tool_call.failed"
    assert told["data"]["outcome"]["result"] == answer["result"]


def test_its_own_middleware_shapes_what_is_delivered(
    stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import ToolResult

    class Mask(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            await call_next(context)
            return ToolResult(content="***")

    server = high_level_server(stage)
    server.add_middleware(Mask())
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, LEGACY)
    answer = client.call("announce", notificationConfig=receiver.config("completed")).messages()[-1]
    assert answer["result"]["content"] == [{"type": "text", "text": "***"}]
    assert receiver.next()["data"]["outcome"]["result"] == answer["result"]


class TheirTasks(ServerExtension):
    """What fastmcp-tasks is to a server: it takes the extension's name and its methods."""

    identifier = "io.modelcontextprotocol/tasks"

    def methods(self) -> Sequence[MethodBinding]:
        async def get(ctx: Any, params: Any) -> dict[str, Any]:
            return {"theirs": True}

        return [MethodBinding("tasks/get", RequestParams, get)]


def test_tasks_of_fastmcps_own_are_left_alone(
    stage: Stage, hub: Hub, serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    server = high_level_server(stage)
    server.add_extension(TheirTasks())
    attachment = tidings.mcp.attach(server, hub, tasks="auto", tasks_stream=True)
    assert not attachment.tasks
    assert "this server has tasks already (tasks/get)" in caplog.text
    client = TaskClient(serve(server).port)
    assert client.one("tasks/get", {"taskId": "x"})["result"]["theirs"] is True
    assert client.one("tasks/stream", {"taskId": "x"})["error"]["code"] == -32601


def test_their_tasks_after_ours_are_refused_by_fastmcp(stage: Stage, hub: Hub) -> None:
    server = high_level_server(stage)
    assert tidings.mcp.attach(server, hub, tasks="auto").tasks
    with pytest.raises(ValueError, match="'tasks/get' is already registered"):
        server.add_extension(TheirTasks())

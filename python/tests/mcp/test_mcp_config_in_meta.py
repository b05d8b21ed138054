"""A config in the ``_meta`` of a call, of a client whose SDK has no room for it in the parameters: as the Go adapter has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import pytest
import tidings.mcp
from mcp_stage import ERAS, SDK, Stage, high_level_server
from mcp_wire import MODERN, WAIT, Client, Receiver, Served
from tidings import Hub

NAME: Final = "io.tidings/notification-config"
KEPT: Final = {"com.example/kept": {"n": 1}}
"""What else is in the `_meta`, and reaches the tool."""


def config(id: str) -> dict[str, Any]:
    """One that is good."""
    return {"routes": [{"id": id, "type": "webhook", "endpoint": "https://example.com/", "triggers": ["failed"]}]}


def call(client: Client, in_meta: Any, **params: Any) -> list[Any]:
    asked = {"name": "steps", "arguments": {}, **params}
    return client.request("tools/call", asked, **KEPT, **{NAME: in_meta}).messages()


def seen_nothing_of_it(stage: Stage) -> bool:
    """Whether one tool ran, which saw what else is there, and no config."""
    [params] = stage.params
    [meta] = stage.metas
    return (
        meta["com.example/kept"] == {"n": 1}
        and NAME not in json.dumps([params, meta])
        and "notificationConfig" not in params
    )


def accepted(messages: list[Any]) -> Any:
    """The routes that were acknowledged, before the tool ran and with its result."""
    first, *_, last = messages
    assert first["method"] == "notifications/config/acknowledged"
    assert last["result"]["_meta"]["io.tidings/acknowledged"] == first["params"]
    return first["params"]["acceptedRoutes"]


@pytest.mark.parametrize("era", ERAS)
def test_it_is_taken_as_one_in_the_parameters_is(
    era: str, server: Any, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    messages = call(Client(serve(server).port, era), receiver.config("completed"))
    assert accepted(messages) == ["primary"]
    told = receiver.next()
    assert told["name"] == "tool_call.completed"
    assert told["data"]["callId"] == messages[0]["params"]["callId"]
    assert seen_nothing_of_it(stage)


@pytest.mark.parametrize("era", ERAS)
def test_the_one_in_the_parameters_is_preferred(
    era: str, server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    for other in (config("other"), "nonsense", None):
        assert accepted(call(client, other, notificationConfig=config("own"))) == ["own"]
        assert seen_nothing_of_it(stage)
        stage.reset()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("bad", [None, "nonsense", {"routes": []}], ids=["null", "a text", "no routes"])
def test_also_where_that_is_refused(era: str, bad: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    [answer] = call(Client(serve(server).port, era), config("other"), notificationConfig=bad)
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["faults"]
    assert stage.params == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("bad", [None, [], "webhook", 1, False, {}], ids=repr)
def test_a_bad_one_is_refused_whole_and_nothing_runs(
    era: str, bad: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    [answer] = call(Client(serve(server).port, era), bad)
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["total"] == len(answer["error"]["data"]["faults"]) >= 1
    assert stage.params == []


@pytest.mark.parametrize("era", ERAS)
def test_its_name_may_be_escaped(era: str, stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    # PHP's encoder, for one, writes each slash as `\/`.
    client.encode = lambda body: json.dumps(body).replace("/", "\\/").replace("notification-c", "notification\\u002dc")
    assert accepted(call(client, config("escaped"))) == ["escaped"]
    assert seen_nothing_of_it(stage)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("in_meta", [config("a"), None], ids=["a good one", "null"])
def test_a_server_without_routes_ignores_it(
    era: str, in_meta: Any, server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub)
    [answer] = call(Client(serve(server).port, era), in_meta)
    assert "io.tidings/acknowledged" not in answer["result"].get("_meta", {})
    assert seen_nothing_of_it(stage)


@pytest.mark.parametrize("era", ERAS)
def test_the_servers_own_routes_are_for_calls_without_one(
    era: str, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    own = [{**receiver.config("completed")["routes"][0], "id": "own"}]
    tidings.mcp.attach(server, hub, routes=["webhook"], default_routes=own)
    client = Client(serve(server).port, era)
    call(client, receiver.config("completed"))
    assert receiver.next()["data"]["route"] == "primary"
    client.call("steps").messages()
    assert receiver.next()["data"]["route"] == "own"


@asynccontextmanager
async def official(port: int, era: str) -> Any:
    """The SDK's own client, as a function that calls a tool."""
    url = f"http://127.0.0.1:{port}/mcp"
    if SDK == "mcp1":
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            yield session.call_tool
    else:
        from mcp import Client as SdkClient

        async with SdkClient(url, mode=MODERN if era == MODERN else "legacy") as client:
            yield client.call_tool


@pytest.mark.parametrize("era", ERAS)
async def test_the_sdks_own_client_brings_it(
    era: str, server: Any, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    port = serve(server).port
    with anyio.fail_after(WAIT):
        async with official(port, era) as call_tool:
            result = await call_tool("steps", {}, meta={**KEPT, NAME: receiver.config("completed")})
    assert result.meta["io.tidings/acknowledged"]["acceptedRoutes"] == ["primary"]
    assert receiver.next()["name"] == "tool_call.completed"
    assert seen_nothing_of_it(stage)


@pytest.mark.skipif(SDK == "mcp1", reason="the Tasks extension needs mcp 2.x")
def test_a_task_has_it_too(stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]) -> None:
    from mcp_tasks import DECLARED

    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"], tasks=tidings.mcp.Tasks(tools={"steps": "always"}))
    client = Client(serve(server).port, MODERN)
    asked = {"name": "steps", "arguments": {}}
    meta = {**DECLARED, **KEPT, NAME: receiver.config("completed")}
    created = client.request("tools/call", asked, **meta).messages()[-1]["result"]
    assert created["resultType"] == "task"
    assert created["_meta"]["io.tidings/acknowledged"]["callId"] == created["taskId"]
    assert receiver.next()["data"]["taskId"] == created["taskId"]
    assert seen_nothing_of_it(stage)
    # And is refused as ever.
    [refused] = client.request("tools/call", asked, **{**meta, NAME: None}).messages()
    assert refused["error"]["code"] == -32602
    assert len(stage.params) == 1

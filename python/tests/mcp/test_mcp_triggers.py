"""Triggers that are objects, and those that a tool fires itself: conditions, time, groups, vendor names, redaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tidings.mcp
from mcp_stage import ERAS, Stage, guarded_server, high_level_server, plain_tool
from mcp_wire import Client, Receiver, Served
from tidings import Hub

ERA = pytest.mark.parametrize("era", ERAS)


def config(receiver: Receiver, *routes: tuple[str, list[Any]], **extra: Any) -> dict[str, Any]:
    """Routes to the receiver, each an id and its triggers."""
    one = receiver.config()["routes"][0]
    return {"routes": [{**one, "id": id, "triggers": triggers} for id, triggers in routes], **extra}


@ERA
def test_conditions_choose_the_route(
    era: str, server: Any, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    wanted = config(
        receiver,
        ("errors", [{"on": "failed", "when": [{"path": "/result/isError", "eq": True}]}]),
        ("done", [{"on": "completed", "when": [{"path": "/result/content/0/text", "prefix": "do"}]}]),
        ("rest", ["completed", "failed"]),
    )
    for tool, route in (("broken", "errors"), ("steps", "done"), ("announce", "rest")):
        client.call(tool, notificationConfig=wanted).messages()
        data = receiver.next()["data"]
        assert (data["tool"], data["route"]) == (tool, route)


@ERA
def test_every_fault_of_a_trigger_is_named_and_nothing_runs(
    era: str, server: Any, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    triggers = [
        {"on": "completed", "when": [{"path": "result", "eq": 1}, {"path": "/a", "lt": []}]},
        {"everyMs": 9999},
        {"group": "g"},
    ]
    error = client.call("steps", notificationConfig=config(receiver, ("r", triggers))).messages()[-1]["error"]
    assert error["code"] == -32602
    assert {(fault["path"], fault["rule"]) for fault in error["data"]["faults"]} == {
        ("/routes/0/triggers/0/when/0/path", "pointer"),
        ("/routes/0/triggers/0/when/1/lt", "operand"),
        ("/routes/0/triggers/1/everyMs", "too_small"),
        ("/routes/0/triggers/2", "group_rule"),
    }
    assert error["data"]["total"] == 4
    assert stage.params == []


@ERA
def test_a_tool_that_takes_long_is_told_of(
    era: str, server: Any, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    answer = client.call(
        "steps", {"hold_at": 0}, notificationConfig=config(receiver, ("r", [{"elapsedMs": 1}, "completed"]))
    )
    event = receiver.next()  # while the tool still runs
    assert event["name"] == "tool_call.elapsed"
    assert (event["data"]["trigger"], event["data"]["elapsedMs"]) == ("elapsedMs", 1)
    stage.gate.open()
    answer.messages()
    assert receiver.next()["name"] == "tool_call.completed"


@ERA
def test_the_last_call_of_a_group(
    era: str, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    # Of one who is logged in: a request of 2026-07-28 without a login is nobody's but its own.
    server = guarded_server(stage, lambda token: ("https://login.example", token, "client"))
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era, headers={"authorization": "Bearer ann"})
    wanted = config(receiver, ("r", [{"group": "batch", "all": 2}]), group="batch")
    ids = []
    for id, tool in ((1, "steps"), (2, "broken")):
        answer = client.call(tool, id=id, notificationConfig=wanted).messages()[-1]
        ids.append(answer["result"]["_meta"]["io.tidings/acknowledged"]["callId"])
    event = receiver.next()
    assert event["name"] == "tool_call.group"
    assert event["data"]["callId"] == ids[0]
    assert event["data"]["group"] == {
        "name": "batch",
        "all": 2,
        "met": True,
        "calls": [{"callId": ids[0], "status": "completed"}, {"callId": ids[1], "status": "failed"}],
    }
    assert receiver.deliveries.empty()


@ERA
def test_a_tool_fires_a_trigger_of_its_own(
    era: str, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)

    @plain_tool(server)
    async def halves() -> str:
        call = tidings.mcp.current_call()
        call.fire("com.example/half", {"done": 0.5})
        with pytest.raises(tidings.InvalidArgument, match="name: "):
            call.fire("completed", {})
        with pytest.raises(TypeError):
            call.fire("com.example/half", [])  # type: ignore[arg-type]
        return "whole"

    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    acknowledged = client.call(
        "halves", notificationConfig=config(receiver, ("r", ["com.example/half", "half"]))
    ).messages()[-1]["result"]["_meta"]["io.tidings/acknowledged"]
    assert acknowledged["ignoredTriggers"] == ["half"]
    event = receiver.next()
    assert event["name"] == event["data"]["trigger"] == "com.example/half"
    assert event["data"]["payload"] == {"done": 0.5}
    # A client that asked for nothing changes nothing for the tool.
    assert client.call("halves", id=2).messages()[-1]["result"]["content"][0]["text"] == "whole"
    assert receiver.deliveries.empty()


@ERA
def test_redaction_of_a_route_and_of_the_operator(
    era: str,
    stage: Stage,
    receiver: Receiver,
    make_hub: Callable[..., Hub],
    serve: Callable[..., Served],
    tmp_path: Path,
) -> None:
    server = high_level_server(stage)

    @plain_tool(server)
    async def card() -> str:
        tidings.mcp.current_call().fire("com.example/card", {"number": "4111-hunter2", "kept": 1})
        return "4222-hunter3"

    hub = make_hub(redact=["number"])
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    wanted = config(receiver, ("r", ["com.example/card", "completed"]))
    wanted["routes"][0]["redact"] = ["/outcome/result/content/0/text"]
    answer = client.call("card", notificationConfig=wanted).messages()[-1]
    assert answer["result"]["content"][0]["text"] == "4222-hunter3", "who is connected gets it whole"
    # They are on their way together: either may be the first to arrive.
    both = {event["name"]: event["data"] for event in (receiver.next(), receiver.next())}
    assert both["com.example/card"]["payload"] == {"number": "[redacted]", "kept": 1}
    told = both["tool_call.completed"]["outcome"]["result"]["content"][0]
    assert told == {**answer["result"]["content"][0], "text": "[redacted]"}
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"hunter2" not in kept

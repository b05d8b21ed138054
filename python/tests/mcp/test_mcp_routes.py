"""Routes that are no webhooks, the policy, and the server's own routes, through real servers of each kind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp_stage import ERAS, SDK, Stage, guarded_server, high_level_server
from mcp_wire import LEGACY, MODERN, WAIT, Client, Receiver, Served
from tidings import HostDelivery, Hub
from tidings.mcp import Allow, Deny, PolicyRequest, Rewrite

needs_methods = pytest.mark.skipif(SDK == "mcp1", reason="mcp 1.x refuses methods that it does not know")


def host_route(kind: str, endpoint: str | None = None, *, id: str = "r", **more: Any) -> dict[str, Any]:
    route = {"id": id, "type": kind, "triggers": ["completed"], **more}
    return route if endpoint is None else {**route, "endpoint": endpoint}


def types_told(client: Client) -> list[str]:
    if client.era == MODERN:
        [answer] = client.request("server/discover", {}).messages()
    else:
        answer = client.initialized
    told: list[str] = answer["result"]["capabilities"]["notificationConfig"]["supportedRouteTypes"]
    return told


class Handler:
    """Keeps what it got."""

    def __init__(self) -> None:
        self.got: list[HostDelivery] = []
        self._came = threading.Semaphore(0)

    async def __call__(self, delivery: HostDelivery) -> None:
        self.got.append(delivery)
        self._came.release()

    def next(self) -> HostDelivery:
        assert self._came.acquire(timeout=WAIT), "nothing came"
        return self.got[-1]


def fault(answer: Any) -> tuple[int, str]:
    error = answer["error"]
    return error["code"], error["data"]["faults"][0]["rule"]


@pytest.mark.parametrize("era", ERAS)
def test_a_callback_that_the_policy_opens(
    era: str, server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    handler = Handler()
    hub.register_callback("audit", handler)
    asked: list[PolicyRequest] = []

    async def policy(request: PolicyRequest) -> Allow:
        asked.append(request)
        return Allow(open=["audit"])

    tidings.mcp.attach(server, hub, routes=["webhook", "callback"], policy=policy)
    client = Client(serve(server).port, era)
    config = {"routes": [host_route("callback", "audit")]}
    answer = client.call("steps", {"count": 1}, notificationConfig=config).messages()[-1]
    assert answer["result"]["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"] == ["r"]
    delivery = handler.next()
    assert (delivery.route_type, delivery.endpoint, delivery.trigger) == ("callback", "audit", "completed")
    [request] = asked
    assert (request.tool, request.config, request.session) == ("steps", config, client.session)
    assert request.principal == delivery.principal
    # Another name is not open, whether there is such a handler or not.
    other = client.call("steps", notificationConfig={"routes": [host_route("callback", "other")]}).messages()[-1]
    assert fault(other) == (-32602, "not_open")


@pytest.mark.parametrize("era", ERAS)
def test_a_type_of_the_servers_own(era: str, stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    handler = Handler()
    hub.register_route_type("pager", handler)
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook", "callback", "pager"])
    client = Client(serve(server).port, era)
    # A callback needs a policy that opens it.
    assert types_told(client) == ["webhook", "pager"]
    client.call("steps", notificationConfig={"routes": [host_route("pager", "on-call")]}).messages()
    assert handler.next().endpoint == "on-call"


def test_a_message_into_the_calling_session(server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook", "message"])
    port = serve(server).port
    mine, theirs = Client(port, LEGACY), Client(port, LEGACY)
    assert types_told(mine) == ["webhook", "message"]
    listening, their_stream = mine.get(), theirs.get()
    config = {"routes": [host_route("message")]}
    answer = mine.call("steps", {"count": 1}, notificationConfig=config).messages()[-1]
    [event] = listening.take(1)
    frame = event.message
    assert frame["method"] == "notifications/io.tidings/triggered"
    assert frame["params"]["name"] == "tool_call.completed"
    acknowledged = answer["result"]["_meta"]["io.tidings/acknowledged"]
    assert frame["params"]["data"]["callId"] == acknowledged["callId"]
    # The other session gets its own and nothing else, whatever its client writes.
    for forged in ({"peer": mine.session}, {"endpoint": mine.session}, {"endpoint": f"@message:{mine.session}"}):
        route = {**host_route("message"), **forged}
        said = theirs.call("steps", {"count": 0}, notificationConfig={"routes": [route]}).messages()[-1]
        if "endpoint" in forged:
            assert fault(said) == (-32602, "not_open")
    [own] = their_stream.take(1)
    assert own.message["params"]["data"]["callId"] != acknowledged["callId"]
    mine.call("steps", notificationConfig=config, id=2).messages()
    [second] = listening.take(1)
    assert second.message["params"]["data"]["requestId"] == 2, "nothing of the other's came in between"
    for stream in (listening, their_stream):
        stream.cut()


def test_a_message_that_nobody_hears_is_there_at_the_next_resume(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["message"])
    client = Client(serve(server).port, LEGACY)
    listening = client.get()
    config = {"routes": [host_route("message")]}
    client.call("steps", notificationConfig=config).messages()
    [first] = listening.take(1)
    listening.cut()
    client.call("steps", notificationConfig=config, id=2).messages()
    again = client.get(first.id)
    [missed] = again.take(1)
    assert missed.message["params"]["data"]["requestId"] == 2
    again.cut()


def test_a_session_that_is_over_hands_over_to_the_next_route(
    stage: Stage, hub: Hub, receiver: Receiver, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook", "message"])
    client = Client(serve(server).port, LEGACY)
    [webhook] = receiver.config("completed")["routes"]
    config = {"routes": [host_route("message"), webhook]}
    answer = client.call("steps", {"count": 1, "hold_at": 0}, notificationConfig=config)
    stage.reached.wait()
    client.delete().messages()
    stage.gate.open()
    answer.cut()
    assert receiver.next()["data"]["route"] == "primary"


@pytest.mark.skipif(SDK == "mcp1", reason="mcp 1.x does not speak 2026-07-28")
def test_a_request_that_stands_alone_has_no_session_to_be_told_in(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook", "message"])
    client = Client(serve(server).port, MODERN)
    assert types_told(client) == ["webhook"]
    said = client.call("steps", notificationConfig={"routes": [host_route("message")]}).messages()[-1]
    assert fault(said) == (-32602, "unsupported_type")
    assert stage.params == []


POLICIES: dict[str, tuple[Callable[[PolicyRequest], Any], int, str | None]] = {
    "no": (lambda request: False, -32602, "denied"),
    "no, and why": (lambda request: Deny("not you"), -32602, "denied"),
    "nothing": (lambda request: None, -32603, None),
    "raises": (lambda request: 1 / 0, -32603, None),
    "rewrites to what is against the rules": (lambda request: Rewrite({"routes": []}), -32602, "empty"),
}


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("era", ERAS)
def test_what_a_policy_refuses_does_not_run(
    era: str, name: str, stage: Stage, hub: Hub, receiver: Receiver, serve: Callable[..., Served]
) -> None:
    policy, code, rule = POLICIES[name]
    server = high_level_server(stage)
    attachment = tidings.mcp.attach(server, hub, routes=["webhook"], policy=policy)
    client = Client(serve(server).port, era)
    said = client.call("steps", notificationConfig=receiver.config("completed")).messages()[-1]
    assert said["error"]["code"] == code
    if rule is None:
        assert said["error"]["data"]["reason"] == "policy_failed"
        assert attachment.failures == 1
    else:
        assert fault(said) == (code, rule)
        assert attachment.failures == 0
    assert stage.params == []
    # A call without a config is none of the policy's business.
    assert "result" in client.call("steps").messages()[-1]


def test_a_policy_sees_who_asks_and_rewrites(
    stage: Stage, hub: Hub, receiver: Receiver, serve: Callable[..., Served]
) -> None:
    def who(token: str) -> tuple[str, str, str]:
        return "https://login.example", token, "app"

    def policy(request: PolicyRequest) -> Any:
        if request.principal == tidings.mcp.principal("https://login.example", "ann", "app"):
            return True
        [route] = request.config["routes"]
        return Rewrite({"routes": [{**route, "id": "rewritten"}]})

    server = guarded_server(stage, who)
    tidings.mcp.attach(server, hub, routes=["webhook"], policy=policy)
    port = serve(server).port
    for name, want in (("ann", "primary"), ("bob", "rewritten")):
        client = Client(port, LEGACY, headers={"authorization": f"Bearer {name}"})
        said = client.call("steps", notificationConfig=receiver.config("completed")).messages()[-1]
        assert said["result"]["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"] == [want]
        assert receiver.next()["data"]["route"] == want


@pytest.mark.parametrize("era", ERAS)
def test_the_servers_own_routes(
    era: str, server: Any, stage: Stage, hub: Hub, receiver: Receiver, serve: Callable[..., Served]
) -> None:
    [own] = receiver.config("completed")["routes"]
    own["id"] = "own"
    tidings.mcp.attach(server, hub, routes=["webhook"], default_routes={"steps": [own]}, policy=lambda request: True)
    client = Client(serve(server).port, era)
    *before, answer = client.call("steps").messages()
    assert before == []
    assert "io.tidings/acknowledged" not in answer["result"].get("_meta", {}), "it did not ask"
    assert receiver.next()["data"]["route"] == "own"
    # A client with a config of its own is told by that only.
    client.call("steps", notificationConfig=receiver.config("completed"), id=2).messages()
    assert receiver.next()["data"]["route"] == "primary"
    client.call("announce", {"times": 0}, id=3).messages()
    client.call("steps", id=4).messages()
    assert receiver.next()["data"]["requestId"] == 4, "another tool has none"


def test_the_servers_own_message_needs_no_session_to_let_a_call_run(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, default_routes=[host_route("message")])
    port = serve(server).port
    client = Client(port, LEGACY)
    listening = client.get()
    client.call("steps").messages()
    assert listening.take(1)[0].message["params"]["data"]["route"] == "r"
    listening.cut()
    if SDK != "mcp1":
        assert "result" in Client(port, MODERN).call("steps").messages()[-1]


def test_what_attach_refuses(stage: Stage, hub: Hub) -> None:
    for wrong, error in (
        ({"routes": ["pager"]}, ValueError),
        ({"policy": "yes"}, TypeError),
        ({"default_routes": "message"}, TypeError),
        ({"default_routes": [{"id": "a"}]}, ValueError),
        ({"default_routes": {"steps": [host_route("pager")]}}, ValueError),
    ):
        with pytest.raises(error):
            tidings.mcp.attach(high_level_server(stage), hub, **wrong)  # type: ignore[arg-type]


@needs_methods
def test_only_the_same_principal_stops_a_call(
    stage: Stage, hub: Hub, receiver: Receiver, serve: Callable[..., Served]
) -> None:
    def who(token: str) -> tuple[str, str, str]:
        return "https://login.example", token, "app"

    server = guarded_server(stage, who)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    port = serve(server).port
    ann, bob = (Client(port, LEGACY, headers={"authorization": f"Bearer {name}"}) for name in ("ann", "bob"))
    running = ann.call("steps", {"count": 1, "hold_at": 0}, notificationConfig=receiver.config("cancelled"))
    acknowledged = next(event.message for event in running.events() if event.data)
    call_id = acknowledged["params"]["callId"]
    stage.reached.wait()
    running.cut()

    def cancel(client: Client, call: Any) -> Any:
        return client.request("io.tidings/calls/cancel", {"callId": call}, 9).messages()[-1]

    foreign, unknown = cancel(bob, call_id), cancel(ann, "call_0000000000000000000000")
    assert foreign["error"] == unknown["error"]
    assert foreign["error"]["code"] == -32602
    assert cancel(ann, 7)["error"]["code"] == -32602
    assert not stage.cancelled.is_open
    # From another session of the same principal.
    again = Client(port, LEGACY, headers={"authorization": "Bearer ann"})
    assert cancel(again, call_id)["result"] == {}
    stage.cancelled.wait()
    assert receiver.next()["name"] == "tool_call.cancelled"


# Field case B31: what is not served is refused before anything runs, and the acknowledgement names exactly what is.
def test_b31_nothing_is_accepted_that_is_not_served(
    stage: Stage, hub: Hub, receiver: Receiver, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, LEGACY)
    [webhook] = receiver.config("completed", "later")["routes"]
    webhook["triggers"].append("later")
    for routes, rule in (
        ([host_route("pager")], "unsupported_type"),
        ([webhook, host_route("signal", id="s", signal="SIGUSR2")], "unsupported_type"),
        ([], "empty"),
        ([webhook, webhook], "duplicate_id"),
    ):
        said = client.call("steps", notificationConfig={"routes": routes}).messages()[-1]
        assert fault(said) == (-32602, rule)
    assert stage.params == []
    said = client.call("steps", notificationConfig={"routes": [webhook, {**webhook, "id": "second"}]}).messages()[-1]
    acknowledged = said["result"]["_meta"]["io.tidings/acknowledged"]
    assert acknowledged["acceptedRoutes"] == ["primary", "second"]
    assert acknowledged["ignoredTriggers"] == ["later"]

"""notificationConfig on both protocol eras and both kinds of server: accepted and acknowledged, or refused whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp_stage import ERAS, KINDS, Stage, guarded_server, high_level_server, server_of
from mcp_wire import LEGACY, MODERN, Client, Receiver, Served
from tidings import Hub, UnavailableError

# The example of SEP-992 as it stands, but for the dots in its arguments.
SEP_EXAMPLE = {
    "routes": [
        {
            "id": "primary",
            "type": "webhook",
            "endpoint": "https://example.com/notifications",
            "triggers": ["completed", "failed"],
        }
    ]
}


def route(**changes: Any) -> dict[str, Any]:
    made = {"id": "a", "type": "webhook", "endpoint": "https://example.com/hook", "triggers": ["completed"], **changes}
    return {name: value for name, value in made.items() if value is not ...}


def capabilities(client: Client) -> dict[str, Any]:
    if client.era == MODERN:
        [answer] = client.request("server/discover", {}).messages()
    else:
        answer = client.initialized
    found: dict[str, Any] = answer["result"]["capabilities"]
    return found


@pytest.mark.parametrize("era", ERAS)
def test_the_capability_is_told_in_both_places(era: str, server: Any, hub: Hub, serve: Callable[..., Served]) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    told = capabilities(Client(serve(server).port, era))
    assert told["extensions"]["io.tidings/notification-config"] == {"supportedRouteTypes": ["webhook"]}
    assert told["notificationConfig"] == {"supportedRouteTypes": ["webhook"]}
    assert "tools" in told


@pytest.mark.parametrize("era", ERAS)
def test_nothing_is_told_or_done_without_routes(
    era: str, server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, era)
    told = capabilities(client)
    assert "notificationConfig" not in told
    assert "io.tidings/notification-config" not in (told.get("extensions") or {})
    # A server without the feature ignores it (SEP-992), a bad one too.
    [answer] = client.call("steps", notificationConfig={"routes": "nonsense"}).messages()
    assert "io.tidings/acknowledged" not in answer["result"].get("_meta", {})
    assert len(stage.params) == 1


@pytest.mark.parametrize("era", ERAS)
def test_the_example_of_the_sep_is_accepted_as_it_stands(
    era: str, server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    answer = client.call("steps", {"count": 2}, id="123", progress=True, notificationConfig=SEP_EXAMPLE)
    first, *middle, last = answer.messages()
    # Acknowledged on the request's own stream, before the tool says anything,
    assert first["method"] == "notifications/config/acknowledged"
    acknowledged = first["params"]
    assert acknowledged.keys() == {"requestId", "acceptedRoutes", "callId"}
    assert acknowledged["requestId"] == "123"
    assert acknowledged["acceptedRoutes"] == ["primary"]
    assert isinstance(acknowledged["callId"], str)
    assert [message["method"] for message in middle] == ["notifications/progress"] * 2
    # and again in the result.
    assert last["id"] == "123"
    assert last["result"]["_meta"]["io.tidings/acknowledged"] == acknowledged
    assert last["result"]["content"] == [{"type": "text", "text": "done"}]
    # The tool saw its arguments and no more.
    assert [set(params) - {"_meta", "name", "arguments"} for params in stage.params] == [set()]
    assert stage.params[0]["arguments"] == {"count": 2}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("request_id", [7, "7", 0, ""])
def test_a_request_id_keeps_its_type(
    request_id: int | str, era: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    answer = client.call("steps", id=request_id, notificationConfig=SEP_EXAMPLE).messages()
    said = [message["params"]["requestId"] for message in answer if "params" in message]
    said.append(answer[-1]["result"]["_meta"]["io.tidings/acknowledged"]["requestId"])
    assert [(value, type(value)) for value in said] == [(request_id, type(request_id))] * 2


@pytest.mark.parametrize("era", ERAS)
def test_the_acknowledgement_is_in_a_json_only_response_too(
    era: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server, json_response=True).port, era)
    answer = client.call("steps", {"count": 2}, notificationConfig=SEP_EXAMPLE)
    assert not answer.is_stream
    [message] = answer.messages()
    assert message["result"]["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"] == ["primary"]


def test_an_acknowledgement_missed_is_replayed(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, LEGACY)
    answer = client.call("steps", {"count": 1, "hold_at": 0}, progress=True, notificationConfig=SEP_EXAMPLE)
    primed = answer.priming()
    answer.cut()
    stage.gate.open()
    assert primed.id is not None
    first, *_, last = [event.message for event in client.get(primed.id).rest()]
    assert first["method"] == "notifications/config/acknowledged"
    assert last["result"]["_meta"]["io.tidings/acknowledged"] == first["params"]


@pytest.mark.parametrize("era", ERAS)
def test_unknown_triggers_are_accepted_and_named(
    era: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    config = {"routes": [route(triggers=["completed", "finished"])]}
    answer = client.call("steps", notificationConfig=config).messages()
    assert answer[-1]["result"]["_meta"]["io.tidings/acknowledged"]["ignoredTriggers"] == ["finished"]


BAD: dict[str, tuple[Any, str]] = {
    "an unsupported type": ({"routes": [route(type="pager")]}, "type"),
    "one of two types unsupported": ({"routes": [route(), route(id="b", type="signal", endpoint=...)]}, "type"),
    "no triggers": ({"routes": [route(triggers=[])]}, "triggers"),
    "triggers missing": ({"routes": [route(triggers=...)]}, "triggers"),
    "no routes": ({"routes": []}, "routes"),
    "routes missing": ({}, "routes"),
    "duplicate ids": ({"routes": [route(), route()]}, "id"),
    "a malformed secret": ({"routes": [route(secret="whsec_!!")]}, "secret"),
    "a secret without its prefix": ({"routes": [route(secret="aGVsbG8=")]}, "secret"),
    "a metadata address": ({"routes": [route(endpoint="https://169.254.169.254/latest")]}, "endpoint"),
    "a mapped loopback address": ({"routes": [route(endpoint="https://[::ffff:127.0.0.1]/")]}, "endpoint"),
    "a loopback address as a number": ({"routes": [route(endpoint="https://2130706433/")]}, "endpoint"),
    "a user in the address": ({"routes": [route(endpoint="https://user@example.com/")]}, "endpoint"),
    "plain http": ({"routes": [route(endpoint="http://example.com/")]}, "endpoint"),
    "no endpoint": ({"routes": [route(endpoint=...)]}, "endpoint"),
    "10,000 routes": ({"routes": [route(id=f"r{n}") for n in range(10_000)]}, ""),
    "null": (None, ""),
    "a list": ([], ""),
    "a text": ("webhook", ""),
    "routes that are an object": ({"routes": {"0": route()}}, "routes"),
    "a route that is a text": ({"routes": ["https://example.com/"]}, "routes"),
    "an id that is a number": ({"routes": [route(id=1)]}, "id"),
    "triggers that are a text": ({"routes": [route(triggers="completed")]}, "triggers"),
    "an endpoint that is a number": ({"routes": [route(endpoint=1)]}, "endpoint"),
}


@pytest.fixture(params=ERAS)
def refusing(request: pytest.FixtureRequest, stage: Stage, strict_hub: Hub, serve: Callable[..., Served]) -> Client:
    server = server_of(KINDS[0 if request.param == LEGACY else -1], stage)
    tidings.mcp.attach(server, strict_hub, routes=["webhook"])
    return Client(serve(server).port, request.param)


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_config_is_refused_whole_and_nothing_runs(name: str, refusing: Client, stage: Stage) -> None:
    config, field = BAD[name]
    answers = refusing.call("steps", {"count": 2}, progress=True, notificationConfig=config).messages()
    [answer] = answers  # one answer: no acknowledgement, no progress
    error = answer["error"]
    assert error["code"] == -32602
    faults = error["data"]["faults"]
    assert 1 <= len(faults) <= 20
    assert error["data"]["total"] >= len(faults)
    assert any(field in fault["path"] + fault["message"] for fault in faults), faults
    for fault in faults:
        assert fault["rule"]
        assert fault["message"]
    assert stage.params == []


@pytest.mark.parametrize("era", ERAS)
def test_every_fault_is_named(era: str, stage: Stage, strict_hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, strict_hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    config = {"routes": [route(type="pager", triggers=[]), route(id="b", endpoint="https://10.0.0.1/")]}
    [answer] = client.call("steps", notificationConfig=config).messages()
    paths = [fault["path"] for fault in answer["error"]["data"]["faults"]]
    assert answer["error"]["data"]["total"] == len(paths) == 3
    for index, field in ((0, "type"), (0, "triggers"), (1, "endpoint")):
        assert any(str(index) in path and field in path for path in paths), paths
    assert stage.params == []


@pytest.mark.parametrize("era", ERAS)
def test_a_call_without_a_config_is_left_alone(
    era: str, server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, era)
    answer = client.call("steps", {"count": 1}, progress=True).messages()
    assert [message.get("method") for message in answer] == ["notifications/progress", None]
    assert not any(key.startswith("io.tidings/") for key in answer[-1]["result"].get("_meta", {}))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "params", [{"name": 5}, {}, {"name": "steps", "arguments": 3}], ids=["a number", "no name", "no object"]
)
def test_what_is_no_tool_call_gets_no_config_accepted(
    params: dict[str, Any], era: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    seen = Spy(hub)
    tidings.mcp.attach(server, seen, routes=["webhook"])  # type: ignore[arg-type]
    client = Client(serve(server).port, era)
    [answer] = client.request("tools/call", {**params, "notificationConfig": SEP_EXAMPLE}).messages()
    assert "error" in answer
    assert seen.begun == []


class Spy:
    """A hub that remembers how calls were begun, and can be told to be unavailable."""

    def __init__(self, hub: Hub, *, down: bool = False) -> None:
        self._hub = hub
        self._down = down
        self.begun: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hub, name)

    async def begin_call(self, **how: Any) -> Any:
        self.begun.append(how)
        if self._down:
            raise UnavailableError("the store is down")
        return await self._hub.begin_call(**how)


@pytest.mark.parametrize("era", ERAS)
def test_a_config_that_cannot_be_stored_is_not_accepted(
    era: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    attached = tidings.mcp.attach(server, Spy(hub, down=True), routes=["webhook"])  # type: ignore[arg-type]
    client = Client(serve(server).port, era)
    [answer] = client.call("steps", notificationConfig=SEP_EXAMPLE).messages()
    assert answer["error"]["code"] == -32603
    assert answer["error"]["data"] == {"reason": "unavailable", "retryable": True}
    assert stage.params == []
    assert attached.failures == 1
    # Calls that ask for nothing go on.
    assert client.call("steps", id=2).messages()[-1]["result"]["content"][0]["text"] == "done"


def test_who_asks(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    seen = Spy(hub)
    tidings.mcp.attach(server, seen, routes=["webhook"], timeout={"steps": 30.0})  # type: ignore[arg-type]
    port = serve(server).port
    legacy = Client(port, LEGACY)
    others = [Client(port, MODERN)] * 2 if MODERN in ERAS else []
    for client in (legacy, legacy, *others):
        client.call("steps", id=9, notificationConfig=SEP_EXAMPLE).messages()
    first, second, *rest = seen.begun
    assert first["principal"] == second["principal"] == f"session:{legacy.session}"
    assert first["session"] == legacy.session
    # Without a login and without a session nothing is shared beyond the one request.
    assert [how["session"] for how in rest] == [None] * len(others)
    assert len({first["principal"], *(how["principal"] for how in rest)}) == 1 + len(others)
    assert {how["tool"] for how in seen.begun} == {"steps"}
    assert {tuple(how["route_types"]) for how in seen.begun} == {("webhook",)}
    assert {how["timeout"] for how in seen.begun} == {30.0}


def test_who_asks_with_a_login(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    def who(token: str) -> tuple[str, str, str]:
        issuer, subject, client = token.split(",")
        return issuer, subject, client

    server = guarded_server(stage, who)
    seen = Spy(hub)
    tidings.mcp.attach(server, seen, routes=["webhook"])  # type: ignore[arg-type]
    port = serve(server).port
    for era in ERAS:
        for token in ("https://a,me,app", "https://a,me,app", "https://b,me,app", "https://a,me,other"):
            client = Client(port, era, headers={"authorization": f"Bearer {token}"})
            client.call("steps", notificationConfig=SEP_EXAMPLE).messages()
    principals = [how["principal"] for how in seen.begun]
    assert principals[0] == principals[1] == 'auth:["https://a","me","app"]'
    assert len(set(principals)) == 3
    assert principals[:4] * len(ERAS) == principals


def test_the_accepted_secret_signs(receiver: Receiver, stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, LEGACY)
    client.call("steps", notificationConfig=receiver.config("completed")).messages()
    assert receiver.next()["name"] == "tool_call.completed"

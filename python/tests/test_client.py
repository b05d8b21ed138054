"""What a client makes and reads."""

import json

import pytest
import tidings
from tidings import client

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_config_of_every_type() -> None:
    made = client.config(
        client.webhook("https://me.example/hook", secret=SECRET, triggers=["completed", "failed"], deadline=60),
        client.message(triggers=["completed"]),
        client.callback("audit", triggers=["failed"]),
        client.signal("SIGUSR2", triggers=["completed"]),
        timeout=1.5,
    )
    assert made == {
        "routes": [
            {
                "id": "webhook",
                "type": "webhook",
                "triggers": ["completed", "failed"],
                "endpoint": "https://me.example/hook",
                "secret": SECRET,
                "deadlineMs": 60_000,
            },
            {"id": "message", "type": "message", "triggers": ["completed"]},
            {"id": "callback", "type": "callback", "triggers": ["failed"], "endpoint": "audit"},
            {"id": "signal", "type": "signal", "triggers": ["completed"], "signal": "SIGUSR2"},
        ],
        "timeoutMs": 1_500,
    }
    assert client.check(made) == []


def test_the_rules_are_the_servers() -> None:
    good = client.webhook("https://me.example/hook", triggers=["completed"])
    for routes, rule in (
        ([], "empty"),
        ([good, good], "duplicate_id"),
        ([{**good, "secret": "hunter2"}], None),
        ([{**good, "headers": {"Host": "x"}}], None),
        ([client.signal("SIGKILL", triggers=["completed"])], "pattern"),
        ([{**good, "endpoint": "ftp://me.example"}], None),
    ):
        with pytest.raises(tidings.ConfigError) as refused:
            client.config(*routes)
        assert rule is None or refused.value.faults[0].rule == rule
        assert "hunter2" not in str(refused.value)
    with pytest.raises(tidings.ConfigError) as refused:
        client.config(good, supported=["message"])
    assert refused.value.faults[0].rule == "unsupported_type"
    with pytest.raises(TypeError, match="triggers"):
        client.message(triggers="completed")
    with pytest.raises(tidings.InvalidArgument, match="timeout"):
        client.config(good, timeout=0)
    assert client.check(client.config({**good, "triggers": ["later"]})) == ["later"]


def test_what_a_server_says() -> None:
    told = {"extensions": {client.EXTENSION: {"supportedRouteTypes": ["webhook"]}}, client.CONFIG: {}}
    assert client.supported(told) == ["webhook"]
    assert client.supported({client.CONFIG: {"supportedRouteTypes": ["webhook", 1, "message"]}}) == [
        "webhook",
        "message",
    ]
    assert client.supported({}) == client.supported({"extensions": []}) == []
    assert client.capability()[client.CONFIG] == {}

    params = {"requestId": 7, "acceptedRoutes": ["a"], "callId": "call_1", "ignoredTriggers": ["later"]}
    want = client.Acknowledgement("call_1", 7, ["a"], ["later"])
    assert client.acknowledgement(params) == client.acknowledgement({"io.tidings/acknowledged": params}) == want
    assert client.acknowledgement({}) is client.acknowledgement(None) is None

    meta = {"io.tidings/undelivered": [{"trigger": "completed", "routes": ["a"], "reason": "no_deliverable_route"}]}
    assert client.undelivered(meta) == [client.Undelivered("completed", ["a"], "no_deliverable_route")]
    assert client.undelivered(None) == client.undelivered({}) == []
    assert client.gap({"reason": "evicted", "earliestSeq": 5, "headSeq": 9}) == client.StreamGap("evicted", 5, 9)
    assert client.gap({"reason": "unknown"}) == client.StreamGap("unknown", None, None)
    assert client.gap({}) is client.gap(None) is None


@pytest.mark.anyio
async def test_the_core_says_what_the_client_reads(hub: tidings.Hub) -> None:
    config = client.config(client.message(triggers=["completed", "later"]))
    call = await hub.begin_call(
        config=json.dumps(config), route_types=["message"], principal="p", peer="x", request_id="q", tool="t"
    )
    told = client.acknowledgement(json.loads(call.acknowledgement()))
    assert told == client.Acknowledgement(call.id, "q", ["message"], ["later"])
    await call.complete(b"{}")

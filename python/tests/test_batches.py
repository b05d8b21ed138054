"""Firings that go out together."""

import json

import pytest
import tidings
from support import Post, Receiver
from tidings.webhook import Incoming

pytestmark = pytest.mark.anyio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TRACES = [f"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333{n}-01" for n in range(2)]


def config(receiver: Receiver, batch: object) -> str:
    route = {"id": "r", "type": "webhook", "endpoint": receiver.url, "triggers": ["completed"], "secret": SECRET}
    return json.dumps({"routes": [{**route, "batch": batch}]})


async def two(hub: tidings.Hub, receiver: Receiver, traces: list[str]) -> Post:
    text = config(receiver, {"maxEvents": 2, "maxDelayMs": 60_000})
    for n, trace in enumerate(traces):
        call = await hub.begin_call(config=text, principal="p", request_id=n, tool="t", traceparent=trace)
        await call.complete(f'{{"n":{n}.0}}')
    return receiver.next()


async def test_a_full_batch_is_one_request(hub: tidings.Hub, receiver: Receiver) -> None:
    post = await two(hub, receiver, [TRACES[0], TRACES[0]])
    tidings.Webhook(SECRET).verify(post.body, post.headers)
    assert post.headers["webhook-id"].startswith("bat_")
    bodies = [hub.delivery_body(delivery.id) for delivery in hub.deliveries()]
    assert all(bodies)
    assert post.body == b'{"events":[' + b",".join(body for body in bodies if body) + b"]}"
    events = Incoming(post.headers["webhook-id"], post.body).events()
    assert [event["data"]["outcome"]["result"] for event in events] == [{"n": 0.0}, {"n": 1.0}]
    assert [event["eventId"] for event in events] == [delivery.event_id for delivery in hub.deliveries()]
    assert post.headers["traceparent"] == TRACES[0], "that of all its calls"


async def test_a_batch_of_several_traces_has_none(hub: tidings.Hub, receiver: Receiver) -> None:
    post = await two(hub, receiver, TRACES)
    assert len(post.json["events"]) == 2  # type: ignore[arg-type]
    assert "traceparent" not in post.headers


@pytest.mark.parametrize(
    ("batch", "rule", "path"),
    [
        ({"maxEvents": 1, "maxDelayMs": 100}, "too_small", "/maxEvents"),
        ({"maxEvents": 2, "maxDelayMs": 60_001}, "too_big", "/maxDelayMs"),
        ({"maxEvents": 2}, "missing", ""),
    ],
)
async def test_a_bad_batch_is_refused(
    hub: tidings.Hub, receiver: Receiver, batch: object, rule: str, path: str
) -> None:
    with pytest.raises(tidings.ConfigError) as refused:
        await hub.begin_call(config=config(receiver, batch), principal="p", request_id=1, tool="t")
    (fault,) = refused.value.faults
    assert (fault.path, fault.rule) == (f"/routes/0/batch{path}", rule)

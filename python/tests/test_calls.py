"""Watched calls: accepted, ended once, told."""

import json

import anyio
import pytest
import standardwebhooks
import tidings
from support import AWKWARD, Receiver

pytestmark = pytest.mark.anyio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("trio", {}), id="trio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


def config(receiver: Receiver, *triggers: str) -> bytes:
    route = {"id": "r1", "type": "webhook", "endpoint": receiver.url, "secret": SECRET, "triggers": triggers}
    return json.dumps({"routes": [route]}).encode()


async def begin(
    hub: tidings.Hub, raw: bytes | str, request_id: int | str = 7, limit: float | None = None
) -> tidings.Call:
    return await hub.begin_call(config=raw, principal="p", session="s", request_id=request_id, tool="t", timeout=limit)


async def delivered(hub: tidings.Hub, call: tidings.Call) -> tidings.Delivery:
    """The call's one delivery, once its receiver's answer is recorded."""
    with anyio.fail_after(60):
        while not (found := hub.deliveries(call.id, "delivered")):  # noqa: ASYNC110 - a delivery tells nobody
            await anyio.sleep(0.01)
    (delivery,) = found
    return delivery


async def test_an_outcome_arrives_signed(hub: tidings.Hub, receiver: Receiver) -> None:
    call = await begin(hub, config(receiver, "completed", "paused", "com.example/other"))
    assert call.accepted_routes == ["r1"]
    assert call.ignored_triggers == ["paused"]
    assert json.loads(call.acknowledgement()) == {
        "requestId": 7,
        "acceptedRoutes": ["r1"],
        "callId": call.id,
        "ignoredTriggers": ["paused"],
    }
    result = b'{"content":[], "n": 1.0, "big":9007199254740993}'
    ended = await call.complete(result)
    assert (ended.outcome, ended.reason, ended.ours, ended.committed) == ("completed", None, True, True)
    assert ended.undelivered is None

    post = await anyio.to_thread.run_sync(receiver.next)
    # An independent judge, and ours.
    standardwebhooks.Webhook(SECRET).verify(post.body, post.headers)
    tidings.Webhook(SECRET).verify(post.body, post.headers)
    assert result in post.body
    data = post.json["data"]
    assert isinstance(data, dict)
    assert (data["callId"], data["requestId"], data["trigger"]) == (call.id, 7, "completed")

    delivery = await delivered(hub, call)
    assert (delivery.call_id, delivery.route, delivery.trigger) == (call.id, "r1", "completed")
    assert (delivery.principal, delivery.attempts, delivery.last_error) == ("p", 1, None)
    assert delivery.event_id == {name.lower(): value for name, value in post.headers.items()}["webhook-id"]
    assert hub.deliveries(state="dead") == []


async def test_the_first_ending_wins(hub: tidings.Hub, receiver: Receiver) -> None:
    call = await begin(hub, config(receiver, "failed"))
    seen: list[tidings.Ended] = []

    async def watch() -> None:
        seen.append(await call.ended())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        first = await call.fail(error=b'{"code":-32000,"message":"no"}')
    second = await call.complete(b"{}")
    third = await call.cancel()
    assert (first.outcome, first.ours) == ("failed", True)
    assert [(ended.outcome, ended.ours) for ended in (second, third)] == [("failed", False)] * 2
    assert seen[0].outcome == "failed"
    with pytest.raises((tidings.ClosedError, tidings.EndedError)):
        call.emit("x", b"{}")


@pytest.mark.parametrize("reason", ["shutdown", "disconnected"])
async def test_reasons_are_kept(hub: tidings.Hub, receiver: Receiver, reason: str) -> None:
    call = await begin(hub, config(receiver, "cancelled"))
    assert (await call.cancel(reason)).reason == reason
    with pytest.raises(tidings.InvalidArgument, match="reason: must be one of server_lost, shutdown"):
        await call.fail(reason="because")


async def test_is_error_is_failed(hub: tidings.Hub, receiver: Receiver) -> None:
    call = await begin(hub, config(receiver, "completed"))
    assert (await call.complete(b'{"isError":true}')).outcome == "failed"


async def test_the_servers_limit_ends_the_call(hub: tidings.Hub, receiver: Receiver) -> None:
    call = await begin(hub, config(receiver, "timeout"), limit=0.05)
    with anyio.fail_after(60):
        assert (await call.ended()).outcome == "timeout"
    post = await anyio.to_thread.run_sync(receiver.next)
    assert post.json["name"] == "tool_call.timeout"


async def test_events_of_the_call_are_a_stream(hub: tidings.Hub, receiver: Receiver) -> None:
    call = await begin(hub, config(receiver, "completed"))
    assert [call.emit("io.tidings.progress", payload) for payload in AWKWARD] == list(range(len(AWKWARD)))
    await call.complete(b'{"content":[]}')
    page = await hub.stream(f"call:{call.id}", "events").read()
    assert [event.payload for event in page.events][: len(AWKWARD)] == AWKWARD
    assert page.events[-1].type == "io.tidings.outcome"
    assert page.ended


@pytest.mark.parametrize("request_id", [0, "", "7", -(2**63), 2**64 - 1])
async def test_request_ids_keep_their_type(hub: tidings.Hub, receiver: Receiver, request_id: int | str) -> None:
    call = await begin(hub, config(receiver, "completed"), request_id)
    assert json.loads(call.acknowledgement())["requestId"] == request_id
    await call.complete(b"{}")


async def test_a_bad_config_names_every_fault(hub: tidings.Hub) -> None:
    raw = {
        "routes": [
            {"id": "a", "type": "pigeon", "endpoint": "https://example.com", "triggers": ["completed"]},
            {"id": "a", "type": "webhook", "endpoint": "https://169.254.169.254", "triggers": []},
        ]
    }
    with pytest.raises(tidings.ConfigError) as caught:
        await begin(hub, json.dumps(raw))
    error = caught.value
    assert (error.code, error.retryable) == ("invalid_config", False)
    assert {fault.path for fault in error.faults} >= {"/routes/0/type", "/routes/1/id", "/routes/1/endpoint"}
    assert error.total == len(error.faults)
    assert json.loads(error.data_json)["total"] == error.total
    assert all(fault.rule and fault.message for fault in error.faults)


async def test_a_beginning_that_is_cancelled_leaves_no_call(hub: tidings.Hub, receiver: Receiver) -> None:
    begun: list[tidings.Call] = []

    async def ask() -> None:
        begun.append(await begin(hub, config(receiver, "cancelled")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    for call in begun:  # the store was quicker than the cancel
        await call.cancel()
    post = await anyio.to_thread.run_sync(receiver.next)
    assert post.json["name"] == "tool_call.cancelled"


async def test_an_ending_goes_on_when_its_wait_is_cancelled(hub: tidings.Hub, receiver: Receiver) -> None:
    call = await begin(hub, config(receiver, "completed"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call.complete, b'{"content":[]}')
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(60):
        assert (await call.ended()).outcome == "completed"
    assert (await anyio.to_thread.run_sync(receiver.next)).json["name"] == "tool_call.completed"


async def test_closing_the_hub_ends_its_calls(url: str, receiver: Receiver) -> None:
    async with tidings.Hub(url, allow_networks=["127.0.0.0/8"], allow_http=True) as hub:
        call = await begin(hub, config(receiver, "failed"))
    with pytest.raises(tidings.ClosedError):
        await call.complete(b"{}")
    # The next process on the same file delivers what this one could not.
    async with tidings.Hub(url, allow_networks=["127.0.0.0/8"], allow_http=True) as hub:
        hub.open()
        post = await anyio.to_thread.run_sync(receiver.next)
        data = post.json["data"]
        assert isinstance(data, dict)
        assert data["outcome"]["reason"] == "shutdown"


async def test_disconnected_is_a_trigger(hub: tidings.Hub, receiver: Receiver) -> None:
    call = await begin(hub, config(receiver, "io.tidings/disconnected"))
    call.disconnected()
    post = await anyio.to_thread.run_sync(receiver.next)
    data = post.json["data"]
    assert isinstance(data, dict)
    assert data["trigger"] == "io.tidings/disconnected"
    assert (await call.cancel("disconnected")).ours

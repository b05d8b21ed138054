"""Routes that end in this program: callbacks, sinks, types of its own."""

import json
import logging
import sys
import textwrap
import threading

import anyio
import anyio.lowlevel
import pytest
import tidings
from support import Receiver

pytestmark = pytest.mark.anyio


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("trio", {}), id="trio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


def host_route(route_type: str, endpoint: str | None = None, id: str = "r") -> dict[str, object]:
    route: dict[str, object] = {"id": id, "type": route_type, "triggers": ["completed"]}
    return route if endpoint is None else {**route, "endpoint": endpoint}


async def begin(
    hub: tidings.Hub, *routes: dict[str, object], open: tuple[str, ...] = ("audit", "dash")
) -> tidings.Call:
    return await hub.begin_call(
        config=json.dumps({"routes": routes}),
        route_types=["webhook", "message", "callback", "pager"],
        principal="p",
        open=open,
        request_id=7,
        tool="t",
    )


async def fire(hub: tidings.Hub, *routes: dict[str, object]) -> tidings.Call:
    call = await begin(hub, *routes)
    assert (await call.complete(b'{"content":[], "n": 1.0}')).committed
    return call


async def settled(hub: tidings.Hub, *states: str) -> list[tidings.Delivery]:
    with anyio.fail_after(60):
        while True:
            found = hub.deliveries()
            if [delivery.state for delivery in found] == list(states):
                return found
            await anyio.sleep(0.01)


async def test_handlers_get_what_is_theirs(hub: tidings.Hub) -> None:
    got: dict[str, tidings.HostDelivery] = {}
    loops: dict[str, int] = {}

    async def audit(delivery: tidings.HostDelivery) -> None:
        await anyio.lowlevel.checkpoint()
        got["callback"], loops["callback"] = delivery, threading.get_ident()

    def pager(delivery: tidings.HostDelivery) -> None:
        got["pager"], loops["pager"] = delivery, threading.get_ident()

    async def sink(delivery: tidings.HostDelivery) -> bool:
        got["message"] = delivery
        return True

    hub.register_callback("audit", audit)
    hub.register_route_type("pager", pager)
    hub.register_sink("dash", sink)
    assert hub.route_types == ["callback", "pager", "message"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.serve_routes)
        await anyio.wait_all_tasks_blocked()
        call = await fire(hub, host_route("callback", "audit"))
        await fire(hub, host_route("pager", "who"))
        await fire(hub, host_route("message", "dash"))
        await settled(hub, "delivered", "delivered", "delivered")
        tasks.cancel_scope.cancel()
    first = got["callback"]
    assert (first.call_id, first.principal, first.trigger, first.route, first.endpoint) == (
        call.id, "p", "completed", "r", "audit",
    )  # fmt: skip
    assert b'"result":{"content":[], "n": 1.0}' in first.body
    assert (got["pager"].endpoint, got["pager"].attempt) == ("who", 1)
    frame = json.loads(got["message"].frame())
    assert frame["method"] == "notifications/io.tidings/triggered"
    assert frame["params"] == json.loads(got["message"].body)
    assert loops["callback"] == threading.get_ident() != loops["pager"]


async def test_a_handler_refuses_and_the_next_route_has_its_turn(hub: tidings.Hub, receiver: Receiver) -> None:
    webhook = {"id": "w", "type": "webhook", "endpoint": receiver.url, "triggers": ["completed"]}
    hub.register_callback("audit", lambda delivery: False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.serve_routes)
        await anyio.wait_all_tasks_blocked()
        await fire(hub, host_route("callback", "audit"), webhook)
        refused, delivered = await settled(hub, "superseded", "delivered")
        tasks.cancel_scope.cancel()
    assert refused.last_error == "refused"
    assert refused.event_id == delivered.event_id == receiver.posts.get(timeout=60).json["eventId"]


async def test_a_handler_that_raises_fails_its_delivery_and_nothing_else(
    hub: tidings.Hub, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[int] = []

    async def audit(delivery: tidings.HostDelivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            raise ValueError("not today")

    hub.register_callback("audit", audit)
    with caplog.at_level(logging.WARNING, "tidings.routes"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.serve_routes)
            await anyio.wait_all_tasks_blocked()
            await fire(hub, host_route("callback", "audit"))
            await settled(hub, "delivered")
            tasks.cancel_scope.cancel()
    assert attempts == [1, 2]
    assert "a handler failed" in caplog.text
    assert "not today" in caplog.text


async def test_a_handler_that_takes_too_long_is_cancelled(hub: tidings.Hub) -> None:
    ended: list[str] = []

    async def audit(delivery: tidings.HostDelivery) -> None:
        if delivery.attempt == 1:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append("cancelled")
            ended.append("went on")

    hub.register_callback("audit", audit, timeout=0.5)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.serve_routes)
        await anyio.wait_all_tasks_blocked()
        call = await fire(hub, host_route("callback", "audit"))
        # The next attempt may come at once, and on a busy machine may itself be too late: what is waited for is the end.
        [delivery] = await settled(hub, "delivered")
        tasks.cancel_scope.cancel()
    assert delivery.call_id == call.id
    assert hub.attempts(delivery.id)[0] in ("timeout", "handler_failed")
    assert ended == ["cancelled"]


async def test_nobody_serves(hub: tidings.Hub, receiver: Receiver) -> None:
    hub.register_callback("audit", lambda delivery: None)
    webhook = {"id": "w", "type": "webhook", "endpoint": receiver.url, "triggers": ["completed"]}
    await fire(hub, host_route("callback", "audit"), webhook)
    assert receiver.posts.get(timeout=60).json["data"]["route"] == "w"  # type: ignore[index]


async def test_a_sink_that_comes_and_goes(hub: tidings.Hub) -> None:
    got: list[bytes] = []

    async def send(delivery: tidings.HostDelivery) -> None:
        got.append(delivery.frame())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.serve_sink, "dash", send)
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            await fire(hub, host_route("message", "dash"))
        await settled(hub, "delivered", "delivered", "delivered")
        tasks.cancel_scope.cancel()
    assert len(got) == 3
    call = await fire(hub, host_route("message", "dash"))
    assert hub.deliveries(call.id) == [], "nobody is there: it counts as not deliverable"


async def test_names_that_are_not_open(hub: tidings.Hub) -> None:
    hub.register_callback("audit", lambda delivery: None)
    told = set()
    for name in ("audit", "nothing"):
        with pytest.raises(tidings.ConfigError) as refused:
            await begin(hub, host_route("callback", name), open=())
        told.add((refused.value.faults[0].rule, refused.value.faults[0].message))
    assert len(told) == 1


def test_without_an_event_loop(hub: tidings.Hub) -> None:
    got: list[str] = []
    hub.register_route_type("pager", lambda delivery: got.append(delivery.route_type))
    hub.register_callback("audit", lambda delivery: got.append(delivery.route_type))
    server = threading.Thread(target=lambda: hub.run(hub.serve_routes()))
    server.start()
    types = ["pager", "callback"]

    async def wait_and_fire(route: dict[str, object]) -> None:
        # Until the server's thread has come so far, nobody offers it.
        while not (call := await fire(hub, route)) or not hub.deliveries(call.id):
            pass

    hub.run(wait_and_fire(host_route("pager")))
    hub.run(wait_and_fire(host_route("callback", "audit")))
    while hub.deliveries(state="pending") or hub.deliveries(state="leased"):
        pass
    assert sorted(got) == sorted(types)
    assert hub.run(hub.close(60.0))
    server.join(60)
    assert not server.is_alive()


@pytest.mark.parametrize("name", ["", "webhook", "message", "callback", "signal", "Pager", "a:b", "@p", "x" * 65])
def test_route_types_that_cannot_be(hub: tidings.Hub, name: str) -> None:
    with pytest.raises(tidings.InvalidArgument, match=r"route_type|name"):
        hub.register_route_type(name, lambda delivery: None)


def test_what_a_registration_needs(hub: tidings.Hub) -> None:
    def handler(delivery: tidings.HostDelivery) -> None:
        pass

    hub.register_callback("audit", handler)
    with pytest.raises(tidings.InvalidArgument, match="registered already"):
        hub.register_callback("audit", handler)
    for wrong in ({"limit": 0}, {"limit": True}, {"timeout": 0.0}, {"timeout": float("inf")}):
        with pytest.raises(tidings.InvalidArgument, match=r"limit|timeout"):
            hub.register_callback("other", handler, **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="handler"):
        hub.register_callback("other", None)  # type: ignore[arg-type]
    with pytest.raises(tidings.InvalidArgument, match="empty"):
        hub.register_callback("", handler)


KILLED = """
    import asyncio, json, os, sys, tidings

    async def main():
        hub = tidings.Hub(sys.argv[1], worker_lease=1.0)

        def die(delivery):
            print(delivery.event_id, flush=True)
            os.kill(os.getpid(), 9)

        hub.register_callback("audit", die)
        serving = asyncio.ensure_future(hub.serve_routes())
        while not hub.serves("callback", "audit"):
            await asyncio.sleep(0.01)
        route = {"id": "r", "type": "callback", "endpoint": "audit", "triggers": ["completed"]}
        call = await hub.begin_call(
            config=json.dumps({"routes": [route]}), route_types=["callback"], open=["audit"], principal="p", request_id=1, tool="t"
        )
        await call.complete(b"{}")
        await serving

    asyncio.run(main())
"""


async def test_a_process_that_is_killed_while_it_handles_leaves_it_to_the_next(url: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), url]
    died = await anyio.run_process(command, check=False, stderr=None)
    assert died.returncode == -9
    got: list[tidings.HostDelivery] = []
    async with tidings.Hub(url) as hub:
        hub.register_callback("audit", got.append)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.serve_routes)
            [delivery] = await settled(hub, "delivered")
            tasks.cancel_scope.cancel()
    assert (delivery.attempts, [again.event_id for again in got]) == (2, [died.stdout.decode().strip()])

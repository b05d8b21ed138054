"""The example with the WebSocket, as a user would run it, and sockets that do not read."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_wire import LEGACY, WAIT, Client
from tidings import HostDelivery, Hub

websockets = pytest.importorskip("websockets")
from websockets.asyncio.client import connect as connect_async
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "dashboard.py"


@pytest.fixture
def port() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, str(EXAMPLE)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(WAIT)
        process.stdout.close()


def mcp_client(port: int, user: str) -> Client:
    return Client(port, LEGACY, headers={"authorization": f"Bearer token-of-{user}"})


def call(client: Client, quarter: str, endpoint: str = "dashboard") -> Any:
    route = {"id": "d", "type": "message", "endpoint": endpoint, "triggers": ["completed"]}
    answer = client.call("report", {"quarter": quarter}, notificationConfig={"routes": [route]}).messages()[-1]
    assert answer["result"]["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"] == ["d"]
    return answer


def test_each_user_sees_what_is_theirs(port: int) -> None:
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{port}/dashboard?token=nobody").close()
    ann, bob = mcp_client(port, "ann"), mcp_client(port, "bob")
    with (
        connect(f"ws://127.0.0.1:{port}/dashboard?token=token-of-ann") as to_ann,
        connect(f"ws://127.0.0.1:{port}/dashboard?token=token-of-bob") as to_bob,
    ):
        call(ann, "Q1")
        # Bob names Ann's dashboard, and tells his own.
        call(bob, "Q2", "dashboard/ann")
        call(ann, "Q3")
        got = [json.loads(to_ann.recv(timeout=WAIT)) for _ in range(2)]
        said = [frame["params"]["data"]["outcome"]["result"]["content"][0]["text"] for frame in got]
        assert said == ["The report of Q1 is ready.", "The report of Q3 is ready."]
        assert {frame["method"] for frame in got} == {"notifications/io.tidings/triggered"}
        his = json.loads(to_bob.recv(timeout=WAIT))
        assert "Q2" in his["params"]["data"]["outcome"]["result"]["content"][0]["text"]
    # Nobody watches: the call is as good as ever.
    call(ann, "Q4")


async def all_of(peer: Any) -> Any:
    """What is left in a connection, up to its end, however it ends."""
    try:
        while True:
            yield await asyncio.wait_for(peer.recv(), 60)
    except ConnectionClosed:
        return


# Field case B30: a peer that does not read grows no queue without bound and holds up nobody, and nothing is lost silently.
@pytest.mark.anyio
async def test_b30_a_socket_that_does_not_read(anyio_backend: object) -> None:
    limit, each, size = 4, 60, 256 * 1024
    outstanding: dict[str, int] = {"a": 0, "b": 0}
    most: dict[str, int] = {"a": 0, "b": 0}
    hub = Hub("memory:", max_body_bytes=2 * size)
    closed = asyncio.Event()

    async def push(peer: ServerConnection) -> None:
        assert peer.request is not None
        name = peer.request.path.removeprefix("/")

        async def send(delivery: HostDelivery) -> None:
            outstanding[name] += 1
            most[name] = max(most[name], outstanding[name])
            try:
                # Whoever reads is waited for, however much else the machine has to do.
                await asyncio.wait_for(peer.send(delivery.frame()), 3 if name == "b" else WAIT)
            except asyncio.TimeoutError:
                slow.set()
                raise
            finally:
                outstanding[name] -= 1

        slow = asyncio.Event()
        serving = asyncio.ensure_future(hub.serve_sink(name, send, limit=limit, timeout=60.0))
        too_slow = asyncio.ensure_future(slow.wait())
        gone = asyncio.ensure_future(peer.wait_closed())
        try:
            await asyncio.wait({serving, too_slow, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, too_slow, gone):
                task.cancel()
            await asyncio.gather(serving, too_slow, gone, return_exceptions=True)
        if slow.is_set():
            closed.set()
            peer.transport.abort()  # a closing frame would stand behind what it does not read

    async def fire(name: str, number: int) -> None:
        route = {"id": name, "type": "message", "endpoint": name, "triggers": ["completed"]}
        call = await hub.begin_call(
            config=json.dumps({"routes": [route]}), route_types=["message"], open=["a", "b"], principal=name,
            request_id=number, tool="t",
        )  # fmt: skip
        await call.complete(json.dumps({"x": "x" * size}))

    async with serve(push, "127.0.0.1", 0, compression=None, ping_interval=None, close_timeout=0.1) as server:
        port = server.sockets[0].getsockname()[1]
        address = f"ws://127.0.0.1:{port}"
        async with connect_async(address + "/a", max_size=None, ping_interval=None) as a:
            # Reads no further than its one buffer: the rest stays in the sockets, which have an end.
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
            narrow.connect(("127.0.0.1", port))
            b = await connect_async(address + "/b", sock=narrow, max_size=None, max_queue=1, ping_interval=None)

            async def publish() -> None:
                for number in range(each):
                    await fire("a", number)
                    await fire("b", number)

            publishing = asyncio.ensure_future(publish())
            got = [json.loads(await asyncio.wait_for(a.recv(), 60))["params"]["data"]["requestId"] for _ in range(each)]
            assert got == list(range(each)), "every one, in order, whatever the other does"
            await publishing
            await asyncio.wait_for(closed.wait(), 60)
            received = [json.loads(frame)["params"]["data"]["requestId"] async for frame in all_of(b)]
    assert most["a"] == most["b"] == 1, "one frame at a time: the rest waits in the store"
    states = [delivery.state for delivery in hub.deliveries(limit=1_000) if delivery.route == "b"]
    told = len(states)
    assert told <= each
    assert received == sorted(received)
    left = [state for state in states if state != "delivered"]
    assert left, "what it did not take is there to be seen"
    assert set(left) <= {"pending", "retrying", "leased", "dead"}
    await hub.close()

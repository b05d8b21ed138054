"""The receiver kit, fed by a hub of its own and by hand."""

import json
import subprocess
import sys
from typing import Any

import anyio
import httpx
import pytest
import tidings
from starlette.applications import Starlette
from starlette.routing import Route
from tidings.webhook import WELL_KNOWN, Incoming, Receiver, ReceiverDocument, Seen, StoredSeen

pytestmark = pytest.mark.anyio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODY = b'{"eventId":"evt_1","name":"tool_call.completed","data":{"n":1.0}}'


def signed(body: bytes = BODY, id: str = "evt_1", secret: str = SECRET) -> dict[str, str]:
    return tidings.Webhook(secret).sign(body, id=id)


class Inbox:
    def __init__(self) -> None:
        self.got: list[Incoming] = []

    async def __call__(self, incoming: Incoming) -> None:
        self.got.append(incoming)


async def test_each_is_handled_once() -> None:
    inbox = Inbox()
    receiver = Receiver(SECRET, OTHER, handler=inbox)
    for headers in (signed(), signed(), signed(secret=OTHER), {k.upper(): v for k, v in signed().items()}):
        assert (await receiver.receive(BODY, headers)).status == 204
    assert [incoming.body for incoming in inbox.got] == [BODY]
    assert (inbox.got[0].id, inbox.got[0].json()["data"]) == ("evt_1", {"n": 1.0})
    await receiver.receive(BODY, signed(id="evt_2"))
    assert [incoming.id for incoming in inbox.got] == ["evt_1", "evt_2"]


async def test_the_firings_of_a_batch_are_given_one_by_one() -> None:
    inbox = Inbox()
    receiver = Receiver(SECRET, handler=inbox)
    bodies = (
        b'{"events":[{"eventId":"a","n":1.0},{"eventId":"b"}]}',
        b'{"eventId":"c","events":[1]}',
        b"[1]",
        b'{"events":1}',
    )
    for n, body in enumerate(bodies):
        assert (await receiver.receive(body, signed(body, id=f"bat_{n}"))).status == 204
    assert [incoming.events() for incoming in inbox.got] == [
        [{"eventId": "a", "n": 1.0}, {"eventId": "b"}],
        [{"eventId": "c", "events": [1]}],
        [[1]],
        [{"events": 1}],
    ]


async def test_what_is_not_genuine_is_refused_and_told_nothing() -> None:
    inbox = Inbox()
    receiver = Receiver(SECRET, handler=inbox)
    for body, headers in (
        (BODY + b" ", signed()),
        (BODY, signed(secret=OTHER)),
        (BODY, {}),
        (BODY, tidings.Webhook(SECRET).sign(BODY, id="evt_1", timestamp=1_700_000_000)),
    ):
        answer = await receiver.receive(body, headers)
        assert (answer.status, answer.body) == (401, b"")
    assert inbox.got == []


async def test_a_handler_that_fails_gets_it_again() -> None:
    tries: list[str] = []

    def handler(incoming: Incoming) -> None:
        tries.append(incoming.id)
        if len(tries) == 1:
            raise ValueError("not yet")

    receiver = Receiver(SECRET, handler=handler)
    assert [(await receiver.receive(BODY, signed())).status for _ in range(3)] == [500, 204, 204]
    assert len(tries) == 2


async def test_a_second_attempt_while_the_first_is_at_work() -> None:
    reached, gate = anyio.Event(), anyio.Event()

    async def handler(incoming: Incoming) -> None:
        reached.set()
        await gate.wait()

    receiver = Receiver(SECRET, handler=handler)
    statuses: list[int] = []

    async def first() -> None:
        statuses.append((await receiver.receive(BODY, signed())).status)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await reached.wait()
        second = await receiver.receive(BODY, signed())
        assert (second.status, second.headers["retry-after"]) == (503, "1")
        gate.set()
    assert statuses == [204]


async def test_a_challenge_is_answered_when_it_is_signed() -> None:
    inbox = Inbox()
    receiver = Receiver(SECRET, handler=inbox)
    body = b'{"type":"verification","challenge":"n0nce\xc3\xa9"}'
    answer = await receiver.receive(body, signed(body))
    assert (answer.status, json.loads(answer.body)) == (200, {"challenge": "n0nceé"})
    assert (await receiver.receive(body, {})).status == 401
    assert inbox.got == []
    for event in (
        b'{"type":"verification","challenge":1}',
        b'{"data":{"type":"verification","challenge":"x"}}',
        b"[1]",
    ):
        assert (await receiver.receive(event, signed(event, id=event.hex()))).status == 204
    assert len(inbox.got) == 3


async def test_the_window_has_an_end() -> None:
    now = 0.0
    seen = Seen(size=2, ttl=10, clock=lambda: now)
    for id in ("a", "b", "c"):
        await seen.add(id)
    assert [await seen.has(id) for id in ("a", "b", "c")] == [False, True, True]
    now = 10.0
    assert not await seen.has("c")
    assert len(seen) == 0
    with pytest.raises(tidings.InvalidArgument):
        Seen(size=0)


HANDLED = """
    import asyncio, os, sys, tidings
    from tidings.webhook import Receiver, StoredSeen

    async def main():
        hub = tidings.Hub(sys.argv[1])
        receiver = Receiver(sys.argv[2], handler=lambda incoming: print(incoming.id, flush=True), seen=StoredSeen(hub))
        body = b"{}"
        headers = tidings.Webhook(sys.argv[2]).sign(body, id=sys.argv[3])
        print((await receiver.receive(body, headers)).status, flush=True)
        os.kill(os.getpid(), 9)

    asyncio.run(main())
"""


async def test_the_window_in_a_store_outlives_kill_9(url: str, tmp_path: Any) -> None:
    import textwrap

    def run(id: str) -> list[str]:
        command = [sys.executable, "-c", textwrap.dedent(HANDLED), url, SECRET, id]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == -9, done.stderr
        return done.stdout.split()

    assert run("evt_1") == ["evt_1", "204"]
    assert run("evt_1") == ["204"]
    assert run("evt_2") == ["evt_2", "204"]


async def test_two_processes_share_the_window(url: str) -> None:
    async with tidings.Hub(url) as one, tidings.Hub(url) as two:
        first, second = StoredSeen(one), StoredSeen(two)
        assert not await first.has("a")
        await first.add("a")
        assert await second.has("a")
        await second.add("b")
        assert await first.has("b")
        assert not await StoredSeen(one, scope="another").has("a")


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://me.example")


async def test_as_a_route_of_an_app() -> None:
    inbox = Inbox()
    routes = [
        Route("/hook", Receiver(SECRET, handler=inbox, max_body=100)),
        Route(WELL_KNOWN, ReceiverDocument(["/hook"])),
    ]
    async with client(Starlette(routes=routes)) as http:
        assert (await http.post("/hook", content=BODY, headers=signed())).status_code == 204
        assert (await http.post("/hook", content=BODY)).status_code == 401
        assert (await http.post("/hook", content=b"x" * 101, headers=signed(b"x" * 101))).status_code == 413
        refused = await http.get("/hook")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        document = await http.get(WELL_KNOWN)
        assert document.json() == {"receivers": ["/hook"]}
        assert (document.headers["content-type"], document.headers["cache-control"]) == (
            "application/json",
            "max-age=3600",
        )
    assert len(inbox.got) == 1
    for bad in ([], ["hook"]):
        with pytest.raises(tidings.InvalidArgument, match="receivers"):
            ReceiverDocument(bad)
    with pytest.raises(TypeError, match="receivers"):
        ReceiverDocument("/hook")
    with pytest.raises(TypeError, match="handler"):
        Receiver(SECRET, handler=None)  # type: ignore[arg-type]

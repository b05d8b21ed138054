"""The resume front by itself, and behind the SDK's own authentication."""

from __future__ import annotations

import codecs
import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
import tidings.mcp
from mcp_stage import SDK, Stage, guarded_server, high_level_server
from mcp_wire import LEGACY, MODERN, WAIT, Client, Served
from strict_sse import EventStream
from tidings import Hub, Retention
from tidings.mcp import EventStore, ResumeFront, SessionEventStore, _event_store, _sessions

PRIMED = "2025-11-25"
OLDER = "2025-06-18"


async def refusing(scope: Any, receive: Any, send: Any) -> None:
    """An app that holds no session and says what it was asked for."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    headers = [(b"content-type", b"text/plain"), (b"x-answered-by", b"the app")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": b"no such session"})


class Said:
    """A session that some process had, with one stream."""

    def __init__(self, hub: Hub, session: str, principal: str | None) -> None:
        self.session = session
        self._store: SessionEventStore = EventStore(hub).scoped(session)
        self._store.owned_by(principal)
        self._hub = hub
        self._scope = f"session:{session}"
        self.writer: Any = None
        self.ids: list[str] = []

    async def open(self) -> str:
        """Prime the stream; its first position."""
        position = await self._store.store_event("7", None)
        [self.writer] = self._store._writers.values()
        await self.writer.flush()
        return position

    async def say(self, *payloads: bytes, close: bool = False) -> list[str]:
        said = [self.writer.append(payload) for payload in payloads]
        if close:
            self.writer.close()
        await self.writer.flush()
        return said


@pytest.fixture
def front(hub: Hub) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(of: Hub | None = None, app: Any = None, **options: Any) -> Served:
        served = Served(app or ResumeFront(refusing, of or hub, **options))
        running.append(served)
        return served

    yield start
    for served in running:
        served.stop()


def asking(port: int, session: str, version: str | None = PRIMED, **headers: str) -> Client:
    client = object.__new__(Client)
    client.port, client.path, client.session, client.headers = port, "/mcp", session, headers
    client.era = version or ""
    return client


def note(number: int, size: int = 0) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "n", "params": {"number": number, "pad": "x" * size}}).encode()


def numbers(events: list[Any]) -> list[int]:
    return [event.message["params"]["number"] for event in events]


def told(hub: Hub, session: str = "s", principal: str | None = None, count: int = 3, close: bool = True) -> Any:
    """A session with one stream of so many events: where it begins, the events' ids, and the session itself."""

    async def main() -> Any:
        said = Said(hub, session, principal)
        begin = await said.open()
        return begin, await said.say(*map(note, range(count)), close=close), said

    return hub.run(main())


def test_the_answer_is_a_stream_of_events_with_the_right_headers(hub: Hub, front: Callable[..., Served]) -> None:
    begin, ids, _ = told(hub)
    answer = asking(front().port, "s").get(begin)
    assert answer.status == 200
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["mcp-session-id"] == "s"
    assert list(answer.lines()) == [
        # A byte of the body at once, and when to come back
        ":",
        "",
        "retry: 1000",
        "",
        *[
            line
            for number, id in enumerate(ids)
            for line in (f"id: {id}", "event: message", f"data: {note(number).decode()}", "")
        ],
    ]


@pytest.mark.parametrize(("version", "retry"), [(OLDER, False), (None, False), (PRIMED, True)])
def test_an_older_client_gets_nothing_it_cannot_read(
    version: str | None, retry: bool, hub: Hub, front: Callable[..., Served]
) -> None:
    begin, _, _ = told(hub)
    client = asking(front().port, "s", version)
    if version is None:
        client.headers["mcp-protocol-version"] = OLDER  # the version of a client that sends none
    lines = list(client.get(begin).lines())
    assert ("retry: 1000" in lines) is retry
    # No event without data (field case B02): after an empty line comes a comment, a retry or an id with its data.
    blocks = "\n".join(lines).split("\n\n")
    assert all("data: {" in block for block in blocks if block.startswith("id:"))


@pytest.mark.parametrize(
    ("owner", "asks", "served"),
    [
        (None, None, True),
        ("auth:a", "auth:a", True),
        ("auth:a", "auth:b", False),
        ("auth:a", None, False),
        (None, "auth:a", False),
    ],
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_only_its_own_principal_is_served(
    kind: str, owner: str | None, asks: str | None, served: bool, hub: Hub, front: Callable[..., Served]
) -> None:
    begin, _, _ = told(hub, principal=owner)

    async def later(scope: Any) -> str | None:
        return asks

    principal = later if kind == "async" else lambda scope: asks
    answer = asking(front(principal=principal).port, "s").get(begin)
    if served:
        assert numbers(answer.rest()) == [0, 1, 2]
    else:
        assert (answer.status, answer.headers["x-answered-by"]) == (404, "the app")
        answer.close()


def test_what_is_not_known_is_the_apps_to_answer(hub: Hub, front: Callable[..., Served]) -> None:
    """Field reports B10 and B12: a resume that cannot work is refused at once, not answered with a silent or open stream."""
    begin, ids, _ = told(hub, "one")
    other, _, _ = told(hub, "two")
    port = front().port
    for session, last_event_id in [
        ("one", other),
        ("two", ids[0]),
        ("three", begin),
        ("one", "nope"),
        ("one", "0"),
        ("one", "%00" * 1000),
        ("one/owner", begin),
    ]:
        answer = asking(port, session).get(last_event_id)
        assert (answer.status, answer.headers["x-answered-by"]) == (404, "the app"), (session, last_event_id)
        answer.close()
    # Not a resume of a legacy stream at all
    for make in (
        lambda: asking(port, "one").get(None),
        lambda: asking(port, "one", MODERN).get(begin),
        lambda: asking(port, "one").post({}, extra={"last-event-id": begin}),
        lambda: asking(port, "one").delete(),
    ):
        answer = make()
        assert answer.headers["x-answered-by"] == "the app"
        answer.close()


def test_it_follows_live_and_keeps_the_connection_alive(hub: Hub, front: Callable[..., Served]) -> None:
    """Field report B13: a byte at once, then comments, which are no events and move no cursor."""
    begin, _, said = told(hub, count=1, close=False)
    answer = asking(front(keep_alive=0.05).port, "s").get(begin)
    lines = answer.lines()
    assert [next(lines) for _ in range(4)] == [":", "", "retry: 1000", ""]
    while (line := next(lines)) in ("", ":"):
        pass  # where the store takes longer than that to read the event
    assert line.startswith("id: ")
    assert [next(lines) for _ in range(2)][1].startswith("data: ")
    # Silence, but for comments; they carry no id, no data and no event.
    assert [next(lines) for _ in range(5)] == ["", ":", "", ":", ""]
    hub.run(said.say(note(1), close=True))
    left = [line for line in lines if line not in ("", ":")]
    assert [line.partition(":")[0] for line in left] == ["id", "event", "data"]


def test_a_client_that_leaves_leaves_nothing_behind(hub: Hub, front: Callable[..., Served]) -> None:
    begin, _, _ = told(hub, count=1, close=False)
    served = front()
    for _ in range(5):
        answer = asking(served.port, "s").get(begin)
        assert numbers(answer.take(1)) == [0]
        answer.cut()
    end = time.monotonic() + WAIT
    while served.server_state.tasks:
        assert time.monotonic() < end, "a request goes on without its client"
        time.sleep(0.01)


def test_a_slow_client_holds_up_nobody_and_misses_nothing(hub: Hub, front: Callable[..., Served]) -> None:
    count, size = 400, 20_000

    async def main() -> str:
        said = Said(hub, "s", None)
        begin = await said.open()
        for number in range(count):
            await said.say(note(number, size))
        await said.say(close=True)
        return begin

    begin = hub.run(main())
    port = front().port
    slow = asking(port, "s").get(begin)
    # It reads nothing while another reads all 8 MB.
    assert numbers(asking(port, "s").get(begin).rest()) == list(range(count))
    assert numbers(slow.rest()) == list(range(count))


def test_what_was_evicted_is_told(make_hub: Callable[..., Hub], front: Callable[..., Served]) -> None:
    hub = make_hub(retention=Retention(max_events=5))
    begin, ids, _ = told(hub, count=20)
    port = front(hub).port
    end = time.monotonic() + WAIT
    while (events := asking(port, "s").get(begin).rest())[0].message["method"] == "n":
        assert time.monotonic() < end, "nothing was evicted"
        time.sleep(0.05)
    gap, *kept = events
    assert gap.message["method"] == "notifications/io.tidings/gap"
    assert gap.message["params"]["reason"] == "evicted"
    # The opening and 20 notes are events 0 to 20.
    assert gap.message["params"]["headSeq"] == 20
    assert numbers(kept) == list(range(gap.message["params"]["earliestSeq"] - 1, 20))
    assert [event.id for event in kept] == ids[-len(kept) :]


def test_a_payload_of_several_lines_arrives_as_it_was(hub: Hub, front: Callable[..., Served]) -> None:
    payload = b'{"a":\r\n1,\r"b":\n[\n]}'

    async def main() -> str:
        said = Said(hub, "s", None)
        begin = await said.open()
        await said.say(payload, close=True)
        return begin

    [event] = asking(front().port, "s").get(hub.run(main())).rest()
    assert event.data == '{"a":\n1,\n"b":\n[\n]}'


def raw(port: int, last_event_id: str, name: str = "last-event-id") -> bytes:
    """The body of a resume, byte for byte."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    headers = {
        "mcp-session-id": "s",
        "mcp-protocol-version": PRIMED,
        "accept": "text/event-stream",
        name: last_event_id,
    }
    with contextlib.closing(connection):
        connection.request("GET", "/mcp", headers=headers)
        with connection.getresponse() as answer:
            assert answer.status == 200
            return answer.read()


def test_what_is_sent_leaves_nothing_to_a_parsers_reading(hub: Hub, front: Callable[..., Served]) -> None:
    """Field report B05, from the sender's side: no BOM, no CRLF, one space after the colon, and pieces cut anywhere."""
    texts = [" two  spaces ", "\ufeffBOM", "é", "\U0001f600", "\u2028\u2029\x85\x0b\x0c\x1c", "data: x", "id: y", ": z"]
    payloads = [json.dumps({"jsonrpc": "2.0", "method": text}, ensure_ascii=False) for text in texts]
    payloads.append(' {"jsonrpc": "2.0", "method": "x"}')

    async def main() -> tuple[str, list[str]]:
        said = Said(hub, "s", None)
        begin = await said.open()
        return begin, await said.say(*(payload.encode() for payload in payloads), close=True)

    begin, ids = hub.run(main())
    body = raw(front().port, begin)
    assert not body.startswith(codecs.BOM_UTF8)
    assert b"\r" not in body
    for size in (1, 2, 3, 7, len(body)):
        told = EventStream().feed(body[at : at + size] for at in range(0, len(body), size))
        assert [(event.type, event.data, event.last_id) for event in told.events] == [
            ("message", payload, id) for payload, id in zip(payloads, ids, strict=True)
        ]


@pytest.mark.parametrize("retry", [0, 1, 1000.0, 2**31 - 1])
def test_the_time_to_come_back_is_digits_alone(retry: float, hub: Hub, front: Callable[..., Served]) -> None:
    """Field report B06: nothing that a parser could take for another time, or for none."""
    begin, _, _ = told(hub)
    body = raw(front(retry=retry).port, begin)
    assert [line for line in body.split(b"\n") if b"retry" in line] == [b"retry: %d" % retry]
    assert EventStream().feed([body]).retry == retry


def test_every_event_moves_the_cursor_and_none_resets_it(hub: Hub, front: Callable[..., Served]) -> None:
    """Field report B09: an event without an id would leave the client's where it was, an empty one would have it ask for
    nothing; and the id it brings is taken however its header is written."""
    begin, ids, _ = told(hub)
    port = front().port
    told_of = EventStream().feed([raw(port, begin)])
    assert [event.last_id for event in told_of.events] == ids
    assert told_of.last_id == ids[-1]
    assert all(id.isascii() and id.isprintable() and id == id.strip() for id in ids)
    for name in ("Last-Event-ID", "last-event-id", "LAST-EVENT-ID"):
        again = EventStream().feed([raw(port, ids[0], name)])
        assert [event.last_id for event in again.events] == ids[1:]
    # An id that was reset is no place to go on from: the app's, as any GET without one.
    answer = asking(port, "s").get("")
    assert answer.headers["x-answered-by"] == "the app"
    answer.close()


class Broken:
    def stream(self, scope: str, name: str) -> Any:
        raise OSError(5, "Input/output error")


def test_a_store_that_fails_leaves_it_to_the_app(front: Callable[..., Served]) -> None:
    app = ResumeFront(refusing, Broken())  # type: ignore[arg-type]
    answer = asking(front(app=app).port, "s").get("x")
    assert answer.status == 404
    answer.close()
    assert app.failures == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keep_alive": 0}, "keep_alive"),
        ({"keep_alive": 26}, "keep_alive"),
        ({"keep_alive": float("nan")}, "keep_alive"),
        ({"keep_alive": True}, "keep_alive"),
        ({"retry": -1}, "retry"),
        ({"retry": 1.5}, "retry"),
        ({"retry": True}, "retry"),
        ({"retry": float("inf")}, "retry"),
        ({"retry": "1000"}, "retry"),
        ({"retry": 2**31}, "retry"),
        ({"retry": 99999999999999999999}, "retry"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, Any], said: str, hub: Hub) -> None:
    with pytest.raises(ValueError, match=said):
        ResumeFront(refusing, hub, **options)


def test_a_session_that_lives_here_is_the_apps(
    server: Any, hub: Hub, serve: Callable[..., Served], front: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    events = client.call("steps", {"count": 2}, progress=True).rest()
    answer = asking(front().port, str(client.session)).get(events[0].id)
    assert answer.headers["x-answered-by"] == "the app"
    answer.close()


# -- what attach brings, with two apps that stand for two workers


def who(token: str) -> tuple[str, str, str] | None:
    return ("https://login.example", token, "client") if token in ("alice", "bob") else None


def test_authentication_and_ownership_hold_at_another_worker(
    stage: Stage, make_hub: Callable[..., Hub], serve: Callable[..., Served]
) -> None:
    ports = []
    for _ in range(2):
        server = guarded_server(stage, who)
        tidings.mcp.attach(server, make_hub())
        ports.append(serve(server).port)
    alice, bob = ({"authorization": f"Bearer {name}"} for name in ("alice", "bob"))
    client = Client(ports[0], LEGACY, headers=alice)
    events = client.call("steps", {"count": 3}, progress=True).rest()
    session = str(client.session)
    answers = {
        "alice": asking(ports[1], session, **alice).get(events[0].id),
        "bob": asking(ports[1], session, **bob).get(events[0].id),
        "nobody": asking(ports[1], session).get(events[0].id),
    }
    assert {who: answer.status for who, answer in answers.items()} == {"alice": 200, "bob": 404, "nobody": 401}
    assert answers["alice"].rest() == events[1:]
    for answer in answers.values():
        answer.close()


@pytest.mark.skipif(SDK == "fastmcp", reason="FastMCP checks hosts in a middleware of its own, outside of all this")
def test_the_sdks_check_of_hosts_holds_for_it_too(
    stage: Stage, make_hub: Callable[..., Hub], serve: Callable[..., Served]
) -> None:
    ports = []
    for _ in range(2):
        server = high_level_server(stage)
        tidings.mcp.attach(server, make_hub())
        ports.append(serve(server).port)
    client = Client(ports[0], LEGACY)
    events = client.call("steps", {"count": 3}, progress=True).rest()
    answer = asking(ports[1], str(client.session), origin="http://evil.example").get(events[0].id)
    assert answer.status == 403
    answer.close()
    assert asking(ports[1], str(client.session)).get(events[0].id).rest() == events[1:]


def test_it_can_be_left_out(stage: Stage, make_hub: Callable[..., Hub], serve: Callable[..., Served]) -> None:
    ports = []
    for _ in range(2):
        server = high_level_server(stage)
        tidings.mcp.attach(server, make_hub(), resume_front=False)
        ports.append(serve(server).port)
    client = Client(ports[0], LEGACY)
    events = client.call("steps", {"count": 3}, progress=True).rest()
    answer = asking(ports[1], str(client.session)).get(events[0].id)
    assert answer.status == 404
    answer.close()


class Slow:
    """A hub whose record of a session takes its time to be committed."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.waits, self.gate = anyio.Event(), anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hub, name)

    def new_writer(self, scope: str, name: str) -> Any:
        writer = self._hub.new_writer(scope, name)
        return SlowWriter(writer, self) if name == "owner" else writer


class SlowWriter:
    def __init__(self, writer: Any, slow: Slow) -> None:
        self._writer = writer
        self._slow = slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    async def flush(self) -> None:
        self._slow.waits.set()
        await self._slow.gate.wait()
        await self._writer.flush()


@pytest.mark.anyio
@pytest.mark.parametrize("answers", [True, False], ids=["a store that answers", "a store that does not answer"])
async def test_no_client_has_an_event_of_a_session_that_others_do_not_know(
    answers: bool, hub: Hub, make_hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever came back with it at another process would be told that there is no such session."""
    monkeypatch.setattr(_event_store, "_RECORDED_WITHIN", 60.0 if answers else 0.05)
    hub.open()
    slow = Slow(hub)
    store = EventStore(slow).scoped("s")  # type: ignore[arg-type]
    store.owned_by("auth:a")
    given: list[str] = []

    async def first() -> None:
        given.append(await store.store_event("7", None))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await slow.waits.wait()
        if answers:
            assert given == []
            slow.gate.set()
    assert given[0]
    # Only the first one waits.
    slow.gate = anyio.Event()
    assert await store.store_event("8", None)
    assert await store.store_event("7", None)
    if answers:
        record = _sessions.look_up(make_hub(), "s")
        assert record is not None
        assert (record.principal, record.alive) == ("auth:a", True)

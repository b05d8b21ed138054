"""Sessions that another process held: killed and started again, or several workers on one file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_process import ServerProcess
from mcp_stage import KINDS
from mcp_wire import LEGACY, WAIT, Client, Receiver, SseEvent
from tidings import CursorError, Event, Hub

Start = Callable[[], ServerProcess]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "tidings.db"


@pytest.fixture
def start(database: Path, receiver: Receiver) -> Iterator[Start]:
    """Starts server processes on one file."""
    running: list[ServerProcess] = []

    def begin() -> ServerProcess:
        process = ServerProcess(database, KINDS[0], receiver.port)
        running.append(process)
        return process

    yield begin
    for process in running:
        process.close()


def at(client: Client, port: int) -> Client:
    """The same client, talking to another process."""
    other = object.__new__(Client)
    other.__dict__.update(client.__dict__, port=port)
    return other


def progress(events: list[SseEvent]) -> list[int]:
    return [int(event.message["params"]["progress"]) for event in events if "params" in event.message]


def wait_committed(hub: Hub, session: str | None, after: str | None, count: int) -> None:
    """Until so many events after a position are in the file, for somebody who is not their writer."""
    assert after is not None
    end = time.monotonic() + WAIT
    while True:
        assert time.monotonic() < end, "was not committed"
        try:
            tail = hub.resume(f"session:{session}", after)
        except CursorError:
            continue
        found = [item for item in tail.take() or [] if isinstance(item, Event)]
        tail.close()
        if len(found) >= count:
            return
        time.sleep(0.01)


def test_a_killed_server_and_what_it_had_said(start: Start, hub: Hub) -> None:
    first = start()
    client = Client(first.port, LEGACY)
    answer = client.call("steps", {"count": 6, "hold_at": 4}, progress=True)
    seen = answer.take(2)
    first.reached()
    wait_committed(hub, client.session, seen[-1].id, 2)
    first.kill()
    answer.close()

    second = at(client, start().port)
    rest = second.get(seen[-1].id)
    assert rest.status == 200
    missed = rest.rest()
    # What had been committed, and the end: nobody is left to say more.
    assert progress(seen) + progress(missed) == [1, 2, 3, 4]
    assert [event.id for event in missed] == list(dict.fromkeys(event.id for event in missed))
    # From there on there is nothing, and the client is told to start anew instead of asking for ever.
    over = second.get(missed[-1].id)
    assert over.status == 404
    over.close()
    gone = second.call("steps", id=2)
    assert gone.status == 404
    gone.close()
    assert Client(second.port, LEGACY).call("steps", {"count": 1}, progress=True).rest()


def test_a_killed_server_and_a_call_that_was_watched(start: Start, hub: Hub, receiver: Receiver) -> None:
    first = start()
    client = Client(first.port, LEGACY)
    config = receiver.config("completed", "failed", "timeout", "cancelled")
    answer = client.call("steps", {"count": 6, "hold_at": 2}, progress=True, notificationConfig=config)
    acknowledged, *seen = answer.take(2)
    assert acknowledged.message["method"] == "notifications/config/acknowledged"
    first.reached()
    wait_committed(hub, client.session, seen[-1].id, 1)
    first.kill()
    answer.close()

    second = at(client, start().port)
    assert progress(second.get(seen[-1].id).rest()) == [2]
    told = receiver.next()
    assert told["name"] == "tool_call.failed"
    assert told["data"]["callId"] == acknowledged.message["params"]["callId"]
    assert told["data"]["outcome"]["reason"] == "server_lost"
    # The stream itself says nothing more.
    assert progress(second.get(acknowledged.id).rest()) == [1, 2]


def test_a_session_of_another_worker_is_replayed_and_followed(start: Start) -> None:
    one, two = start(), start()
    client = Client(one.port, LEGACY)
    answer = client.call("steps", {"count": 6, "hold_at": 4}, id="x", progress=True)
    seen = answer.take(2)
    one.reached()
    answer.cut()
    resumed = at(client, two.port).get(seen[-1].id)
    assert resumed.status == 200
    assert resumed.headers["mcp-session-id"] == client.session
    missed = resumed.take(2)
    one.go()
    live = resumed.rest()  # and the end, after the response
    assert progress([*seen, *missed, *live]) == [1, 2, 3, 4, 5, 6]
    assert live[-1].message["id"] == "x"
    # Again, from anywhere, at either, with the same ids and bytes.
    assert at(client, two.port).get(seen[-1].id).rest() == [*missed, *live]
    assert [(event.id, event.data) for event in client.get(seen[-1].id).rest()] == [
        (event.id, event.data) for event in [*missed, *live]
    ]
    # Over, in a session that lives: an empty stream, as where it lives.
    over = at(client, two.port).get(live[-1].id)
    assert (over.status, over.rest()) == (200, [])


def test_a_silent_tool_of_another_worker(start: Start) -> None:
    one, two = start(), start()
    client = Client(one.port, LEGACY)
    answer = client.call("steps", {"count": 1, "hold_at": 0}, progress=True)
    primed = answer.priming()
    one.reached()
    answer.cut()
    resumed = at(client, two.port).get(primed.id)
    assert resumed.status == 200
    one.go()
    assert progress(resumed.rest()) == [1]


def test_a_worker_that_is_killed_while_another_follows(start: Start) -> None:
    one, two = start(), start()
    client = Client(one.port, LEGACY)
    answer = client.call("steps", {"count": 2, "hold_at": 1}, progress=True)
    seen = answer.take(1)
    one.reached()
    answer.cut()
    resumed = at(client, two.port).get(seen[-1].id)
    assert resumed.status == 200
    one.kill()
    assert resumed.rest() == []


def test_the_standalone_stream_of_another_worker(start: Start) -> None:
    one, two = start(), start()
    client = Client(one.port, LEGACY)
    stream = client.get()
    client.call("announce", {"times": 2}).rest()
    seen = stream.take(1)
    stream.cut()
    resumed = at(client, two.port).get(seen[-1].id)
    client.call("announce", {"times": 2}, id=2).rest()
    more = resumed.take(3)
    resumed.close()
    assert {event.message["method"] for event in [*seen, *more]} == {"notifications/tools/list_changed"}
    assert len({event.id for event in [*seen, *more]}) == 4


def test_a_session_that_its_client_ended_is_not_resumed(start: Start) -> None:
    one, two = start(), start()
    client = Client(one.port, LEGACY)
    events = client.call("steps", {"count": 3}, progress=True).rest()
    elsewhere = at(client, two.port)
    assert elsewhere.get(events[0].id).rest() == events[1:]
    client.delete().close()
    end = time.monotonic() + WAIT
    while (answer := elsewhere.get(events[0].id)).status != 404:
        assert answer.status == 200
        answer.close()
        assert time.monotonic() < end, "the end of the session did not become known"
    answer.close()


def test_a_server_that_was_restarted_in_good_order(start: Start) -> None:
    first = start()
    client = Client(first.port, LEGACY)
    events = client.call("steps", {"count": 3}, progress=True).rest()
    first.close()
    second = at(client, start().port)
    assert second.get(events[0].id).rest() == events[1:]
    over = second.get(events[-1].id)
    assert over.status == 404
    over.close()


def test_sessions_and_events_that_are_not_on_record(start: Start) -> None:
    one, two = start(), start()
    client, other = Client(one.port, LEGACY), Client(one.port, LEGACY)
    events = client.call("steps", {"count": 3}, progress=True).rest()
    wrong: list[tuple[Any, Any]] = [
        (client.session, "nope"),
        (client.session, "x" * 4000),
        (other.session, events[0].id),
        ("0" * 32, events[0].id),
        ("session:" + str(client.session), events[0].id),
        ("", events[0].id),
    ]
    for session, last_event_id in wrong:
        asking = at(client, two.port)
        asking.session = session
        answer = asking.get(last_event_id)
        assert answer.status in (400, 404), (session, last_event_id)
        answer.close()

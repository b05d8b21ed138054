"""A client that loses its connection and resumes: every later message once, in order, and then the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp_stage import Stage, high_level_server, plain_tool
from mcp_wire import LEGACY, WAIT, Client, Served, SseEvent, in_loop
from tidings import CongestedError, Hub, Retention

STEPS = 50


def progress(events: list[SseEvent]) -> list[int]:
    return [int(event.message["params"]["progress"]) for event in events if "params" in event.message]


def result_text(event: SseEvent) -> str:
    text: str = event.message["result"]["content"][0]["text"]
    return text


@pytest.mark.parametrize("when", ["while the tool waits", "after it is done"])
def test_every_cut_point_of_a_call_resumes_exactly(
    when: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    served = serve(server)
    client = Client(served.port, LEGACY)
    for cut in range(STEPS + 1):
        stage.reset()
        answer = client.call("steps", {"count": STEPS, "hold_at": cut}, id=cut, progress=True)
        last = answer.priming()
        before = answer.take(cut)
        stage.reached.wait()
        if before:
            last = before[-1]
        answer.cut()
        assert last.id is not None
        if when == "after it is done":
            stage.gate.open()
        resumed = client.get(last.id)
        stage.gate.open()
        after = resumed.rest()
        assert progress(before) == list(range(1, cut + 1))
        assert progress(after) == list(range(cut + 1, STEPS + 1)), f"cut after {cut}"
        assert [event.message.get("id") for event in after] == [None] * (STEPS - cut) + [cut]
        assert result_text(after[-1]) == "done"


def test_a_second_cut_and_a_resume_of_what_is_over(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    answer = client.call("steps", {"count": 6, "hold_at": 4}, progress=True)
    first = answer.take(2)
    answer.cut()
    assert first[-1].id is not None
    again = client.get(first[-1].id)
    second = again.take(2)
    again.cut()
    assert second[-1].id is not None
    stage.gate.open()
    third = client.get(second[-1].id).rest()
    assert progress(first) + progress(second) + progress(third) == [1, 2, 3, 4, 5, 6]
    # From any earlier point, as often as one likes, with the same ids and the same bytes.
    assert client.get(first[-1].id).rest() == [*second, *third]
    # After the final response there is nothing, and the connection is closed.
    assert third[-1].id is not None
    assert client.get(third[-1].id).rest() == []


def test_replayed_bytes_are_those_sent_live(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)

    @plain_tool(server)
    async def odd() -> str:
        return '1.0 9007199254740993 \u2028 \u00e9 \U0001f600 " \\ \n\r\t\0' + "x" * 1_000_000

    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    answer = client.call("odd")
    primed = answer.priming()
    live = answer.rest()
    assert primed.id is not None
    assert client.get(primed.id).rest() == live
    assert result_text(live[0]).startswith('1.0 9007199254740993 \u2028 \u00e9 \U0001f600 " \\ \n\r\t\0xxx')


def test_another_session_gets_nothing(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    port = serve(server).port
    mine, other = Client(port, LEGACY), Client(port, LEGACY)
    answer = mine.call("steps", {"count": 3}, id=7, progress=True)
    primed = answer.priming()
    events = answer.rest()
    # The same request id in the other session, so that only the session can tell them apart.
    assert progress(other.call("steps", {"count": 1}, id=7, progress=True).rest()) == [1]
    for event in [primed, *events]:
        assert event.id is not None
        assert other.get(event.id).rest() == []
    assert primed.id is not None
    assert mine.get(primed.id).rest() == events


@pytest.mark.parametrize("event_id", ["0", "nope", "a.b.c", "-1", "%00", "x" * 4000, "_GET_stream_1_ab"])
def test_an_id_nobody_gave_out_replays_nothing(
    event_id: str, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    attached = tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    assert progress(client.call("steps", {"count": 2}, progress=True).rest()) == [1, 2]
    assert client.get(event_id).rest() == []
    assert attached.event_store is not None
    assert attached.event_store.failures == 0


def test_an_event_id_says_nothing_about_session_or_stream(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    events = client.call("steps", {"count": 2}, id="a-telling-id", progress=True).rest()
    for event in events:
        assert event.id is not None
        assert event.id.isascii()
        assert event.id.isprintable()
        assert " " not in event.id
        assert client.session is not None
        assert client.session not in event.id
        assert "telling" not in event.id


def test_what_was_evicted_is_told(stage: Stage, make_hub: Callable[..., Hub], serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, make_hub(retention=Retention(max_events=5)))
    client = Client(serve(server).port, LEGACY)
    answer = client.call("steps", {"count": 20}, progress=True)
    primed = answer.priming()
    live = answer.rest()
    assert primed.id is not None
    # Retention comes by now and then, and what it has not taken yet is simply replayed.
    end = time.monotonic() + WAIT
    while (replayed := client.get(primed.id).rest())[0].message["method"] == "notifications/progress":
        assert replayed == live
        assert time.monotonic() < end, "nothing was evicted"
        time.sleep(0.05)
    gap, *kept = replayed
    params = gap.message["params"]
    assert gap.message["method"] == "notifications/io.tidings/gap"
    assert params["reason"] == "evicted"
    # The opening, 20 steps and the result are events 0 to 21; retention keeps at least the last five of them.
    assert params["headSeq"] == 21
    assert 1 < params["earliestSeq"] <= 17
    assert kept == live[params["earliestSeq"] - 1 :]
    # The gap is a position too: resuming from it does not tell it again but goes on after it.
    if gap.id is not None:
        assert client.get(gap.id).rest() == kept


def test_a_request_id_used_again_is_a_new_stream(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    old = client.call("steps", {"count": 2}, id=5, progress=True)
    old_primed, old_events = old.priming(), old.rest()
    new = client.call("steps", {"count": 3}, id=5, progress=True)
    new_primed, new_events = new.priming(), new.rest()
    assert old_primed.id is not None
    assert new_primed.id is not None
    assert client.get(old_primed.id).rest() == old_events
    assert client.get(new_primed.id).rest() == new_events
    assert progress(new_events) == [1, 2, 3]


def test_the_standalone_stream_is_followed_until_the_client_leaves(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    port = serve(server).port
    mine, other = Client(port, LEGACY), Client(port, LEGACY)
    stream = mine.get()
    mine.call("announce", {"times": 2}).rest()
    seen = stream.take(2)
    stream.cut()
    # Said while nobody listens, and in the other session.
    mine.call("announce", {"times": 2}).rest()
    other.call("announce", {"times": 1}).rest()
    assert seen[-1].id is not None
    resumed = mine.get(seen[-1].id)
    missed = resumed.take(2)
    # Then live, on the same connection.
    mine.call("announce", {"times": 1}).rest()
    live = resumed.take(1)
    for event in [*seen, *missed, *live]:
        assert event.message["method"] == "notifications/tools/list_changed"
    ids = [event.id for event in [*seen, *missed, *live]]
    assert len(set(ids)) == 5
    assert other.get(seen[-1].id).rest() == []
    resumed.close()


def test_a_finished_call_that_is_resumed_leaves_the_standalone_stream_alone(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    """Field report B11 (a): a resume is bound to the stream that the id names, and ends there when that one is over."""
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    standalone = client.get()
    ended = client.call("steps", {"count": 1}).rest()[-1]
    assert ended.id is not None
    for _ in range(3):
        assert client.get(ended.id).rest() == []
        client.call("announce", {"times": 1}).rest()
    assert [event.message["method"] for event in standalone.take(3)] == ["notifications/tools/list_changed"] * 3
    standalone.close()


def test_a_resume_takes_over_from_a_connection_still_open(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    """Field report B11 (b): the latest connection wins, and nothing is lost."""
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    original = client.call("steps", {"count": 6, "hold_at": 3}, progress=True)
    before = original.take(3)
    assert before[-1].id is not None
    first = client.get(before[-1].id)
    # One message goes out on one connection: the original ends without it,
    assert original.rest() == []
    # and so does the first resume when there is a second one.
    second = client.get(before[-1].id)
    assert first.rest() == []
    stage.gate.open()
    assert progress(second.rest()) == [4, 5, 6]


def test_a_client_too_old_for_priming_resumes_too(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, "2025-06-18")
    answer = client.call("steps", {"count": 4, "hold_at": 2}, progress=True)
    events = answer.events()
    first = next(events)
    assert first.data, "a client of 2025-06-18 cannot read an event without data"
    second = next(events)
    answer.cut()
    assert second.id is not None
    resumed = client.get(second.id)
    stage.gate.open()
    assert progress([first, second]) + progress(resumed.rest()) == [1, 2, 3, 4]


def test_a_result_that_has_no_text_does_not_leave_a_resumed_client_waiting(
    stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    answer = client.call("surrogate")
    primed = answer.priming()
    assert answer.rest() == []  # the SDK cannot write it either
    assert primed.id is not None
    [event] = client.get(primed.id).rest()
    assert event.message["error"]["code"] == -32603
    assert event.message["id"] == 1


class FailingHub:
    """A hub whose store is gone, in the worst way: everything an event store asks of it raises."""

    route_types: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.asked = 0

    def open(self) -> None:
        raise OSError(13, "Permission denied")

    def outbox(self) -> Any:
        raise OSError(13, "Permission denied")

    def new_writer(self, scope: str, name: str) -> Any:
        self.asked += 1
        raise OSError(30, "Read-only file system")

    def resume(self, scope: str, cursor: str) -> Any:
        self.asked += 1
        raise OSError(5, "Input/output error")


def test_a_store_that_fails_neither_ends_nor_hangs_the_session(
    stage: Stage, serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    server = high_level_server(stage)
    hub: Any = FailingHub()
    attached = tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    caplog.set_level(logging.DEBUG, "tidings.mcp")
    for id in range(3):
        answer = client.call("steps", {"count": 10}, id=id, progress=True)
        assert progress(answer.rest()) == list(range(1, 11))
    assert client.get("whatever").rest() == []
    assert attached.event_store is not None
    assert attached.event_store.failures > 30
    # Not asked again and again, and the log says it once.
    assert hub.asked == 0
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len([line for line in lines if "Permission denied" in line]) == len(lines) <= 1


class FailingLater:
    """The real hub until the test says otherwise."""

    def __init__(self, hub: Hub, error: Exception) -> None:
        self._hub = hub
        self.error = error
        self.failing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hub, name)

    def new_writer(self, scope: str, name: str) -> Any:
        return FailingWriter(self, self._hub.new_writer(scope, name))


class FailingWriter:
    def __init__(self, hub: FailingLater, writer: Any) -> None:
        self._hub = hub
        self._writer = writer

    def append(self, payload: bytes, **options: Any) -> str:
        if self._hub.failing:
            raise self._hub.error
        cursor: str = self._writer.append(payload, **options)
        return cursor

    async def flush(self) -> None:
        await self._writer.flush()
        self._hub.failing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


def test_a_store_that_is_behind_is_waited_for(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    congested: Any = FailingLater(hub, CongestedError("full"))
    congested.failing = True
    attached = tidings.mcp.attach(server, congested)
    client = Client(serve(server).port, LEGACY)
    answer = client.call("steps", {"count": 3}, progress=True)
    primed, events = answer.priming(), answer.rest()
    assert progress(events) == [1, 2, 3]
    assert primed.id is not None
    assert client.get(primed.id).rest() == events
    assert attached.event_store is not None
    assert attached.event_store.failures == 0


def test_a_store_that_fails_in_the_middle_of_a_call(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    failing: Any = FailingLater(hub, OSError(28, "No space left on device"))
    attached = tidings.mcp.attach(server, failing)
    served = serve(server)
    client = Client(served.port, LEGACY)
    answer = client.call("steps", {"count": 4, "hold_at": 2}, progress=True)
    before = answer.take(2)
    failing.failing = True
    stage.gate.open()
    after = answer.rest()
    # The client that stays sees everything; only the ids, which it could not resume from, are missing.
    assert progress(before) + progress(after) == [1, 2, 3, 4]
    assert [event.id for event in after] == [None, None, None]
    failing.failing = False
    assert progress(client.call("steps", {"count": 2}, id=2, progress=True).rest()) == [1, 2]
    assert attached.event_store is not None
    assert in_loop(served, lambda: attached.event_store.failures) == 3  # type: ignore[union-attr]

"""``tasks/stream`` (SEP-2694): from every number on, on both eras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import tidings.mcp
from mcp.shared.exceptions import MCPError
from mcp_tasks import Play, TaskClient, task_server
from mcp_wire import LEGACY, Answer, Client, Served
from tidings import Hub, Retention
from tidings.mcp import Tasks
from tidings.mcp._task_limits import StreamLimits

TOOLS = dict.fromkeys(("work", "progress", "stubborn", "logs"), "always")
ALWAYS = Tasks(tools=TOOLS, resumes=100_000)  # tests that wait for retention ask often


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.gate.open()


@pytest.fixture
def attached(play: Play, make_hub: Callable[..., Hub], serve: Callable[..., Served]) -> Callable[..., TaskClient]:
    def start(
        tasks: Any = ALWAYS, *, app: dict[str, Any] | None = None, hub: dict[str, Any] | None = None, **options: Any
    ) -> TaskClient:
        server = task_server(play)
        tidings.mcp.attach(server, make_hub(**(hub or {})), tasks=tasks, **{"tasks_stream": True, **options})
        return TaskClient(serve(server, **(app or {})).port)

    return start


class LegacyStreams(Client):
    """Reads the streams of tasks in a session of 2025-11-25, where nothing can be declared."""

    def stream(self, task_id: str, after: Any = ..., id: int | str = 1) -> Answer:
        params = {"taskId": task_id} if after is ... else {"taskId": task_id, "after": after}
        return self.request("tasks/stream", params, id)


def readers(client: TaskClient) -> list[Any]:
    return [client, LegacyStreams(client.port, LEGACY)]


def split(messages: list[Any]) -> tuple[list[Any], Any]:
    *events, last = messages
    return [event["params"] for event in events if event["method"] == "notifications/tasks/event"], last


def ended_task(play: Play, client: TaskClient, **counts: int) -> str:
    task_id: str = client.start("work", counts)["taskId"]
    play.gate.open()
    client.finished(task_id)
    return task_id


def test_the_events_of_a_task_are_numbered_typed_and_related(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached()
    task_id = ended_task(play, client, before=2, after=1)
    for reader in readers(client):
        events, last = split(reader.stream(task_id).messages())
        assert [event["seq"] for event in events] == [0, 1, 2, 3]
        assert [event["type"] for event in events] == ["com.example.step"] * 3 + ["io.tidings.outcome"]
        assert [event["payload"] for event in events[:3]] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert events[3]["payload"]["status"] == "completed"
        for event in events:
            assert event["taskId"] == task_id
            assert event["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task_id}
        if reader is client:
            assert last["result"]["resultType"] == "complete"
        else:
            assert last["result"] == {}


def test_every_after_gives_what_follows_it(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached()
    task_id = ended_task(play, client, before=4)
    for reader in readers(client):
        for after in range(5):  # 4 is the head: nothing follows, and the task has ended
            events, last = split(reader.stream(task_id, after).messages())
            assert [event["seq"] for event in events] == list(range(after + 1, 5))
            assert "result" in last
        error = reader.stream(task_id, 5).messages()[-1]["error"]
        assert (error["code"], error["data"]) == (-32602, {"reason": "ahead", "headSeq": 4})


@pytest.mark.parametrize("after", [-1, 1.0, 1.5, "0", True, None, 2**53, 2**60, [], {}])
def test_an_after_that_is_no_number_of_an_event(play: Play, attached: Callable[..., TaskClient], after: Any) -> None:
    client = attached()
    task_id = client.start("work", {"before": 3})["taskId"]
    for reader in readers(client):
        assert reader.stream(task_id, after).messages()[-1]["error"]["code"] == -32602


def test_before_the_first_event_any_after_is_ahead(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached()
    task_id = client.start("work")["taskId"]
    error = client.one("tasks/stream", {"taskId": task_id, "after": 0})["error"]
    assert (error["code"], error["data"]) == (-32602, {"reason": "ahead"})


def test_replay_then_live_and_the_end(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached()
    task_id = client.start("work", {"before": 3, "after": 2})["taskId"]
    play.reached.wait()
    streams = [(reader.stream(task_id, 0), reader) for reader in readers(client)]
    for answer, _ in streams:
        assert [event.message["params"]["seq"] for event in answer.take(2)] == [1, 2]
    play.gate.open()
    for answer, _ in streams:
        events, last = split(answer.messages())
        assert [event["seq"] for event in events] == [3, 4, 5]
        assert "result" in last


def test_what_was_emitted_before_it_was_a_task_is_in_the_stream(
    play: Play, attached: Callable[..., TaskClient]
) -> None:
    client = attached(Tasks(inline=0.2))
    task_id = client.start("work", {"before": 3})["taskId"]
    play.gate.open()
    client.finished(task_id)
    events, _ = client.events(task_id)
    assert [(event["seq"], event["payload"].get("n")) for event in events] == [(0, 0), (1, 1), (2, 2), (3, None)]


def test_progress_of_a_task_is_an_event(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached()
    task_id = client.start("progress")["taskId"]
    play.gate.open()
    client.finished(task_id)
    events, _ = client.events(task_id)
    assert events[0]["type"] == "io.tidings.progress"
    assert events[0]["payload"] == {"progress": 1, "total": 2, "message": "half"}


def test_what_a_task_logs_is_an_event_whatever_its_client_wants_to_hear(
    play: Play, attached: Callable[..., TaskClient]
) -> None:
    """2026-07-28 sends a request's client the levels it asked for; here it asked for none, or from errors on."""
    client = attached()
    for meta in ({}, {"io.modelcontextprotocol/logLevel": "error"}):
        answer = client.ask("tools/call", {"name": "logs", "arguments": {}}, **meta)
        task_id = answer.messages()[-1]["result"]["taskId"]
        client.finished(task_id)
        events, _ = client.events(task_id)
        said = [{"level": level, "data": {"said": level}, "logger": "it"} for level in ("debug", "error")]
        assert [event["payload"] for event in events if event["type"] == "io.tidings.log"] == said


def test_a_call_that_is_no_task_logs_what_its_client_asked_for(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(Tasks(tools={"logs": "auto"}, inline=60.0))
    for meta, levels in (({}, []), ({"io.modelcontextprotocol/logLevel": "error"}, ["error"])):
        *said, last = client.ask("tools/call", {"name": "logs", "arguments": {}}, **meta).messages()
        assert [message["params"]["level"] for message in said] == levels
        assert last["result"]["content"][0]["text"] == "done"


def test_a_reader_that_eviction_overtakes_is_told_where_it_stands(
    play: Play, attached: Callable[..., TaskClient]
) -> None:
    """What its connection has taken in arrives without a hole, then ``events_gone`` and nothing after it."""
    client = attached(hub={"retention": Retention(max_events=50)})
    task_id = client.start("work", {"before": 1, "after": 4_000, "size": 5_000})["taskId"]
    slow = client.stream(task_id)
    assert slow.take(1)[0].message["params"]["seq"] == 0
    play.gate.open()
    client.finished(task_id)
    while "error" not in client.events(task_id, 3_000)[1]:
        pass  # retention works in the background
    events, last = split(slow.messages())
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len(events) < 3_000
    assert last["error"]["code"] == -32010
    assert last["error"]["data"]["reason"] == "events_gone"
    earliest = last["error"]["data"]["earliestSeq"]
    events, last = client.events(task_id, earliest - 1)
    while "error" in last:  # retention has gone on meanwhile
        assert last["error"]["data"]["earliestSeq"] > earliest
        earliest = last["error"]["data"]["earliestSeq"]
        events, last = client.events(task_id, earliest - 1)
    assert events[0]["seq"] == earliest


def test_a_client_has_so_many_streams_and_no_more(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(Tasks(tools=TOOLS, streams=2))
    first, other = (client.start("work", {"before": 1})["taskId"] for _ in range(2))
    held = [client.stream(first) for _ in range(2)]
    for stream in held:
        stream.take(1)
    error = client.stream(first).messages()[-1]["error"]
    assert (error["code"], error["data"]) == (-32602, {"reason": "limit", "limit": "streams", "max": 2})
    # Nobody is logged in: what can be told apart is the tasks, and in sessions the sessions.
    legacy = LegacyStreams(client.port, LEGACY)
    for stream in (client.stream(other), legacy.stream(first)):
        assert stream.take(1)[0].message["params"]["seq"] == 0
        stream.close()
    play.gate.open()
    for stream in held:
        assert "result" in stream.messages()[-1]
    assert "result" in client.stream(first).messages()[-1]


def test_a_client_asks_so_often_and_no_more(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(Tasks(tools=TOOLS, resumes=2))
    task_id = ended_task(play, client, before=1)
    for _ in range(2):
        assert "result" in client.stream(task_id, 0).messages()[-1]
    error = client.stream(task_id, 0).messages()[-1]["error"]
    assert error["code"] == -32602
    wait = error["data"].pop("retryAfterMs")
    assert error["data"] == {"reason": "limit", "limit": "resumes", "max": 2}
    assert 0 < wait <= 30_000
    assert client.get(task_id)["status"] == "completed"


def test_attempts_come_back_one_after_the_other() -> None:
    now = 0.0
    limits = StreamLimits(streams=1, resumes=2, clock=lambda: now)

    def ask(task_id: str = "a") -> int | None:
        try:
            with limits.stream("me", task_id):
                return None
        except MCPError as error:
            wait: int = error.error.data["retryAfterMs"]
            return wait

    # Two a minute, which is one in 30 s; of each task its own.
    assert [ask(), ask(), ask(), ask("b")] == [None, None, 30_000, None]
    now = 20.0
    assert ask() == 10_000
    now = 30.0
    assert [ask(), ask()] == [None, 30_000]
    now = 1000.0
    assert [ask(), ask(), ask()] == [None, None, 30_000]
    # Whoever might have been forgotten has nothing less than before.
    for n in range(2000):
        assert ask(str(n)) is None
    assert ask() == 30_000


def test_evicted_events_are_gone_and_said_so(play: Play, attached: Callable[..., TaskClient]) -> None:
    """Field report B14: the oldest of three events kept is told, a reader that needs older ones gets nothing instead."""
    client = attached(hub={"retention": Retention(max_events=3)})
    task_id = ended_task(play, client, before=10)  # 0 … 9 and the outcome, 10
    while client.events(task_id, 9)[1].get("error") or len(client.events(task_id)[0]) > 3:
        pass  # retention works in the background
    for reader in readers(client):
        for after in (0, 6):
            error = reader.stream(task_id, after).messages()[-1]["error"]
            assert error["code"] == -32010
            assert error["data"] == {"reason": "events_gone", "taskId": task_id, "earliestSeq": 8}
        for after, want in ((7, [8, 9, 10]), (8, [9, 10]), (10, []), (..., [8, 9, 10])):
            events, last = split(reader.stream(task_id, after).messages())
            assert [event["seq"] for event in events] == want
            assert "result" in last
    # The task itself is told from its record, not from its events.
    assert client.get(task_id)["result"]["content"][0]["text"] == "done"


def test_the_code_of_events_gone_can_be_another(play: Play, attached: Callable[..., TaskClient]) -> None:
    policy = replace(ALWAYS, events_gone_code=-31000)
    client = attached(policy, hub={"retention": Retention(max_events=1)})
    task_id = ended_task(play, client, before=10)
    while "error" not in (answer := client.events(task_id, 0)[1]):
        pass
    assert (answer["error"]["code"], answer["error"]["data"]["reason"]) == (-31000, "events_gone")


def test_leaving_a_stream_leaves_the_task_alone(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached()
    task_id = client.start("work", {"before": 2})["taskId"]
    answer = client.stream(task_id)
    answer.take(2)
    answer.cut()
    legacy = LegacyStreams(client.port, LEGACY)
    answer = legacy.stream(task_id, id=7)
    answer.take(2)
    legacy.cancel(7)
    assert answer.messages()[-1]["error"]["code"] == -32800
    assert client.get(task_id)["status"] == "working"
    assert not play.cancelled.is_open
    # The slot is free at once.
    again = legacy.stream(task_id, 0, id=8)
    assert again.take(1)[0].message["params"]["seq"] == 1
    play.gate.open()
    assert client.finished(task_id)["status"] == "completed"
    assert "result" in again.messages()[-1]


def test_one_stream_of_a_task_in_a_session(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached()
    first, other = (client.start("work", {"before": 1})["taskId"] for _ in range(2))
    legacy = LegacyStreams(client.port, LEGACY)
    held = legacy.stream(first, id=1)
    held.take(1)
    second = legacy.stream(first, id=2).messages()[-1]["error"]
    assert (second["code"], second["data"]) == (-32602, {"reason": "busy"})
    for stream in (legacy.stream(other, id=3), LegacyStreams(client.port, LEGACY).stream(first)):
        assert stream.take(1)[0].message["params"]["seq"] == 0
        stream.close()
    # 2026-07-28 has no connections: as many as one likes.
    streams = [client.stream(first) for _ in range(2)]
    for stream in streams:
        assert stream.take(1)[0].message["params"]["seq"] == 0
    play.gate.open()
    for stream in (held, *streams):
        assert "result" in stream.messages()[-1]


def test_off_is_not_there(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(tasks_stream=False)
    task_id = client.start("work")["taskId"]
    for reader in readers(client):
        assert reader.stream(task_id).messages()[-1]["error"]["code"] == -32601
    extension = client.one("server/discover", {})["result"]["capabilities"]["extensions"][
        "io.modelcontextprotocol/tasks"
    ]
    assert extension == {}


def test_on_is_told_of(attached: Callable[..., TaskClient]) -> None:
    extensions = attached().one("server/discover", {})["result"]["capabilities"]["extensions"]
    assert extensions["io.modelcontextprotocol/tasks"] == {"eventStreams": {}}


def test_a_server_without_streams_has_none_of_tasks(play: Play, attached: Callable[..., TaskClient]) -> None:
    """With JSON responses the events would go nowhere, and an empty answer would say that there are none."""
    client = attached(app={"json_response": True})
    task_id = client.start("work", {"before": 1})["taskId"]
    for reader in readers(client):
        assert reader.stream(task_id).messages()[-1]["error"]["code"] == -32601

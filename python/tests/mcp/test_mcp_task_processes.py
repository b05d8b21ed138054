"""Tasks of servers that were killed, tasks of other workers, and tasks of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tidings.mcp
from mcp.server.auth.provider import AccessToken
from mcp_task_process import TaskProcess
from mcp_tasks import Play, TaskClient, answer, guarded_options, task_server
from mcp_wire import LEGACY, Client, Served
from tidings import Hub

Start = Callable[[], TaskProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts server processes on one file."""
    running: list[TaskProcess] = []

    def begin() -> TaskProcess:
        process = TaskProcess(tmp_path / "tidings.db")
        running.append(process)
        return process

    yield begin
    for process in running:
        process.close()


def seqs(client: TaskClient, task_id: str, after: Any = ...) -> list[int]:
    events, last = client.events(task_id, after)
    assert "result" in last, last
    return [event["seq"] for event in events]


def test_a_task_whose_server_was_killed_failed_and_its_events_are_there(start: Start) -> None:
    first = start()
    client = TaskClient(first.port)
    created = client.start("work", {"before": 3})
    task_id = created["taskId"]
    first.line()
    answer = client.stream(task_id)
    before = [event.message["params"] for event in answer.take(3)]  # readers see committed events only
    first.kill()
    answer.close()

    client = TaskClient(start().port)
    done = client.finished(task_id)
    assert done["status"] == "failed"
    assert done["error"]["data"] == {"reason": "server_lost"}
    assert done["createdAt"] == created["createdAt"]
    events, last = client.events(task_id)
    assert events[:3] == before
    assert events[3]["payload"] == {"status": "failed", "reason": "server_lost"}
    assert len(events) == 4
    assert "result" in last
    for after in range(4):
        assert seqs(client, task_id, after) == list(range(after + 1, 4))
    error = client.one("tasks/stream", {"taskId": task_id, "after": 4})["error"]
    assert error["data"] == {"reason": "ahead", "headSeq": 3}
    assert client.one("tasks/cancel", {"taskId": task_id})["result"]["resultType"] == "complete"
    assert client.get(task_id)["status"] == "failed"


@pytest.mark.parametrize("seen", [1, 600])
def test_a_server_killed_while_its_task_speaks_loses_nothing_that_was_read(start: Start, seen: int) -> None:
    """Readers are only given what is committed: whatever one has seen is the beginning of what is there afterwards."""
    first = start()
    client = TaskClient(first.port)
    task_id = client.start("work", {"before": 1_000})["taskId"]
    answer = client.stream(task_id)
    before = [event.message["params"] for event in answer.take(seen)]
    first.kill()
    answer.close()

    port = start().port
    client = TaskClient(port)
    done = client.finished(task_id)
    assert (done["status"], done["error"]["data"]) == ("failed", {"reason": "server_lost"})
    events, last = client.events(task_id)
    assert "result" in last
    assert events[:seen] == before
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert [event["payload"].get("n") for event in events[:-1]] == list(range(len(events) - 1))
    assert events[-1]["type"] == "io.tidings.outcome"
    assert events[-1]["payload"] == {"status": "failed", "reason": "server_lost"}
    # From where it stood, from around the end of what was committed, and from beyond; in a session of an older client too.
    head = len(events) - 1
    legacy = Client(port, LEGACY)
    for after in (seen - 1, head - 1, head):
        rest, last = client.events(task_id, after)
        assert rest == events[after + 1 :]
        assert "result" in last
        messages = legacy.request("tasks/stream", {"taskId": task_id, "after": after}).messages()
        told = [message["params"] for message in messages if message.get("method") == "notifications/tasks/event"]
        assert told == rest
        assert messages[-1]["result"] == {}
    for ask in (client.one, lambda *asked: legacy.request(*asked).messages()[-1]):
        error = ask("tasks/stream", {"taskId": task_id, "after": head + 1})["error"]
        assert (error["code"], error["data"]) == (-32602, {"reason": "ahead", "headSeq": head})


def test_a_task_is_told_alike_by_every_later_server(start: Start) -> None:
    first = start()
    client = TaskClient(first.port)
    lost = client.start("work", {"before": 2})["taskId"]
    first.line()
    first.kill()
    told = []
    for _ in range(3):
        server = start()
        client = TaskClient(server.port)
        told.append((client.finished(lost), client.events(lost)))
        server.kill()
    assert told[0] == told[1] == told[2]


def test_a_task_that_had_ended_survives_its_server(start: Start) -> None:
    first = start()
    client = TaskClient(first.port)
    task_id = client.start("work", {"before": 2})["taskId"]
    first.go()
    done = client.finished(task_id)
    events, _ = client.events(task_id)
    first.kill()
    client = TaskClient(start().port)
    assert client.get(task_id) == done
    assert client.events(task_id)[0] == events
    assert seqs(client, task_id, 0) == [1, 2]


def test_another_worker_tells_streams_and_cancels(start: Start) -> None:
    owner, other = start(), start()
    task_id = TaskClient(owner.port).start("work", {"before": 2})["taskId"]
    assert owner.line() == "reached"
    client = TaskClient(other.port)
    assert client.get(task_id)["status"] == "working"
    answer = client.stream(task_id)  # what the owner emitted may not be committed yet: it is waited for
    assert [event.message["params"]["seq"] for event in answer.take(2)] == [0, 1]
    assert client.one("tasks/cancel", {"taskId": task_id})["result"]["resultType"] == "complete"
    assert owner.line() == "cancelled"
    events = [message["params"] for message in answer.messages() if "params" in message]
    assert [(event["seq"], event["payload"]) for event in events] == [(2, {"status": "cancelled"})]
    for asked in (client, TaskClient(owner.port)):
        assert asked.get(task_id)["status"] == "cancelled"


def test_another_worker_tells_what_is_asked_and_takes_the_answers(start: Start) -> None:
    owner, other = start(), start()
    task_id = TaskClient(owner.port).start("ask")["taskId"]
    owner.go()
    client = TaskClient(other.port)
    client.asked(task_id, "name", "colour")
    for key, rest in (("colour", {"name"}), ("name", set())):
        client.update(task_id, {key: answer("me")})
        # What this worker took it does not ask for again, although the owner's process may not have seen it yet.
        assert set(client.get(task_id).get("inputRequests", {})) - {"name#2"} == rest
    client.asked(task_id, "name#2")
    client.update(task_id, {"name#2": answer("yes")})
    assert client.finished(task_id)["status"] == "completed"


def test_a_task_that_asked_fails_with_its_server(start: Start) -> None:
    first = start()
    client = TaskClient(first.port)
    task_id = client.start("ask")["taskId"]
    first.go()
    client.asked(task_id, "name", "colour")
    first.kill()
    client = TaskClient(start().port)
    task = client.finished(task_id)
    assert (task["status"], task["error"]["data"]["reason"]) == ("failed", "server_lost")
    assert "inputRequests" not in task


# -- whose a task is


class Verifier:
    """Takes the token for the subject."""

    async def verify_token(self, token: str) -> AccessToken:
        return AccessToken(token=token, client_id="app", scopes=[], subject=token, claims={"iss": "https://a"})


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


@pytest.fixture
def with_login(hub: Hub, serve: Callable[..., Served]) -> Iterator[tuple[int, Play]]:
    play = Play()
    server = task_server(play, **guarded_options(Verifier()))
    tools = {"work": "always"}
    tidings.mcp.attach(server, hub, tasks=tidings.mcp.Tasks(tools=tools), tasks_stream=True)
    yield serve(server).port, play
    play.gate.open()


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel", "tasks/stream"])
def test_somebody_elses_task_is_as_none(with_login: tuple[int, Play], method: str) -> None:
    port, play = with_login
    alice, bob = (TaskClient(port, headers=bearer(name)) for name in ("alice", "bob"))
    task_id = alice.start("work", {"before": 1})["taskId"]
    play.reached.wait()
    foreign = bob.one(method, {"taskId": task_id, "inputResponses": {}})
    never = bob.one(method, {"taskId": task_id[:-1] + ("0" if task_id[-1] != "0" else "1"), "inputResponses": {}})
    assert foreign["error"] == never["error"]
    assert foreign["error"]["code"] == -32602
    if method == "tasks/stream":
        legacy = Client(port, LEGACY, headers=bearer("bob"))
        assert legacy.request(method, {"taskId": task_id}).messages()[-1]["error"] == never["error"]
        mine = Client(port, LEGACY, headers=bearer("alice")).request(method, {"taskId": task_id})
        assert mine.take(1)[0].message["params"]["seq"] == 0
        mine.close()
    assert alice.get(task_id)["status"] == "working"
    play.gate.open()
    assert alice.finished(task_id)["status"] == "completed"

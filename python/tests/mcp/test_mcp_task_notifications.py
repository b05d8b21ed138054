"""``notifications/tasks``: who named a task in a listener hears its whole state when it changes, in whichever process: it asks
for something, is answered, ends, or its server is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tidings.mcp
from mcp_listen import Listener, until
from mcp_task_process import TaskProcess
from mcp_tasks import DECLARED, Play, TaskClient, answer, task_server
from mcp_wire import Served
from tidings import Hub

TOLD = "notifications/tasks"


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.gate.open()


@pytest.fixture
def client(play: Play, make_hub: Callable[..., Hub], serve: Callable[..., Served]) -> TaskClient:
    server = task_server(play)
    tools = dict.fromkeys(("work", "stubborn", "ask"), "always")
    tidings.mcp.attach(server, make_hub(), tasks=tidings.mcp.Tasks(tools=tools))
    return TaskClient(serve(server).port)


@pytest.fixture
def listen(client: TaskClient) -> Iterator[Callable[..., Listener]]:
    made: list[Listener] = []

    def one(*task_ids: str, id: int | str = 1) -> Listener:
        made.append(Listener(client, {"taskIds": list(task_ids)}, id, **DECLARED))
        return made[-1]

    yield one
    for listener in made:
        listener.answer.close()


def test_the_end_of_a_task_is_told_to_who_named_it(
    client: TaskClient, play: Play, listen: Callable[..., Listener]
) -> None:
    task_id = client.start("work", {"before": 1, "after": 0})["taskId"]
    first = listen(task_id, "no-such-task")
    assert first.honoured == {"taskIds": [task_id]}
    play.gate.open()
    method, told = first.next()
    assert method == TOLD
    task = client.get(task_id)
    assert told["status"] == task["status"] == "completed"
    shared = ("taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "result")
    assert {name: told[name] for name in shared} == {name: task[name] for name in shared}
    # Who comes later is told at once, under an id of its own.
    assert listen(task_id, id="late").next() == (method, told)


def test_a_cancelled_task_is_told(client: TaskClient, listen: Callable[..., Listener]) -> None:
    task_id = client.start("work", {"before": 0, "after": 0})["taskId"]
    listener = listen(task_id)
    assert client.one("tasks/cancel", {"taskId": task_id})["result"]["resultType"] == "complete"
    method, told = listener.next()
    assert (method, told["taskId"], told["status"]) == (TOLD, task_id, "cancelled")


def test_another_process_tells_of_it(
    client: TaskClient, play: Play, make_hub: Callable[..., Hub], serve: Callable[..., Served], tmp_path: Any
) -> None:
    task_id = client.start("work", {"before": 0, "after": 0})["taskId"]
    other = task_server(Play())
    hub = make_hub()
    tidings.mcp.attach(other, hub, tasks="auto")
    listener = Listener(TaskClient(serve(other).port), {"taskIds": [task_id]}, 5, **DECLARED)
    until(lambda: hub.notify("events").skipped == 1)
    play.gate.open()
    method, told = listener.next()
    assert (method, told["taskId"], told["status"]) == (TOLD, task_id, "completed")
    listener.answer.close()


class Told:
    """What a listener hears of one task: each has to be the state that ``tasks/get`` answers, but for when to ask again."""

    def __init__(self, listener: Listener, client: TaskClient, task_id: str) -> None:
        self._listener = listener
        self._client = client
        self._id = task_id

    def next(self, status: str, *asks: str) -> None:
        method, told = self._listener.next()
        assert method == TOLD
        task = self._client.get(self._id)
        del task["pollIntervalMs"], task["resultType"]
        assert told == {name: value for name, value in task.items() if name != "_meta"}
        assert (told["status"], tuple(told.get("inputRequests", ()))) == (status, asks)

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """The states up to the one that is `wanted`."""
        states = [self._listener.next()[1]]
        while not wanted(states[-1]):
            states.append(self._listener.next()[1])
        return states


def test_what_a_task_asks_and_is_answered_is_told(
    client: TaskClient, play: Play, listen: Callable[..., Listener]
) -> None:
    task_id = client.start("ask")["taskId"]
    told = Told(listen(task_id), client, task_id)
    play.gate.open()
    told.next("input_required", "name", "colour")
    # Who comes while it asks is told at once.
    Told(listen(task_id, id="late"), client, task_id).next("input_required", "name", "colour")
    client.update(task_id, {"colour": answer("red"), "other": answer("x")})
    told.next("input_required", "name")
    client.update(task_id, {"other": answer("x")})  # answers nothing, and is not told
    client.update(task_id, {"name": answer("me")})
    # It goes on and asks again: what is told is the newest state, so that one may be left out, or come twice.
    asks = told.until(lambda task: "name#2" in task.get("inputRequests", {}))
    assert {task["status"] for task in asks[:-1]} <= {"working"}
    client.one("tasks/cancel", {"taskId": task_id})
    ends = told.until(lambda task: task["status"] == "cancelled")
    assert all(task == asks[-1] for task in ends[:-1])
    assert "inputRequests" not in ends[-1]


def test_what_a_task_of_another_process_asks_is_told_and_answered_here(
    client: TaskClient, play: Play, make_hub: Callable[..., Hub], serve: Callable[..., Served]
) -> None:
    task_id = client.start("ask")["taskId"]
    other, hub = task_server(Play()), make_hub()
    tidings.mcp.attach(other, hub, tasks="auto")
    there = TaskClient(serve(other).port)
    listener = Listener(there, {"taskIds": [task_id]}, 5, **DECLARED)
    until(lambda: hub.notify("events").skipped == 1)
    told = Told(listener, there, task_id)
    play.gate.open()
    told.next("input_required", "name", "colour")
    there.update(task_id, {"name": answer("me")})
    told.next("input_required", "colour")
    client.update(task_id, {"colour": answer("red")})  # where it runs: told by way of the store
    asks = told.until(lambda task: "name#2" in task.get("inputRequests", {}))
    assert {task["status"] for task in asks[:-1]} <= {"working"}
    there.update(task_id, {"name#2": answer("yes")})
    ends = told.until(lambda task: task["status"] == "completed")
    assert ends[-1]["result"] == client.get(task_id)["result"]
    listener.answer.close()


def test_the_end_of_a_task_that_asked_and_whose_server_was_killed_is_told(
    make_hub: Callable[..., Hub], serve: Callable[..., Served], tmp_path: Path
) -> None:
    owner = TaskProcess(tmp_path / "tidings.db")
    try:
        task_id = TaskClient(owner.port).start("ask")["taskId"]
        server, hub = task_server(Play()), make_hub()
        tidings.mcp.attach(server, hub, tasks="auto")
        client = TaskClient(serve(server).port)
        listener = Listener(client, {"taskIds": [task_id]}, "x", **DECLARED)
        until(lambda: hub.notify("events").skipped == 1)
        told = Told(listener, client, task_id)
        owner.reached()
        owner.go()
        told.next("input_required", "name", "colour")
    finally:
        owner.kill()
    told.next("failed")
    assert client.get(task_id)["error"]["data"] == {"reason": "server_lost"}
    listener.answer.close()

"""``notifications/tasks``: who named a task in a listener hears its whole state when it ends, in whichever process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tidings.mcp
from mcp_listen import Listener, until
from mcp_tasks import DECLARED, Play, TaskClient, task_server
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
    tidings.mcp.attach(server, make_hub(), tasks=tidings.mcp.Tasks(tools={"work": "always", "stubborn": "always"}))
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

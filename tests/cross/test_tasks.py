"""Tasks of a Python process and of a Node.js process on one file: either tells, streams, answers and cancels the other's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mcp_process import Process
from mcp_task_process import TaskProcess
from mcp_tasks import TaskClient, answer


@pytest.fixture(params=["python", "node"])
def owner_and_other(
    request: pytest.FixtureRequest, python_tasks: TaskProcess, start_node: Callable[[], Process]
) -> tuple[Process, Process]:
    """The process whose task it is, and one of the other language."""
    processes = (python_tasks, start_node())
    return processes if request.param == "python" else processes[::-1]


def test_the_other_language_tells_streams_and_answers_a_task(owner_and_other: tuple[Process, Process]) -> None:
    owner, other = owner_and_other
    mine, client = TaskClient(owner.port), TaskClient(other.port)
    task_id = mine.start("work", {"before": 2, "after": 1})["taskId"]
    owner.reached()
    assert client.get(task_id)["status"] == "working"
    live = client.stream(task_id, 0)
    assert live.take(1)[0].message["params"]["payload"] == {"n": 1}
    owner.go()
    done = client.finished(task_id)
    assert (done["status"], done["result"]["content"][0]["text"]) == ("completed", "done")
    live.close()
    events, last = client.events(task_id)
    assert [event["type"] for event in events] == ["com.example.step"] * 3 + ["io.tidings.outcome"]
    assert last["result"]["resultType"] == "complete"
    # Both say the same of it.
    assert {**mine.get(task_id), "_meta": 0} == {**done, "_meta": 0}

    task_id = mine.start("ask")["taskId"]
    client.asked(task_id, "name", "colour")
    client.update(task_id, {"colour": answer("red"), "name": answer("me")})
    (again,) = client.asked(task_id, "name#2")["inputRequests"]
    client.update(task_id, {again: answer("yes")})
    assert client.finished(task_id)["result"]["content"][0]["text"] == "asked"


def test_the_other_language_cancels_a_task_and_finds_one_whose_process_was_killed(
    owner_and_other: tuple[Process, Process],
) -> None:
    owner, other = owner_and_other
    mine, client = TaskClient(owner.port), TaskClient(other.port)
    task_id = mine.start("work")["taskId"]
    owner.reached()
    client.one("tasks/cancel", {"taskId": task_id})
    assert owner.line() == "cancelled"
    assert mine.get(task_id)["status"] == "cancelled"

    task_id = mine.start("work")["taskId"]
    owner.kill()
    task = client.finished(task_id)
    assert (task["status"], task["error"]["data"]) == ("failed", {"reason": "server_lost"})

"""`TaskStore` and `TaskMessageQueue` behind mcp 1.30's own support of tasks (the 2025-11-25 experiment)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import tidings.mcp
from mcp.server.experimental.task_support import TaskSupport
from mcp.server.lowlevel.experimental import ExperimentalHandlers
from mcp.shared.session import BaseSession
from mcp1_tasks import Play, TaskClient, TaskProcess, task_server
from mcp_wire import WAIT, Served
from tidings import Hub
from tidings.mcp import _transports
from tidings.mcp._task_ids1 import call_id_of, scope_of, task_id_of

RELATED = "io.modelcontextprotocol/related-task"


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.gate.open()


@pytest.fixture
def port(play: Play, hub: Hub, serve: Callable[..., Served]) -> int:
    """A server without a login."""
    return serve(task_server(play, hub)).port


@pytest.fixture
def guarded(play: Play, hub: Hub, serve: Callable[..., Served]) -> int:
    """A server with a login."""
    return serve(task_server(play, hub, login=True)).port


def text_of(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


def test_a_task_from_its_beginning_to_its_result(play: Play, port: int) -> None:
    client = TaskClient(port)
    task = client.start("work", ttl=60_000)
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 60_000, 500)
    play.reached.wait()
    working = client.get(task["taskId"])
    assert (working["status"], working["statusMessage"]) == ("working", "on its way")
    assert working["createdAt"] == task["createdAt"] <= working["lastUpdatedAt"]
    waiting = client.result(task["taskId"])  # its headers are there, the result is not
    play.gate.open()
    result = waiting.messages()[-1]["result"]
    assert text_of(result) == "done"
    assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
    done = client.get(task["taskId"])
    assert (done["status"], done["statusMessage"]) == ("completed", "on its way")
    assert text_of(client.result(task["taskId"]).messages()[-1]["result"]) == "done"


def test_a_client_may_ask_for_less_time_but_not_for_more(play: Play, hub: Hub, serve: Callable[..., Served]) -> None:
    client = TaskClient(serve(task_server(play, hub, ttl=600.0)).port)
    assert [client.start("work", ttl=ttl)["ttl"] for ttl in (None, 1_000, 10**9)] == [600_000, 1_000, 600_000]


@pytest.mark.parametrize(
    ("tool", "message", "answer"),
    [
        ("says_error", "on its way", lambda answer: text_of(answer["result"]) == "done"),
        ("fails", "it broke", lambda answer: answer["error"]["message"] == "it broke"),
    ],
)
def test_failed_is_failed(play: Play, port: int, tool: str, message: str, answer: Callable[[Any], bool]) -> None:
    client = TaskClient(port)
    task_id = client.start(tool)["taskId"]
    play.gate.open()
    task = client.until(task_id, "completed", "failed")
    assert (task["status"], task["statusMessage"]) == ("failed", message)
    assert answer(client.result(task_id).messages()[-1])


def test_cancelled_is_final_whatever_the_work_does(play: Play, port: int) -> None:
    client = TaskClient(port)
    task_id = client.start("work")["taskId"]
    play.reached.wait()
    assert client.one("tasks/cancel", {"taskId": task_id})["result"]["status"] == "cancelled"
    play.gate.open()
    play.over.wait()
    assert client.get(task_id)["status"] == "cancelled"
    assert client.one("tasks/cancel", {"taskId": task_id})["error"]["code"] == -32602
    # What the work said too late ended nothing but itself: the session goes on (with the SDK's own store it does not).
    assert client.start("work")["status"] == "working"


def test_what_a_task_asks_is_answered(play: Play, port: int) -> None:
    client = TaskClient(port)
    task_id = client.start("asks")["taskId"]
    client.until(task_id, "input_required")
    result = client.result(task_id)
    [asked] = result.take(1)
    assert asked.message["method"] == "elicitation/create"
    assert asked.message["params"]["_meta"][RELATED] == {"taskId": task_id}
    reply = {"action": "accept", "content": {"name": "me"}}
    client.post({"jsonrpc": "2.0", "id": asked.message["id"], "result": reply}).messages()
    assert text_of(result.messages()[-1]["result"]) == "Hello, me"
    assert play.answers == [{"name": "me"}]


def test_a_task_that_asks_and_is_cancelled_waits_no_longer(play: Play, port: int) -> None:
    client = TaskClient(port)
    task_id = client.start("asks")["taskId"]
    client.until(task_id, "input_required")
    client.one("tasks/cancel", {"taskId": task_id})
    play.over.wait()
    assert client.get(task_id)["status"] == "cancelled"
    assert client.start("work")["status"] == "working"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_another_session_has_no_part_in_it(play: Play, port: int, method: str) -> None:
    mine, other = TaskClient(port), TaskClient(port)
    task_id = mine.start("work")["taskId"]
    foreign = other.one(method, {"taskId": task_id})["error"]
    assert foreign == {"code": -32602, "message": f"Task not found: {task_id}"}
    # Nor has one who knows the session's mark: the task is the session's, not the id's.
    theirs = other.start("work")["taskId"]
    forged = f"{scope_of(theirs)}:{task_id.partition(':')[2]}"
    assert other.one(method, {"taskId": forged})["error"]["message"] == f"Task not found: {forged}"
    assert mine.get(task_id)["status"] == "working"


def test_a_session_starts_tasks_whichever_other_has_ended(play: Play, port: int) -> None:
    """The SDK alone cannot: it keeps one task group for all sessions, and none once one has ended."""
    sessions = [TaskClient(port) for _ in range(3)]
    for ended in (2, 0):
        sessions[ended].delete().close()
    task_id = sessions[1].start("work")["taskId"]
    play.gate.open()
    assert sessions[1].until(task_id, "completed", "failed")["status"] == "completed"


def listed(client: TaskClient) -> list[str]:
    """The ids of all pages."""
    ids: list[str] = []
    params: dict[str, Any] = {}
    while True:
        page = client.one("tasks/list", params)["result"]
        ids += [task["taskId"] for task in page["tasks"]]
        if "nextCursor" not in page:
            return ids
        params = {"cursor": page["nextCursor"]}


def test_a_session_lists_its_own(port: int) -> None:
    mine, other = TaskClient(port), TaskClient(port)
    ids = [mine.start("work")["taskId"] for _ in range(60)]  # more than a page
    other.start("work")
    assert listed(mine) == ids
    assert other.one("tasks/list", {"cursor": "x"})["error"] == {"code": -32602, "message": "Invalid cursor: x"}


def test_a_principal_has_at_most_so_many(play: Play, hub: Hub, serve: Callable[..., Served]) -> None:
    client = TaskClient(serve(task_server(play, hub, max_running=1)).port)
    task_id = client.start("work")["taskId"]
    refused = client.one("tools/call", {"name": "work", "arguments": {}, "task": {}})["result"]
    assert (refused["isError"], text_of(refused)) == (True, "Too many tasks at work: at most 1")
    play.gate.open()
    client.until(task_id, "completed")
    end = time.monotonic() + WAIT
    while client.one("tools/call", {"name": "work", "arguments": {}, "task": {}})["result"].get("isError"):
        assert time.monotonic() < end, "the task's place does not become free"


def test_a_task_goes_when_its_time_is_over(play: Play, port: int) -> None:
    client = TaskClient(port)
    task_id = client.start("work", ttl=1)["taskId"]
    assert client.get(task_id)["status"] == "working"  # not before its end
    play.gate.open()
    end = time.monotonic() + WAIT
    while "result" in (answer := client.one("tasks/get", {"taskId": task_id})):
        assert time.monotonic() < end, f"the task stays: {answer}"
    assert answer["error"]["message"] == f"Task not found: {task_id}"


def test_a_principal_has_their_tasks_in_every_session(play: Play, guarded: int) -> None:
    task_id = TaskClient(guarded, "alice").start("work")["taskId"]
    again, bob = TaskClient(guarded, "alice"), TaskClient(guarded, "bob")
    assert again.get(task_id)["status"] == "working"
    assert bob.one("tasks/get", {"taskId": task_id})["error"]["message"] == f"Task not found: {task_id}"
    assert again.one("tasks/cancel", {"taskId": task_id})["result"]["status"] == "cancelled"


def test_a_principal_lists_their_tasks_of_every_session(guarded: int) -> None:
    """The SDK's own handler shows a session only what it began itself."""
    ids = [TaskClient(guarded, "alice").start("work")["taskId"] for _ in range(3)]
    TaskClient(guarded, "bob").start("work")
    client = TaskClient(guarded, "alice")
    assert listed(client) == ids
    assert [client.get(task_id)["taskId"] for task_id in ids] == ids


def test_a_task_outlives_its_session(play: Play, guarded: int) -> None:
    client = TaskClient(guarded, "alice")
    task_id = client.start("work")["taskId"]
    play.reached.wait()
    client.delete().close()
    again = TaskClient(guarded, "alice")
    assert again.get(task_id)["status"] == "working"
    play.gate.open()
    assert again.until(task_id, "completed", "failed")["status"] == "completed"


def test_a_server_that_stops_fails_its_tasks(
    play: Play, make_hub: Callable[..., Hub], serve: Callable[..., Served]
) -> None:
    first = serve(task_server(play, make_hub(), login=True))
    task_id = TaskClient(first.port, "alice").start("work")["taskId"]
    play.reached.wait()
    first.stop()
    task = TaskClient(serve(task_server(Play(), make_hub(), login=True)).port, "alice").get(task_id)
    assert (task["status"], task["statusMessage"]) == ("failed", "on its way")


# -- other processes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], TaskProcess]]:
    running: list[TaskProcess] = []

    def begin() -> TaskProcess:
        running.append(TaskProcess(tmp_path / "tidings.db"))
        return running[-1]

    yield begin
    for process in running:
        process.close()


def test_a_task_whose_server_was_killed_failed(start: Callable[[], TaskProcess]) -> None:
    first = start()
    client = TaskClient(first.port, "alice")
    lost = client.start("work")
    first.reached()
    first.kill()
    client = TaskClient(start().port, "alice")
    task = client.until(lost["taskId"], "failed")
    assert task["createdAt"] == lost["createdAt"]
    assert client.result(lost["taskId"]).messages()[-1]["error"]["data"] == {"reason": "server_lost"}


def test_a_result_survives_its_server(start: Callable[[], TaskProcess]) -> None:
    first = start()
    client = TaskClient(first.port, "alice")
    task_id = client.start("work")["taskId"]
    first.go()
    done = client.until(task_id, "completed")
    first.kill()
    client = TaskClient(start().port, "alice")
    assert client.get(task_id) == done
    assert text_of(client.result(task_id).messages()[-1]["result"]) == "done"


def test_another_worker_tells_waits_and_cancels(start: Callable[[], TaskProcess]) -> None:
    owner, other = start(), start()
    task_id = TaskClient(owner.port, "alice").start("work")["taskId"]
    owner.reached()
    client = TaskClient(other.port, "alice")
    assert client.get(task_id)["statusMessage"] == "on its way"
    waiting = client.result(task_id)
    assert client.one("tasks/cancel", {"taskId": task_id})["result"]["status"] == "cancelled"
    assert waiting.messages()[-1]["result"]["_meta"][RELATED] == {"taskId": task_id}
    assert TaskClient(owner.port, "alice").get(task_id)["status"] == "cancelled"


def test_what_a_task_asks_is_answered_at_another_worker(start: Callable[[], TaskProcess]) -> None:
    owner, other = start(), start()
    task_id = TaskClient(owner.port, "alice").start("asks")["taskId"]
    client = TaskClient(other.port, "alice")
    result = client.result(task_id)  # before or after it asks
    [asked] = result.take(1)
    reply = {"action": "accept", "content": {"name": "me"}}
    client.post({"jsonrpc": "2.0", "id": asked.message["id"], "result": reply}).messages()
    assert text_of(result.messages()[-1]["result"]) == "Hello, me"


# -- names, ids and terms


def test_every_private_name_is_there() -> None:
    assert _transports.assigns(BaseSession, "_exit_stack")
    assert {"store", "_task_group"} <= {field.name for field in dataclasses.fields(TaskSupport)}
    assert _transports.assigns(ExperimentalHandlers, "_request_handlers")


def test_ids_are_the_calls_in_the_sdks_spelling() -> None:
    # Crockford's base32 of 128 bits: 1 is the last digit, 2**125 the first alone, all ones 7 and 25 times z.
    for bits, digits in ((1, "0" * 25 + "1"), (2**125, "1" + "0" * 25), (2**128 - 1, "7" + "z" * 25)):
        call_id = "call_" + digits
        assert task_id_of(call_id, None) == str(UUID(int=bits))
        for scope in (None, "0123456789abcdef" * 2):
            assert call_id_of(task_id_of(call_id, scope)) == call_id
            assert scope_of(task_id_of(call_id, scope)) == scope
    for text in ("", "x", str(UUID(int=1)).upper() + "A", str(UUID(int=1)) + "\n", "1:" + str(UUID(int=1))):
        assert (call_id_of(text), scope_of(text)) == (None, None)


@pytest.mark.parametrize("options", [{"ttl": 0}, {"poll": float("nan")}, {"ttl": True}, {"max_running": 0}])
def test_bad_terms_are_named(hub: Hub, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        tidings.mcp.TaskStore(hub, **options)

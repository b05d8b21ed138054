"""The Tasks extension (SEP-2663) as it is on the wire."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import tidings.mcp
from mcp_stage import RAISES_PROTOCOL_ERRORS
from mcp_tasks import TASKS, Play, TaskClient, answer, task_server
from mcp_types import RequestParams
from mcp_wire import LEGACY, Client, Receiver, Served
from tidings import Hub
from tidings.mcp import Tasks, _compat

AT_ONCE = Tasks(inline=0.05)
QUICK = Tasks(inline=60.0)
"""For calls that are over soon, which on a busy machine may be later than the two seconds of "auto"."""
ALWAYS = Tasks(tools=dict.fromkeys(("work", "progress", "stubborn", "broken", "refused", "ask"), "always"))


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.gate.open()


@pytest.fixture
def attached(play: Play, hub: Hub, serve: Callable[..., Served]) -> Callable[..., TaskClient]:
    """A client of a new server with tasks."""

    def start(tasks: Any = ALWAYS, *, app: dict[str, Any] | None = None, **options: Any) -> TaskClient:
        server = task_server(play)
        tidings.mcp.attach(server, hub, tasks=tasks, **options)
        return TaskClient(serve(server, **(app or {})).port)

    return start


def text_of(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


@pytest.mark.parametrize("tasks", [ALWAYS, AT_ONCE], ids=["always", "after a while"])
def test_a_long_call_becomes_a_task(play: Play, attached: Callable[..., TaskClient], tasks: Tasks) -> None:
    client = attached(tasks)
    created = client.start("work")
    assert created["status"] == "working"
    assert created["ttlMs"] == 3_600_000
    assert created["pollIntervalMs"] == 1000
    assert datetime.fromisoformat(created["createdAt"].replace("Z", "+00:00")).tzinfo is not None
    assert created["lastUpdatedAt"] == created["createdAt"]
    assert "io.modelcontextprotocol/serverInfo" in created["_meta"]
    task_id = created["taskId"]
    # What `tasks/get` says of it is the same, but for what makes the results differ.
    working = client.get(task_id)
    assert working.pop("resultType") == "complete"
    assert {**working, "_meta": 0} == {**{k: v for k, v in created.items() if k != "resultType"}, "_meta": 0}
    play.gate.open()
    done = client.finished(task_id)
    assert done["status"] == "completed"
    assert text_of(done["result"]) == "done"
    assert "error" not in done
    assert done["createdAt"] == created["createdAt"]
    assert done["lastUpdatedAt"] >= created["createdAt"]
    assert done["ttlMs"] >= 3_600_000  # from its creation; it is kept for an hour from its end
    assert "io.modelcontextprotocol/related-task" not in done["result"].get("_meta", {})


def test_a_short_call_is_answered_as_ever(attached: Callable[..., TaskClient], hub: Hub) -> None:
    client = attached(QUICK)
    result = client.one("tools/call", {"name": "quick", "arguments": {}})["result"]
    assert (result["resultType"], text_of(result)) == ("complete", "at once")
    assert hub.stats().events == 0, "it cost the store nothing"


def test_never_is_never(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(Tasks(inline=0.01, tools={"work": "never"}))
    answer: list[Any] = []
    asking = threading.Thread(target=lambda: answer.append(client.one("tools/call", {"name": "work", "arguments": {}})))
    asking.start()
    play.reached.wait()
    play.gate.open()
    asking.join()
    assert answer[0]["result"]["resultType"] == "complete"


def test_only_a_request_that_declares_the_extension_gets_a_task(
    play: Play, attached: Callable[..., TaskClient]
) -> None:
    client = attached(ALWAYS)
    play.gate.open()
    for other in (TaskClient(client.port, declares=False), Client(client.port, LEGACY)):
        message = other.call("work").messages()[-1]
        assert text_of(message["result"]) == "done"
        assert message["result"].get("resultType", "complete") == "complete"


def test_the_extension_is_told_of_in_discover_only(attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS, routes=["webhook"])
    extensions = client.one("server/discover", {})["result"]["capabilities"]["extensions"]
    assert extensions[TASKS] == {}
    legacy = Client(client.port, LEGACY).initialized["result"]["capabilities"]
    assert TASKS not in legacy.get("extensions", {})
    assert "tasks" not in legacy


@pytest.mark.parametrize(
    ("tool", "status", "member"), [("broken", "completed", "result"), ("refused", "failed", "error")]
)
def test_an_error_result_completes_and_a_json_rpc_error_fails(
    play: Play, attached: Callable[..., TaskClient], tool: str, status: str, member: str
) -> None:
    client = attached(ALWAYS)
    task_id = client.start(tool)["taskId"]
    play.gate.open()
    if not RAISES_PROTOCOL_ERRORS:
        status, member = "completed", "result"  # FastMCP makes a result of everything that a tool raises
    done = client.finished(task_id)
    assert done["status"] == status
    assert {"result", "error"} & set(done) == {member}
    if member == "result":
        assert done["result"]["isError"] is True
    else:
        assert done["error"] == {"code": 4711, "message": "not today", "data": {"why": "because"}}


@pytest.mark.parametrize("tool", ["work", "stubborn"])
def test_cancel_is_final_whatever_the_tool_does(play: Play, attached: Callable[..., TaskClient], tool: str) -> None:
    client = attached(ALWAYS)
    task_id = client.start(tool)["taskId"]
    play.reached.wait()
    answer = client.one("tasks/cancel", {"taskId": task_id})["result"]
    assert {key: value for key, value in answer.items() if key != "_meta"} == {"resultType": "complete"}
    assert client.get(task_id)["status"] == "cancelled"
    play.cancelled.wait()
    play.gate.open()
    again = client.one("tasks/cancel", {"taskId": task_id})["result"]
    assert again["resultType"] == "complete", "the same empty acknowledgement of a task that has ended"
    assert client.get(task_id)["status"] == "cancelled"


def test_the_first_end_wins_and_events_agree_with_it(play: Play, attached: Callable[..., TaskClient]) -> None:
    """Field report B36: completion and cancel at once, many times over; one end each, the same wherever one looks."""
    client = attached(ALWAYS, tasks_stream=True)
    seen = set()
    for _ in range(30):
        play.gate, play.reached, play.cancelled = type(play.gate)(), type(play.gate)(), type(play.gate)()
        task_id = client.start("work")["taskId"]
        play.reached.wait()
        both = threading.Barrier(2)

        def cancel(task_id: str = task_id, both: threading.Barrier = both) -> None:
            both.wait()
            client.one("tasks/cancel", {"taskId": task_id})

        cancelling = threading.Thread(target=cancel)
        cancelling.start()
        both.wait()
        play.gate.open()
        cancelling.join()
        status = client.finished(task_id)["status"]
        events, _ = client.events(task_id)
        outcomes = [event["payload"]["status"] for event in events if event["type"] == "io.tidings.outcome"]
        assert outcomes == [status]
        assert client.get(task_id)["status"] == status
        seen.add(status)
    assert seen <= {"completed", "cancelled"}


def test_update_with_nothing_outstanding_is_acknowledged(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS)
    task_id = client.start("work")["taskId"]
    answer = client.one("tasks/update", {"taskId": task_id, "inputResponses": {"none": {}}})
    assert answer["result"]["resultType"] == "complete"
    assert client.one("tasks/update", {"taskId": task_id})["error"]["code"] == -32602
    assert client.get(task_id)["status"] == "working"


def test_a_task_asks_and_is_answered(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS, tasks_stream=True)
    task_id = client.start("ask")["taskId"]
    play.gate.open()
    task = client.asked(task_id, "name", "colour")
    assert task["status"] == "input_required"
    assert task["inputRequests"]["name"]["method"] == "elicitation/create"
    assert task["inputRequests"]["name"]["params"]["message"] == "Who?"
    # Some of it, with something that nobody asked for: the rest stays outstanding.
    assert client.update(task_id, {"colour": answer("red"), "other": answer("x")})["result"]["resultType"] == "complete"
    # Gone from what is asked for as soon as it is acknowledged, whether or not the tool's side has taken it.
    partly = client.get(task_id)
    assert (partly["status"], set(partly["inputRequests"])) == ("input_required", {"name"})
    # An answer that is none is told to who sent it, and changes nothing.
    assert client.update(task_id, {"name": {"action": "perhaps"}})["error"]["code"] == -32602
    client.update(task_id, {"name": answer("me"), "colour": answer("blue")})
    # The tool asks under the same key again; on the wire no key comes twice.
    assert client.asked(task_id, "name#2")["inputRequests"]["name#2"]["params"]["message"] == "Sure?"
    client.update(task_id, {"name": answer("late"), "name#2": answer("yes")})
    done = client.finished(task_id)
    assert (done["status"], text_of(done["result"])) == ("completed", "asked")
    assert "inputRequests" not in done
    assert play.rounds == [
        (0, {}),
        (1, {"colour": {"value": "red"}, "name": {"value": "me"}}),
        (2, {"name": {"value": "yes"}}),
    ]
    events, _ = client.events(task_id)
    asked = [event["payload"] for event in events if event["type"] == "io.tidings.input_required"]
    assert asked == [{"inputRequests": ["name", "colour"]}, {"inputRequests": ["name#2"]}]


def test_a_task_that_waits_for_an_answer_can_be_cancelled(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS)
    task_id = client.start("ask")["taskId"]
    play.gate.open()
    client.asked(task_id, "name", "colour")
    client.one("tasks/cancel", {"taskId": task_id})
    task = client.get(task_id)
    assert task["status"] == "cancelled"
    assert "inputRequests" not in task
    assert client.update(task_id, {"name": answer("me")})["result"]["resultType"] == "complete"
    assert len(play.rounds) == 1


def test_a_call_that_is_no_task_asks_its_client_as_ever(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(QUICK)
    play.gate.open()
    result = client.one("tools/call", {"name": "ask", "arguments": {}})["result"]
    assert result["resultType"] == "input_required"
    assert set(result["inputRequests"]) == {"name", "colour"}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel", "tasks/stream"])
def test_who_may_ask(play: Play, attached: Callable[..., TaskClient], method: str) -> None:
    client = attached(ALWAYS, tasks_stream=True)
    task_id = client.start("work")["taskId"]
    more = {"inputResponses": {}} if method == "tasks/update" else {}
    undeclared = TaskClient(client.port, declares=False).request(method, {"taskId": task_id, **more})
    assert undeclared.status == 400
    error = undeclared.messages()[-1]["error"]
    assert error["code"] == -32021
    assert error["data"]["requiredCapabilities"]["extensions"] == {TASKS: {}}
    # One that never was, and what is no id of ours.
    unlike = task_id[:-1] + ("0" if task_id[-1] != "0" else "1")
    errors = [client.one(method, {"taskId": other, **more})["error"] for other in (unlike, "", "x", task_id.upper())]
    assert [error["code"] for error in errors] == [-32602] * 4
    assert all(error == errors[0] for error in errors)
    assert client.one(method, {"taskId": 7, **more})["error"]["code"] == -32602
    assert client.one(method, more)["error"]["code"] == -32602


def test_a_header_that_does_not_name_the_task_is_refused(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS, tasks_stream=True)
    task_id = client.start("work")["taskId"]
    for method in ("tasks/get", "tasks/update", "tasks/cancel", "tasks/stream"):
        params = {"taskId": task_id, "inputResponses": {}}
        for name in (None, "other", "=?base64?x?="):
            if name is None and method == "tasks/stream":
                continue  # a draft that says nothing of it
            answer = client.ask(method, params, mcp_name=name)
            assert answer.status == 400
            assert answer.messages()[-1]["error"]["code"] == -32020
    encoded = "=?base64?" + base64.b64encode(task_id.encode()).decode() + "?="
    answer = client.ask("tasks/get", {"taskId": task_id}, mcp_name=encoded)
    assert answer.messages()[-1]["result"]["status"] == "working"


def test_a_tool_may_require_the_extension(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(Tasks(inline=0.05, tools={"work": "required"}))
    refused = TaskClient(client.port, declares=False).call("work")
    assert refused.status == 400
    assert refused.messages()[-1]["error"]["code"] == -32021
    assert client.start("work")["status"] == "working"
    play.gate.open()
    assert text_of(Client(client.port, LEGACY).call("work").messages()[-1]["result"]) == "done"


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
def test_methods_of_the_older_experiment_are_not_there(attached: Callable[..., TaskClient], method: str) -> None:
    assert attached(ALWAYS).one(method, {"taskId": "x"})["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_to_an_older_client_the_extension_does_not_exist(
    play: Play, attached: Callable[..., TaskClient], method: str
) -> None:
    client = attached(ALWAYS)
    task_id = client.start("work")["taskId"]
    answer = Client(client.port, LEGACY).request(method, {"taskId": task_id, "inputResponses": {}}).messages()[-1]
    assert answer["error"]["code"] == -32601


def test_a_task_outlives_its_time_by_nothing(play: Play, attached: Callable[..., TaskClient]) -> None:
    """Field reports B37 and B38: the time begins with the end, and once it is over every method says so."""
    # Longer than a busy machine may take between the end of the one and the question for it.
    client = attached(Tasks(ttl=2.0, tools=ALWAYS.tools), tasks_stream=True)
    long, short = client.start("work")["taskId"], client.start("stubborn")["taskId"]
    client.one("tasks/cancel", {"taskId": short})
    while "error" not in client.one("tasks/get", {"taskId": short}):
        pass
    errors = [
        client.one(method, {"taskId": short, "inputResponses": {}})["error"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel", "tasks/stream")
    ]
    assert [error["code"] for error in errors] == [-32602] * 4
    # Older than its ttl by now, and there: it runs.
    assert client.get(long)["status"] == "working"
    play.gate.open()
    assert client.finished(long)["status"] == "completed"


def test_a_task_with_a_webhook(play: Play, receiver: Receiver, attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS, routes=["webhook"])
    created = client.start("work", notificationConfig=receiver.config("completed", "failed"))
    task_id = created["taskId"]
    acknowledged = created["_meta"]["io.tidings/acknowledged"]
    assert acknowledged["acceptedRoutes"] == ["primary"]
    assert acknowledged["callId"] == task_id
    play.gate.open()
    data = receiver.next()["data"]
    assert (data["taskId"], data["taskStatus"]) == (task_id, "completed")
    done = client.finished(task_id)
    assert data["outcome"]["result"] == done["result"]


def test_a_webhook_tells_a_tasks_status_beside_the_outcome(
    play: Play, receiver: Receiver, attached: Callable[..., TaskClient]
) -> None:
    client = attached(ALWAYS, routes=["webhook"])
    client.start("broken", notificationConfig=receiver.config("completed", "failed"))
    play.gate.open()
    data = receiver.next()["data"]
    assert (data["trigger"], data["outcome"]["status"], data["taskStatus"]) == ("failed", "failed", "completed")


def test_a_call_with_a_webhook_that_is_quick_is_no_task(
    receiver: Receiver, attached: Callable[..., TaskClient]
) -> None:
    client = attached(QUICK, routes=["webhook"])
    answer = client.one(
        "tools/call", {"name": "quick", "arguments": {}, "notificationConfig": receiver.config("completed")}
    )
    call_id = answer["result"]["_meta"]["io.tidings/acknowledged"]["callId"]
    assert "taskId" not in receiver.next()["data"]
    assert client.one("tasks/get", {"taskId": call_id})["error"]["code"] == -32602


def test_a_timeout_fails_the_task(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS, timeout=0.2)
    done = client.finished(client.start("work")["taskId"])
    assert done["status"] == "failed"
    assert done["error"]["data"]["reason"] == "timeout"
    stopped(play)


def test_a_timeout_shorter_than_the_wait_is_an_error(play: Play, attached: Callable[..., TaskClient]) -> None:
    client = attached("auto", timeout=0.1)
    error = client.one("tools/call", {"name": "work", "arguments": {}})["error"]
    assert error["data"] == {"reason": "timeout", "timeoutMs": 100}
    stopped(play)


def stopped(play: Play) -> None:
    """After the end of a call that took too long: its tool was stopped, if the machine had let it begin in that time."""
    if play.reached.is_open:
        play.cancelled.wait()


def test_a_client_that_leaves_before_there_is_a_task_cancels_its_call(
    play: Play, attached: Callable[..., TaskClient], hub: Hub
) -> None:
    client = attached(Tasks(inline=60))
    answer = client.ask("tools/call", {"name": "progress", "arguments": {}}, progressToken="t")
    assert answer.take(1)[0].message["method"] == "notifications/progress"
    answer.cut()
    play.cancelled.wait()
    assert hub.stats().events == 0


def test_a_client_with_too_many_tasks_waits_for_the_next_result(
    play: Play, attached: Callable[..., TaskClient]
) -> None:
    client = attached(ALWAYS, max_detached=1)
    client.start("work")
    answer = client.ask("tools/call", {"name": "progress", "arguments": {}}, progressToken="t")
    assert answer.take(1)[0].message["method"] == "notifications/progress"  # it runs
    play.gate.open()
    assert text_of(answer.messages()[-1]["result"]) == "done"


def test_a_server_that_stops_fails_its_tasks(
    play: Play, hub: Hub, make_hub: Callable[..., Hub], serve: Callable[..., Served]
) -> None:
    server = task_server(play)
    tidings.mcp.attach(server, hub, tasks=ALWAYS)
    served = serve(server)
    task_id = TaskClient(served.port).start("work")["taskId"]
    served.stop()
    asyncio.run(hub.close())
    other = task_server(play)
    tidings.mcp.attach(other, make_hub(), tasks=ALWAYS)
    done = TaskClient(serve(other).port).get(task_id)
    assert (done["status"], done["error"]["data"]) == ("failed", {"reason": "shutdown"})


def test_a_ttl_that_the_hub_would_not_keep_is_logged_and_the_call_goes_on(
    play: Play, attached: Callable[..., TaskClient]
) -> None:
    client = attached(Tasks(ttl=3601, tools={"work": "always"}))
    play.gate.open()
    assert text_of(client.one("tools/call", {"name": "work", "arguments": {}})["result"]) == "done"


def test_without_a_store_calls_are_plain_calls(play: Play, serve: Callable[..., Served], tmp_path: Path) -> None:
    server = task_server(play)
    tidings.mcp.attach(server, Hub(f"sqlite:{tmp_path}/none/tidings.db"), tasks=ALWAYS, tasks_stream=True)
    client = TaskClient(serve(server).port)
    play.gate.open()
    assert text_of(client.one("tools/call", {"name": "work", "arguments": {"before": 2}})["result"]) == "done"
    for method in ("tasks/get", "tasks/cancel", "tasks/stream"):
        error = client.one(method, {"taskId": "call_00000000000000000000000000"})["error"]
        assert (error["code"], error["data"]) == (-32603, {"reason": "unavailable", "retryable": True})


@pytest.mark.parametrize("type", ["content.partial", "message", "io.tidings.progress", "com.example"])
def test_a_tool_cannot_emit_reserved_types(attached: Callable[..., TaskClient], type: str) -> None:
    client = attached(QUICK)
    result = client.one("tools/call", {"name": "emits", "arguments": {"type": type}})["result"]
    assert text_of(result).startswith("refused: type:")


def test_a_tool_emits_nothing_too_large(attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS)
    room = 256 * 1024 - len('{"x":""}')
    for bytes, said in ((room, "emitted"), (room + 1, "refused: payload: must have at most 262144 bytes")):
        text = text_of(client.one("tools/call", {"name": "large", "arguments": {"bytes": bytes}})["result"])
        assert text.startswith(said)


def test_a_tool_may_emit_also_where_nobody_listens(attached: Callable[..., TaskClient]) -> None:
    client = attached(ALWAYS)
    for other in (client, TaskClient(client.port, declares=False), Client(client.port, LEGACY)):
        result = other.call("emits", {"type": "com.example.x"}).messages()[-1]["result"]
        assert text_of(result) == "emitted"


def test_what_attach_refuses(hub: Hub, play: Play) -> None:
    with pytest.raises(ValueError, match="tasks must be"):
        tidings.mcp.attach(task_server(play), hub, tasks="always")
    with pytest.raises(ValueError, match="tasks_stream needs tasks"):
        tidings.mcp.attach(task_server(play), hub, tasks_stream=True)
    for wrong in (
        {"inline": 0},
        {"ttl": float("inf")},
        {"poll": "1"},
        {"tools": {"work": "sometimes"}},
        {"streams": 0},
        {"resumes": True},
    ):
        with pytest.raises(ValueError, match="must be"):
            Tasks(**wrong)


def test_a_server_keeps_tasks_of_its_own(
    play: Play, hub: Hub, serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    taken = task_server(play)
    low_level = _compat.low_level(taken)
    assert low_level is not None

    async def theirs(ctx: Any, params: Any) -> dict[str, Any]:
        return {"theirs": ctx.method}

    low_level.add_request_handler("tasks/get", RequestParams, theirs)
    # Terms of one's own that would have no effect are a mistake; "auto" makes room.
    with pytest.raises(RuntimeError, match=r"has tasks already \(tasks/get\)"):
        tidings.mcp.attach(taken, hub, tasks=Tasks())
    attachment = tidings.mcp.attach(taken, hub, tasks="auto", tasks_stream=True, routes=["webhook"])
    assert not attachment.tasks
    assert "has tasks already (tasks/get): they stay its own" in caplog.text
    client = TaskClient(serve(taken).port)
    assert client.one("tasks/get", {"taskId": "x"})["result"]["theirs"] == "tasks/get"
    for method in ("tasks/update", "tasks/stream"):
        assert client.one(method, {"taskId": "x"})["error"]["code"] == -32601
    play.gate.open()
    assert text_of(client.one("tools/call", {"name": "work", "arguments": {}})["result"]) == "done"

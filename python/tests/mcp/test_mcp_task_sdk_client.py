"""A task with the SDK's own client, by its interface for extensions: it starts the task, hears of it and answers, never polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import anyio
import pytest
import tidings.mcp
from mcp import Client
from mcp.client.extension import ClientExtension, NotificationBinding, ResultClaim
from mcp_tasks import TASKS, Play, answer, task_server
from mcp_types import (
    EmptyResult,
    Request,
    RequestParams,
    Result,
    SubscriptionFilter,
    SubscriptionsListenRequest,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from mcp_wire import MODERN, WAIT, Served
from pydantic import BaseModel, ConfigDict
from tidings import Hub


class _Created(Result):
    """SEP-2663's CreateTaskResult."""

    model_config = ConfigDict(extra="allow")

    result_type: Literal["task"] = "task"
    task_id: str


class _Task(BaseModel):
    """SEP-2663's parameters of ``notifications/tasks``."""

    model_config = ConfigDict(extra="allow")

    taskId: str
    status: str
    inputRequests: dict[str, Any] = {}


class _UpdateParams(RequestParams):
    taskId: str
    inputResponses: dict[str, Any]


class _Update(Request[_UpdateParams, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams


class _Tasks(ClientExtension):
    identifier = TASKS

    def __init__(self) -> None:
        self.told: asyncio.Queue[_Task] = asyncio.Queue()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        async def resolve(created: _Created, _: Any) -> Any:
            raise AssertionError("the test asks for the task itself")

        return [ResultClaim(result_type="task", model=_Created, resolve=resolve)]

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return [NotificationBinding(method="notifications/tasks", params_type=_Task, handler=self.told.put)]


async def _until(told: asyncio.Queue[_Task], wanted: Callable[[_Task], bool]) -> _Task:
    while not wanted(task := await told.get()):
        pass
    return task


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_client_that_never_polls_answers_and_gets_the_result(
    elsewhere: bool, make_hub: Callable[..., Hub], serve: Callable[..., Served]
) -> None:
    play = Play()
    server = task_server(play)
    tidings.mcp.attach(server, make_hub(), tasks=tidings.mcp.Tasks(tools={"ask": "always"}))
    port = serve(server).port
    other = port
    if elsewhere:
        second = task_server(Play())
        tidings.mcp.attach(second, make_hub(), tasks="auto")
        other = serve(second).port
    tasks, listens = _Tasks(), _Tasks()
    starts = Client(f"http://127.0.0.1:{port}/mcp", mode=MODERN, extensions=[tasks])
    hears = Client(f"http://127.0.0.1:{other}/mcp", mode=MODERN, extensions=[listens])
    with anyio.fail_after(WAIT):
        async with starts, hears, anyio.create_task_group() as running:
            created = await starts.session.call_tool("ask", {}, allow_claimed=True)
            assert isinstance(created, _Created)
            asked = SubscriptionFilter.model_validate({"taskIds": [created.task_id]})
            listen = SubscriptionsListenRequest(params=SubscriptionsListenRequestParams(notifications=asked))
            running.start_soon(hears.session.send_request, listen, SubscriptionsListenResult)
            play.gate.open()
            seen: set[str] = set()
            for values in ({"name": "me", "colour": "red"}, {"name#2": "yes"}):
                await _until(listens.told, lambda task, keys=set(values): set(task.inputRequests) == keys)
                responses = {key: answer(value) for key, value in values.items()}
                update = _Update(params=_UpdateParams(taskId=created.task_id, inputResponses=responses))
                await hears.session.send_request(update, EmptyResult)
                seen |= set(values)
            done = await _until(listens.told, lambda task: task.status == "completed")
            assert done.taskId == created.task_id
            assert "asked" in done.model_dump_json()
            assert seen == {"name", "colour", "name#2"}
            running.cancel_scope.cancel()
    assert [step for step, _ in play.rounds] == [0, 1, 2]

"""Released clients of other makers at our Go and Rust servers: what comes of a config, a cut, a kill -9, retention and tasks.

A client gets its stream again by itself, as its SDK does. All pairs of a client and a server act at the same time, since each waits
most of its time: Python's clients for the second before they come back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest
from cross.foreign import CLIENTS, SERVERS, Client, Server, built, replayed, trouble
from cross.line import Line
from mcp_wire import WAIT, Receiver

# The servers may have to be built.
pytestmark = pytest.mark.timeout(600)

SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PAIRS: Final = [(client, server) for server in SERVERS for client in CLIENTS]
MODERN: Final = [(client, server) for client, server in PAIRS if client in ("mcp 2", "client 2")]
STEPS: Final = 6
READY: Final = [{"type": "text", "text": "The report is ready."}]
META: Final = "io.tidings/notification-config"
GAP: Final = "notifications/io.tidings/gap"
SEEN: Final = 2
"""After so many steps the line is cut."""

Story = Callable[[str, str, Server], None]


class Stage:
    """A client that reaches its server over a line, and the receiver that its webhooks go to."""

    def __init__(self, stack: ExitStack, client: str, server: Server, era: str) -> None:
        self._stack, self._name, self._era, self.server = stack, client, era, server
        self.receiver = stack.enter_context(closing(Receiver(SECRET)))
        self.line = stack.enter_context(closing(Line(server.port)))
        self._told: set[str] = set()
        self.connect()

    def connect(self) -> None:
        if hasattr(self, "client"):
            self.client.close()
        self.client = self._stack.enter_context(closing(Client(self._name, self.line.port, self._era)))
        # Python's clients would ask for it when they have a first result, and there may be no session then.
        assert self.listed() == {"result": ["report"]}

    def listed(self) -> dict[str, Any]:
        self.client.ask("list")
        heard, said = self.client.answer()
        assert heard == []
        return said

    def call_of(self, pause: int) -> dict[str, Any]:
        """A call of the tool, which takes so many milliseconds a step, and tells the receiver of its end."""
        config = self.receiver.config("completed", "failed")
        return {"arguments": {"steps": STEPS, "stepMs": pause}, "meta": {META: config}}

    def call_and_cut(self) -> None:
        """Calls the tool and loses the line under way."""
        self.line.cut_behind(rf'"progress": ?{SEEN}(\.0)?[,}}]')
        self.client.ask("call", **self.call_of(30))
        self.line.wait_for_cut()

    def settle(self) -> None:
        """Waits until all that a stream which was cut had to say is in the file, as another process sees it there."""
        other = self.server.another()
        try:
            *_, last = replayed(other.port, *self.line.left_at())
            assert last["result"]["content"] == READY
        finally:
            other.kill()

    def restart(self, *more: str) -> None:
        """What `kill -9` does, and a new process on the same file."""
        self.server.kill()
        self.server.start(*more)

    def reconnect(self) -> None:
        self.line.lead_to(self.server.port)

    def finish(self) -> tuple[list[int], list[Any], dict[str, Any]]:
        """What comes until the call's result: its progress, the gaps in it, and the result."""
        heard, said = self.client.answer()
        assert "result" in said, said
        assert b"last-event-id:" in self.line.sent.lower(), "the client came back by itself"
        assert said["result"]["content"] == READY
        progress = [one["progress"] for one in heard if "progress" in one]
        return progress, [one["params"] for one in heard if one.get("told") == GAP], said["result"]

    def told(self, outcome: str = "completed") -> dict[str, Any]:
        """The webhook of a call that has ended like that, verified by a library of another maker."""
        # At least once: one that was sent when its server was killed comes again.
        while (event := self.receiver.next())["eventId"] in self._told:
            pass
        self._told.add(event["eventId"])
        data: dict[str, Any] = event["data"]
        assert (event["name"], data["outcome"]["status"]) == (f"tool_call.{outcome}", outcome)
        assert outcome != "completed" or data["outcome"]["result"]["content"] == READY
        return data

    def start_task(self, pause: int = 30) -> str:
        # TypeScript's client refuses results of this type; what it can be is the one who asks for the task.
        starter = Client("mcp 2", self.line.port, self._era)
        try:
            starter.ask("call", **self.call_of(pause))
            _, said = starter.answer()
        finally:
            starter.close()
        assert said.get("result", {}).get("resultType") == "task", said
        task: str = said["result"]["taskId"]
        return task

    def about(self, task: str) -> dict[str, Any]:
        """What the server says of a task."""
        self.client.ask("task", method="tasks/get", params={"taskId": task})
        _, said = self.client.answer()
        result: dict[str, Any] = said["result"]
        return result

    def stream(self, task: str, **after: int) -> tuple[list[Any], dict[str, Any]]:
        """The events of a task that come by one request, and its answer."""
        self.client.ask("task", method="tasks/stream", params={"taskId": task, **after})
        return self.events()

    def events(self) -> tuple[list[Any], dict[str, Any]]:
        heard, said = self.client.answer()
        return [one["params"] for one in heard if one.get("told") == "notifications/tasks/event"], said


def a_session(client: str, server_name: str, server: Server) -> None:
    """Up to 2025-11-25: streams are cut, and got again."""
    whole = list(range(1, STEPS + 1))
    with ExitStack() as stack:
        stage = Stage(stack, client, server, "legacy")

        stage.call_and_cut()
        stage.reconnect()
        progress, gaps, result = stage.finish()
        assert (progress, gaps) == (whole, [])
        acknowledged = result["_meta"]["io.tidings/acknowledged"]
        told = stage.told()
        assert (acknowledged["acceptedRoutes"], acknowledged["callId"]) == (["primary"], told["callId"])
        assert told["requestId"] == acknowledged["requestId"]

        # The tool ends while nobody listens, its server is killed, and another process has the rest.
        stage.call_and_cut()
        told = stage.told()
        stage.settle()
        stage.restart()
        stage.reconnect()
        progress, gaps, result = stage.finish()
        assert (progress, gaps) == (whole, [])
        assert result["_meta"]["io.tidings/acknowledged"]["callId"] == told["callId"]
        if server_name == "rmcp":
            assert stage.listed() == {"result": ["report"]}, "the session has survived too"
        else:
            # Sessions are the Go SDK's and in its memory.
            assert "error" in stage.listed()
            stage.connect()

        # Most of it is purged before the client is back.
        stage.call_and_cut()
        stage.told()
        stage.settle()
        stage.restart("--keep", "3")
        gap = purged(stage)
        stage.reconnect()
        progress, gaps, _ = stage.finish()
        # What is left is the rest up to the result.
        kept = gap["headSeq"] - gap["earliestSeq"]
        assert (gap["reason"], progress) == ("evicted", [*whole[:SEEN], *whole[STEPS - kept :]])
        assert kept < STEPS - SEEN
        # An SDK of 1.x in Python drops what it has no model of.
        assert gaps == ([] if client == "mcp 1" else [gap])


def purged(stage: Stage) -> Any:
    """The gap that the client will be told, once retention has had its turn."""
    end = time.monotonic() + WAIT
    while (first := replayed(stage.server.port, *stage.line.left_at())[0]).get("method") != GAP:
        assert time.monotonic() < end, "nothing was purged"
        time.sleep(0.05)
    return first["params"]


def tasks(client: str, server_name: str, server: Server) -> None:
    """From 2026-07-28 on: a call is a task, whose events are read again from any of them."""
    with ExitStack() as stack:
        stage = Stage(stack, client, server, "modern")

        task = stage.start_task()
        if client == "client 2":
            # It would be told of the cut by its own time limit only.
            events, said = stage.stream(task)
        else:
            events, said = cut_stream(stage, task)
        assert [event["seq"] for event in events] == list(range(len(events)))
        assert steps(events) == list(range(1, STEPS + 1))
        # TypeScript's SDK keeps the type of a result to itself.
        assert client == "client 2" or said["result"]["resultType"] == "complete"
        told = stage.told()
        assert (told["taskId"], told["taskStatus"]) == (task, "completed")

        stage.restart()
        stage.reconnect()
        assert stage.about(task)["result"]["content"] == READY
        assert stage.stream(task, after=2) == (events[3:], said)

        lost = stage.start_task(pause=60_000)
        assert stage.about(lost)["status"] == "working"
        stage.restart()
        stage.reconnect()
        told = stage.told("failed")
        assert (told["taskId"], told["outcome"]["reason"]) == (lost, "server_lost")
        task_lost = stage.about(lost)
        assert (task_lost["status"], task_lost["error"]["data"]) == ("failed", {"reason": "server_lost"})


def cut_stream(stage: Stage, task: str) -> tuple[list[Any], dict[str, Any]]:
    """The events of a task by two requests: a lost connection ends the first, so its client asks for what is behind what it has."""
    stage.line.cut_behind(r'"step": ?3')
    stage.client.ask("task", method="tasks/stream", params={"taskId": task})
    stage.line.wait_for_cut()
    stage.reconnect()
    events, said = stage.events()
    assert 3 in steps(events)
    if "result" in said:
        # It had come to its end before the server saw the cut, and rmcp's streams have ids: the client has the rest by a resume.
        return events, said
    more, said = stage.stream(task, after=events[-1]["seq"])
    return events + more, said


def steps(events: list[Any]) -> list[int]:
    return [event["payload"]["step"] for event in events if event["type"] == "com.example.step"]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Future[None]]]:
    possible = [pair for pair in PAIRS if trouble(*pair) is None]
    programs = {server: built(server) for server in {server for _, server in possible}}

    def play(story: Story, client: str, name: str, folder: Path) -> None:
        server = Server(programs[name], folder / "tidings.db")
        try:
            story(client, name, server)
        finally:
            server.kill()

    plays = [(a_session, *pair) for pair in possible] + [(tasks, *pair) for pair in MODERN if pair in possible]
    with ThreadPoolExecutor(len(plays) or 1) as pool:
        # pytest makes its folders in one thread.
        running = {play_of: pool.submit(play, *play_of, tmp_path_factory.mktemp("store")) for play_of in plays}

        def story(told: Story, client: str, server: str) -> Future[None]:
            if why := trouble(client, server):
                (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
            return running[told, client, server]

        yield story


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_client_that_is_cut_off(client: str, server: str, stories: Callable[..., Future[None]]) -> None:
    stories(a_session, client, server).result()


@pytest.mark.parametrize(("client", "server"), MODERN)
def test_a_client_that_knows_tasks(client: str, server: str, stories: Callable[..., Future[None]]) -> None:
    stories(tasks, client, server).result()

"""Tasks of the 2025-11-25 experiment on mcp 1.x: a server whose work the test drives, and a client.

Run as a program it is that server in a process of its own.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import tidings.mcp
from mcp import types
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.fastmcp import FastMCP
from mcp_process import Process
from mcp_wire import LEGACY, WAIT, Answer, Client, Gate, Served
from tidings import Hub

HERE = Path(__file__).resolve()
TERMINAL = ("completed", "failed", "cancelled")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Play:
    """Where the work of the tasks waits, and what became of it."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.reached = Gate()
        self.over = Gate()
        self.answers: list[Any] = []


class _Verifier:
    """Takes the token for the subject."""

    async def verify_token(self, token: str) -> AccessToken:
        return AccessToken(token=token, client_id="app", scopes=[], subject=token, claims={"iss": "https://a"})


def task_server(play: Play, hub: Hub, *, login: bool = False, **options: Any) -> FastMCP:
    """A server with the SDK's own support of tasks on our store."""
    extra: dict[str, Any] = {}
    if login:
        auth = AuthSettings(issuer_url="https://a", resource_server_url=None, required_scopes=[])  # type: ignore[arg-type]
        extra = {"token_verifier": _Verifier(), "auth": auth}
    server = FastMCP("tasks", log_level="CRITICAL", **extra)
    inner = server._mcp_server
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        experimental = inner.experimental
    experimental.enable_tasks(tidings.mcp.TaskStore(hub, **options), tidings.mcp.TaskMessageQueue(hub))

    def text(said: str, *, is_error: bool = False) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=said)], isError=is_error)

    @inner.list_tools()
    async def list_tools() -> list[types.Tool]:
        names = ("work", "fails", "says_error", "asks")
        execution = types.ToolExecution(taskSupport="optional")
        return [types.Tool(name=name, inputSchema={"type": "object"}, execution=execution) for name in names]

    @inner.call_tool(validate_input=False)
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        async def work(task: Any) -> types.CallToolResult:
            try:
                if name == "asks":
                    answer = await task.elicit("Who?", SCHEMA)
                    play.answers.append(answer.content)
                    return text(f"Hello, {answer.content['name']}")
                await task.update_status("on its way", notify=False)
                play.reached.open()
                await play.gate.passed()
                if name == "fails":
                    raise RuntimeError("it broke")
                return text("done", is_error=name == "says_error")
            finally:
                play.over.open()

        ctx = inner.request_context
        if not ctx.experimental.is_task:
            return text("no task")
        return await ctx.experimental.run_task(work)

    return server


class TaskClient(Client):
    """A client that asks for tasks."""

    def __init__(self, port: int, who: str | None = None) -> None:
        headers = {} if who is None else {"authorization": f"Bearer {who}"}
        super().__init__(port, LEGACY, headers=headers, capabilities={"elicitation": {"form": {}}})

    def one(self, method: str, params: dict[str, Any], id: int | str = 1) -> Any:
        """The response to a request."""
        return self.request(method, params, id).messages()[-1]

    def start(self, tool: str, ttl: int | None = None) -> dict[str, Any]:
        """Call a tool as a task; the task."""
        task = {} if ttl is None else {"ttl": ttl}
        created = self.one("tools/call", {"name": tool, "arguments": {}, "task": task})
        found: dict[str, Any] = created["result"]["task"]
        return found

    def get(self, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.one("tasks/get", {"taskId": task_id})["result"]
        return found

    def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """The task once it has one of these statuses. Polling is what the protocol gives a client."""
        end = time.monotonic() + WAIT
        while (task := self.get(task_id))["status"] not in statuses:
            assert time.monotonic() < end, f"the task does not get there: {task}"
            time.sleep(0.01)
        return task

    def result(self, task_id: str, id: int | str = "result") -> Answer:
        return self.request("tasks/result", {"taskId": task_id}, id)


class TaskProcess(Process):
    """The server with a login, on the store on `database`."""

    def __init__(self, database: Path) -> None:
        super().__init__(HERE, str(database))


def main() -> None:
    hub = Hub(f"sqlite:{sys.argv[1]}")
    play = Play()
    served = Served(task_server(play, hub, login=True).streamable_http_app())
    print(served.port, flush=True)

    def tell() -> None:
        play.reached.wait()
        print("reached", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "go":
            play.gate.open()
    served.stop()
    hub.run(hub.close())


if __name__ == "__main__":
    main()

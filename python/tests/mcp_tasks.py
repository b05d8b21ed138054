"""What the tests of tasks share: a client that declares the extension, and a server whose tools the test drives."""

from __future__ import annotations

import time
import warnings
from typing import Any

import anyio
import tidings.mcp
from mcp.shared.exceptions import MCPError
from mcp_stage import SDK, Context, plain_tool
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from mcp_wire import MODERN, WAIT, Answer, Client, Gate
from tidings import InvalidArgument

TASKS = "io.modelcontextprotocol/tasks"
DECLARED = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}, "elicitation": {"form": {}}}}
TERMINAL = ("completed", "failed", "cancelled")


class TaskClient(Client):
    """A client of 2026-07-28 that declares the extension on every request, or on none."""

    def __init__(self, port: int, *, declares: bool = True, **options: Any) -> None:
        super().__init__(port, MODERN, **options)
        self._meta = DECLARED if declares else {}

    def ask(self, method: str, params: dict[str, Any], id: int | str = 1, **meta: Any) -> Answer:
        return self.request(method, params, id, **{**self._meta, **meta})

    def post(self, body: Any, *, extra: dict[str, str] | None = None, **options: Any) -> Answer:
        headers = dict(extra or {})
        # Said in place of a `_meta` member, which it is not.
        name = body.get("params", {}).get("_meta", {}).pop("mcp_name", ...)
        if name is not ...:
            headers.pop("mcp-name", None)
            headers.update({} if name is None else {"mcp-name": name})
        return super().post(body, extra=headers, **options)

    def one(self, method: str, params: dict[str, Any]) -> Any:
        """The response to a request: the last message of the answer."""
        return self.ask(method, params).messages()[-1]

    def start(self, tool: str, arguments: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """Call a tool that is to become a task; its CreateTaskResult."""
        message = self.one("tools/call", {"name": tool, "arguments": arguments or {}, **params})
        result: dict[str, Any] = message["result"]
        assert result["resultType"] == "task", result
        return result

    def get(self, task_id: str) -> dict[str, Any]:
        result: dict[str, Any] = self.one("tasks/get", {"taskId": task_id})["result"]
        return result

    def finished(self, task_id: str) -> dict[str, Any]:
        """The task once it has ended. Polling is what the protocol gives a client."""
        end = time.monotonic() + WAIT
        while (task := self.get(task_id))["status"] not in TERMINAL:
            assert time.monotonic() < end, f"the task does not end: {task}"
            time.sleep(0.01)
        return task

    def asked(self, task_id: str, *keys: str) -> dict[str, Any]:
        """The task once exactly these questions are outstanding."""
        end = time.monotonic() + WAIT
        while set((task := self.get(task_id)).get("inputRequests", {})) != set(keys):
            assert time.monotonic() < end, f"the task does not ask: {task}"
            time.sleep(0.01)
        return task

    def update(self, task_id: str, responses: dict[str, Any]) -> Any:
        return self.one("tasks/update", {"taskId": task_id, "inputResponses": responses})

    def stream(self, task_id: str, after: Any = ..., **meta: Any) -> Answer:
        params = {"taskId": task_id} if after is ... else {"taskId": task_id, "after": after}
        return self.ask("tasks/stream", params, **meta)

    def events(self, task_id: str, after: Any = ...) -> tuple[list[Any], Any]:
        """The events up to the end of the stream, and the response."""
        *events, last = self.stream(task_id, after).messages()
        assert all(event["method"] == "notifications/tasks/event" for event in events)
        return [event["params"] for event in events], last


class Play:
    """Where the tools of `task_server` wait."""

    def __init__(self) -> None:
        self.gate = Gate()
        """Opened by the test: lets the tool go on."""
        self.reached = Gate()
        """Opened by the tool: it has come to the gate."""
        self.rounds: list[tuple[int, dict[str, Any]]] = []
        """What `ask` was called with each time."""
        self.cancelled = Gate()
        """Opened by a tool that was cancelled."""


def question(text: str) -> ElicitRequest:
    """A question to a person."""
    schema = {"type": "object", "properties": {"value": {"type": "string"}}}
    return ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=schema))


def answer(value: str) -> dict[str, Any]:
    """A person's answer to it, on the wire."""
    return {"action": "accept", "content": {"value": value}}


def new_server(**options: Any) -> Any:
    """A server without tools, of the kind that people use."""
    if SDK == "fastmcp":
        from fastmcp import FastMCP

        return FastMCP("tasks", **options)
    from mcp.server.mcpserver import MCPServer

    return MCPServer("tasks", log_level="CRITICAL", **options)


def guarded_options(verifier: Any) -> dict[str, Any]:
    """Options of a server behind a login, which takes the token for the subject."""
    if SDK == "fastmcp":
        from fastmcp.server.auth import TokenVerifier

        class Verifier(TokenVerifier):
            async def verify_token(self, token: str) -> Any:
                return await verifier.verify_token(token)

        return {"auth": Verifier()}
    from mcp.server.auth.settings import AuthSettings

    auth = AuthSettings(
        issuer_url="https://a",  # type: ignore[arg-type]
        resource_server_url="https://b",  # type: ignore[arg-type]
        required_scopes=[],
        validate_token_resource=False,
    )
    return {"token_verifier": verifier, "auth": auth}


def task_server(play: Play, **options: Any) -> Any:
    server = new_server(**options)

    @plain_tool(server)
    async def work(ctx: Context, before: int = 0, after: int = 0, size: int = 0) -> str:
        """Emits `before` events, waits for the gate, emits `after` more, each `size` bytes longer than it need be."""
        padding = {"padding": "x" * size} if size else {}
        try:
            call = tidings.mcp.current_call()
            for n in range(before):
                call.emit("com.example.step", {"n": n})
            play.reached.open()
            await play.gate.passed()
            for n in range(before, before + after):
                call.emit("com.example.step", {"n": n, **padding})
            return "done"
        except anyio.get_cancelled_exc_class():
            play.cancelled.open()
            raise

    @plain_tool(server)
    async def progress(ctx: Context) -> str:
        try:
            await ctx.report_progress(1, 2, "half")
            play.reached.open()
            await play.gate.passed()
            return "done"
        except anyio.get_cancelled_exc_class():
            play.cancelled.open()
            raise

    @plain_tool(server)
    async def logs(ctx: Context) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated as of 2026-07-28
            for level in ("debug", "error"):
                await ctx.session.send_log_message(level, {"said": level}, "it", related_request_id="any")
        return "done"

    @plain_tool(server)
    async def large(bytes: int) -> str:
        try:
            tidings.mcp.current_call().emit("com.example.large", {"x": "x" * bytes})
        except InvalidArgument as error:
            return f"refused: {error}"
        return "emitted"

    @plain_tool(server)
    async def stubborn() -> str:
        try:
            play.reached.open()
            await play.gate.passed()
        except anyio.get_cancelled_exc_class():
            play.cancelled.open()
        return "too late"

    @plain_tool(server)
    async def broken() -> str:
        play.reached.open()
        await play.gate.passed()
        raise RuntimeError("it broke")

    @plain_tool(server)
    async def refused() -> str:
        play.reached.open()
        await play.gate.passed()
        raise MCPError(4711, "not today", {"why": "because"})

    @plain_tool(server)
    async def ask(ctx: Context) -> str | InputRequiredResult:
        """Asks twice, the first time for two things, under a key that comes again."""
        given = ctx.input_responses or {}
        step = int(ctx.request_state or 0)
        play.rounds.append((step, {key: answer.content for key, answer in given.items()}))  # type: ignore[union-attr]
        if step == 0:
            play.reached.open()
            await play.gate.passed()
            return InputRequiredResult(
                input_requests={"name": question("Who?"), "colour": question("Which?")}, request_state="1"
            )
        if step == 1:
            return InputRequiredResult(input_requests={"name": question("Sure?")}, request_state="2")
        return "asked"

    @plain_tool(server)
    def quick() -> str:
        tidings.mcp.current_call().emit("com.example.gone", {})
        return "at once"

    @plain_tool(server)
    def emits(type: str) -> str:
        try:
            tidings.mcp.current_call().emit(type, {})
        except InvalidArgument as error:
            return f"refused: {error}"
        return "emitted"

    return server

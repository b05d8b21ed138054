"""Clients that are told of changes, as raw as `mcp_wire`: listeners of 2026-07-28, GET streams, a stdio pipe."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_wire import MODERN, WAIT, Answer, Client, Served
from tidings import Fanout, Hub

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"

Keep = Callable[[Answer], Answer]
"""Keeps a stream open until the test ends."""


def counts(fanout: Fanout) -> tuple[int, int, int]:
    return fanout.told, fanout.skipped, fanout.failed


def add_eighty_tools(server: Any) -> None:
    """As a server does that registers them one by one; again, where they are there already."""
    for number in range(80):

        def tool() -> str:
            return "done"

        tool.__name__ = f"tool_{number}"
        try:
            server.add_tool(tool)
        except ValueError:
            pass  # FastMCP: it is there already


def total(hub: Hub) -> int:
    """How many listeners there are."""
    fanout = hub.notify("events")
    return fanout.told + fanout.skipped


class Listener:
    """One `subscriptions/listen`, with its acknowledgement read."""

    def __init__(self, client: Client, filter: dict[str, Any], id: int | str = 1, **meta: Any) -> None:
        self.id = id
        self.answer: Answer = client.request("subscriptions/listen", {"notifications": filter}, id, **meta)
        assert self.answer.status == 200, self.answer.messages()
        first = self.answer.take(1)[0].message
        assert first["method"] == "notifications/subscriptions/acknowledged", first
        assert first["params"]["_meta"][SUBSCRIPTION] == id
        self.honoured = first["params"]["notifications"]

    def next(self) -> tuple[str, dict[str, Any]]:
        """The next notification: its method, and its parameters without the tag, which has to be right."""
        message = self.answer.take(1)[0].message
        params = dict(message["params"])
        tag = params.pop("_meta")[SUBSCRIPTION]
        assert (type(tag), tag) == (type(self.id), self.id)
        return message["method"], params


def told(answer: Answer) -> str:
    """The method of the next notification on a stream."""
    message = answer.take(1)[0].message
    assert "id" not in message
    assert not isinstance(message.get("params"), list)
    method: str = message["method"]
    return method


class Stdio:
    """A client at the other end of a pair of pipes; the server runs in the loop of a `Served`."""

    def __init__(self, served: Served, low_level: Server[Any]) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._out = os.fdopen(ours_out, "w", buffering=1)
        self._in = os.fdopen(ours_in, "r")

        async def serve() -> None:
            with os.fdopen(theirs_in, "r") as reader, os.fdopen(theirs_out, "w") as writer:
                async with stdio_server(anyio.wrap_file(reader), anyio.wrap_file(writer)) as (read, write):
                    await low_level.run(read, write, low_level.create_initialization_options())

        self._running = asyncio.run_coroutine_threadsafe(serve(), served.loop)

    def send(self, message: dict[str, Any]) -> None:
        self._out.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def next(self) -> Any:
        return json.loads(self._in.readline())

    def initialize(self, version: str = "2025-06-18") -> Any:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        self.send({"id": 0, "method": "initialize", "params": params})
        result = self.next()["result"]
        self.send({"method": "notifications/initialized"})
        self.send({"id": 1, "method": "ping"})
        assert self.next()["id"] == 1
        return result

    def modern(self, method: str, params: dict[str, Any], id: int | str) -> None:
        """Send a request of 2026-07-28."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        self.send({"id": id, "method": method, "params": {**params, "_meta": meta}})

    def close(self) -> None:
        self._out.close()
        self._running.result(WAIT)
        self._in.close()


def until(condition: Callable[[], bool]) -> None:
    """Ask again and again until it holds."""
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "what the test waits for did not happen"
        os.sched_yield()

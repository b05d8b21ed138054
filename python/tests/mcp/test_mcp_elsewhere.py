"""Calls that do not come over HTTP: standard input and output, and a server driven without a lifespan."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
import tidings.mcp
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.transport_context import TransportContext
from mcp_stage import Stage
from mcp_stage_v2 import low_level_server
from mcp_wire import LEGACY, MODERN, WAIT, Receiver
from tidings import Hub

EVERY = ("completed", "failed", "timeout", "cancelled")

STDIO_SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
from tidings import Hub
import tidings.mcp

hub = Hub(f"sqlite:{sys.argv[1]}", allow_networks=["127.0.0.0/8"], allow_http=True, allow_ports=[int(sys.argv[2])])
server = MCPServer("test", log_level="CRITICAL")

@server.tool()
async def greet(name: str) -> str:
    return f"hello {name}"

tidings.mcp.attach(server, hub, routes=["webhook"])
server.run()
"""


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_standard_input_and_output(era: str, tmp_path: Path, receiver: Receiver) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", STDIO_SERVER, str(tmp_path / "tidings.db"), str(receiver.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def send(**message: Any) -> None:
        assert server.stdin is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()

    def receive() -> Any:
        assert server.stdout is not None
        return json.loads(server.stdout.readline())

    params: dict[str, Any] = {
        "name": "greet",
        "arguments": {"name": "you"},
        "notificationConfig": receiver.config("completed"),
    }
    try:
        if era == LEGACY:
            hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
            send(id=0, method="initialize", params=hello)
            assert receive()["result"]["capabilities"]["notificationConfig"] == {"supportedRouteTypes": ["webhook"]}
            send(method="notifications/initialized")
        else:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": era,
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        send(id="a", method="tools/call", params=params)
        acknowledged, answer = receive(), receive()
        assert acknowledged["method"] == "notifications/config/acknowledged"
        assert acknowledged["params"]["requestId"] == "a"
        assert answer["result"]["_meta"]["io.tidings/acknowledged"] == acknowledged["params"]
        event = receiver.next()
        assert event["name"] == "tool_call.completed"
        assert event["data"]["outcome"]["result"] == answer["result"]
    finally:
        server.stdin.close()
        server.wait(WAIT)
        server.stdout.close()
    assert server.returncode == 0


class Exchange:
    """A request that comes from nowhere in particular."""

    def __init__(self) -> None:
        self.transport = TransportContext(kind="test", can_send_request=False)
        self.request_id = 1
        self.message_metadata = None
        self.can_send_request = False
        self.cancel_requested = anyio.Event()
        self.sent: list[str] = []

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        raise NotImplementedError

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        self.sent.append(method)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.sent.append("progress")


@pytest.mark.parametrize("ends", ["by itself", "cancelled", "with its request"])
def test_without_a_lifespan_a_call_lives_inside_its_request(
    ends: str, stage: Stage, receiver: Receiver, hub: Hub
) -> None:
    server = low_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    arguments = {"count": 1, "hold_at": -1 if ends == "by itself" else 0}
    params = {
        "name": "steps",
        "arguments": arguments,
        "notificationConfig": receiver.config(*EVERY),
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    told: list[tuple[str, str | None]] = []

    async def main() -> None:
        exchange = Exchange()
        connection = Connection.from_envelope(MODERN, None, {})
        with anyio.CancelScope() as request:

            async def end_it() -> None:
                await stage.reached.passed()
                if ends == "cancelled":
                    exchange.cancel_requested.set()
                request.cancel()

            ending = asyncio.create_task(end_it())
            result = await serve_one(
                server,
                exchange,
                "tools/call",
                params,
                connection=connection,
                lifespan_state={},
            )
            assert result["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"] == ["primary"]
        assert request.cancelled_caught is (ends != "by itself")
        ending.cancel()
        assert exchange.sent[0] == "notifications/config/acknowledged"
        outcome = (await asyncio.to_thread(receiver.next))["data"]["outcome"]
        told.append((outcome["status"], outcome.get("reason")))

    asyncio.run(main())
    assert told == [
        {
            "by itself": ("completed", None),
            "cancelled": ("cancelled", None),
            "with its request": ("cancelled", "disconnected"),
        }[ends]
    ]

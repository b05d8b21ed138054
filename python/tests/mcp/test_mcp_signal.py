"""Routes of type signal: on stdio, on Linux, to the process at the other end and to no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp_stage import SDK
from mcp_wire import WAIT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="pidfds are Linux's"),
    pytest.mark.skipif(SDK == "fastmcp", reason="stdio is the SDK's own, which the other two runs cover"),
]

SERVER = """
    import sys, tidings, tidings.mcp
    try:
        from mcp.server.mcpserver import MCPServer as Server
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Server
    server = Server("bell")

    @server.tool()
    def work() -> str:
        return "done"

    hub = tidings.Hub("memory:", undeliverable="annotate")
    tidings.mcp.attach(server, hub, routes=["signal", "message"], signal_as_root=True)
    server.run("stdio")
"""


class Stdio:
    """A server at the other end of two pipes, whose parent this process is."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.initialized = self.request(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
        )
        self._write({"method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server ended"
        message: dict[str, Any] = json.loads(line)
        return message

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._write({"id": 1, "method": method, "params": params})
        while True:
            message = self.read()
            if message.get("id") == 1:
                return message

    def call(self, *routes: dict[str, Any]) -> dict[str, Any]:
        config = {"routes": [{"id": str(n), "triggers": ["completed"], **route} for n, route in enumerate(routes)]}
        return self.request("tools/call", {"name": "work", "arguments": {}, "notificationConfig": config})

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(WAIT)


@pytest.fixture
def stdio() -> Any:
    made = Stdio()
    yield made
    made.close()


# Field case B28.
def test_b28_the_peer_is_rung_with_the_signal_it_named_and_survives_the_others(stdio: Stdio) -> None:
    told = stdio.initialized["result"]["capabilities"]["notificationConfig"]["supportedRouteTypes"]
    assert told == ["signal", "message"]
    rung = threading.Semaphore(0)
    before = signal.signal(signal.SIGRTMIN + 3, lambda *_: rung.release())
    try:
        answer = stdio.call({"type": "signal", "signal": "SIGRTMIN+3"})
        assert answer["result"]["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"] == ["0"]
        # A signal's handler runs in the main thread, which therefore has to come by now and then.
        for _ in range(6_000):
            if rung.acquire(timeout=0.01):
                break
        else:
            pytest.fail("the bell did not ring")
    finally:
        signal.signal(signal.SIGRTMIN + 3, before)
    # This process waits for no SIGUSR2, which would end it: the next route has its turn.
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    stdio.call({"type": "signal", "signal": "SIGUSR2"}, {"type": "message"})
    while (message := stdio.read()).get("method") != "notifications/io.tidings/triggered":
        pass
    assert message["params"]["data"]["route"] == "1"


@pytest.mark.parametrize(
    "route",
    [
        {},
        {"signal": "SIGTERM"},
        {"signal": "SIGKILL"},
        {"signal": "SIGSTOP"},
        {"signal": 0},
        {"signal": 64},
        {"signal": "SIGFOO"},
        {"signal": "SIGUSR1", "target": str(os.getpid())},
        {"signal": "SIGUSR1", "endpoint": str(os.getpid())},
    ],
)
def test_b28_whatever_else_is_asked_is_refused_when_the_config_comes(stdio: Stdio, route: dict[str, Any]) -> None:
    answer = stdio.call({"type": "signal", **route})
    assert answer["error"]["code"] == -32602


def test_a_process_that_died_gets_nothing_and_nobody_gets_it_instead(tmp_path: Path) -> None:
    from tidings._routes import Refused
    from tidings.mcp._doorbell import Doorbell

    child = subprocess.Popen(
        [sys.executable, "-c", ("import signal,sys; signal.signal(signal.SIGUSR2, lambda *_: sys.exit(7)); print(flush=True); "
         "signal.pause()")],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    bell = Doorbell(child.pid, os.pidfd_open(child.pid))
    assert bell.ring("SIGUSR1") is Refused.NOT_READY
    assert child.poll() is None
    assert bell.ring("SIGUSR2") is True
    assert child.wait(WAIT) == 7
    assert bell.ring("SIGUSR2") is Refused.UNREACHABLE
    child.stdout.close()

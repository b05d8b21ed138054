"""Servers in Go and in Rust with our adapters, the examples that people start from, and clients of released SDKs with nothing of ours."""

from __future__ import annotations

import http.client
import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from official.servers import ROOT, go_program, go_trouble, rmcp_example

HERE: Final = Path(__file__).resolve().parent
WAIT: Final = 60.0

CLIENTS: Final = {
    "mcp 2": [str(ROOT / ".cache" / "venv" / "bin" / "python"), str(HERE / "clients" / "speaks.py")],
    "mcp 1": [str(ROOT / ".cache" / "venv-mcp1" / "bin" / "python"), str(HERE / "clients" / "speaks.py")],
    "client 2": ["node", str(HERE / "clients" / "speaks.mjs"), "2"],
    "sdk 1": ["node", str(HERE / "clients" / "speaks.mjs"), "1"],
}
"""The command of each, which takes a URL and an era."""
SERVERS: Final = ("go", "rmcp")


def trouble(client: str, server: str) -> str | None:
    """Why these two cannot meet on this machine, or None."""
    program = Path(CLIENTS[client][0])
    if program.is_absolute() and not program.exists():
        return f"there is no {program.relative_to(ROOT)}: tools/python-env --mcp1 makes it"
    return go_trouble() if server == "go" else None


def built(server: str) -> Path:
    """The program of that server."""
    if server == "go":
        return go_program(ROOT / "bindings" / "go" / "tidingsmcp" / "examples" / "server", "server")
    return rmcp_example("server")


class Server:
    """The example, on a file and a port of its own, that can be killed and started again."""

    def __init__(self, program: Path, store: Path) -> None:
        self._program, self._store = program, store
        self.start()

    def another(self) -> Server:
        """Another process on the same file."""
        return Server(self._program, self._store)

    def start(self, *more: str) -> None:
        command = [self._program, "--listen", "127.0.0.1:0", "--store", self._store, "--local-hooks", *more]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("http://"), f"the server does not start: {line!r}"
        self.port = int(line.rpartition(":")[2])

    def kill(self) -> None:
        """As `kill -9` does."""
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Client:
    """A client in a process of its own: told what to do, it says what it hears."""

    def __init__(self, name: str, port: int, era: str) -> None:
        command: Sequence[str] = [*CLIENTS[name], f"http://127.0.0.1:{port}/mcp", era]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.next() == {"connected": era}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))

    def next(self) -> dict[str, Any]:
        """What it says next."""
        return self._said.get(timeout=WAIT)

    def ask(self, do: str, **given: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """What it heard until its answer, and that: `result` or `error`."""
        heard = []
        while True:
            said = self.next()
            if "result" in said or "error" in said:
                return heard, said
            heard.append(said)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join(WAIT)
        self._process.stdin.close()
        self._process.stdout.close()


def replayed(port: int, session: str, last_event_id: str) -> list[Any]:
    """What a resume is told, without any SDK, up to the end of the stream."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    headers = {
        "accept": "text/event-stream",
        "mcp-protocol-version": "2025-11-25",
        "mcp-session-id": session,
        "last-event-id": last_event_id,
    }
    try:
        connection.request("GET", "/mcp", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return [json.loads(line[5:]) for line in answer if line.startswith(b"data:") and line[5:].strip()]
    finally:
        connection.close()

"""gunicorn with --preload: one hub and one app at module level, made before the fork, four workers that serve it."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp_wire import LEGACY, MODERN, WAIT, Answer, Client, Receiver
from tidings import Hub

WORKERS = 4

APP = """
import os
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer

import tidings.mcp
from tidings import Hub

HERE = Path(__file__).parent
server = MCPServer("preloaded", log_level="CRITICAL")


@server.tool()
async def steps(ctx: Context, count: int, hold_at: int = -1) -> str:
    for n in range(count):
        if n == hold_at:
            while not (HERE / "go").exists():
                await anyio.sleep(0.01)
        await ctx.report_progress(n + 1, count)
    return str(os.getpid())


hub = Hub("sqlite:" + str(HERE / "tidings.db"), allow_networks=["127.0.0.0/8"], allow_http=True, allow_ports=[{port}])
{before}
tidings.mcp.attach(server, hub, routes=["webhook"])
inner = server.streamable_http_app()


async def app(scope, receive, send):
    async def say_who(message):
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"x-worker", str(os.getpid()).encode())]
        await send(message)

    await inner(scope, receive, say_who if scope["type"] == "http" else send)
"""

USED_BEFORE = 'hub.run(hub.stream("master", "n").append("0"))'


@dataclass
class Gunicorn:
    process: subprocess.Popen[bytes]
    port: int
    place: Path
    used_before: bool

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(WAIT)


@pytest.fixture(params=["", USED_BEFORE], ids=["unused before the fork", "used before the fork"])
def gunicorn(request: pytest.FixtureRequest, tmp_path: Path, receiver: Receiver) -> Iterator[Gunicorn]:
    (tmp_path / "preloaded.py").write_text(APP.format(port=receiver.port, before=request.param))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", str(WORKERS)]
        command += ["--worker-class", "uvicorn_worker.UvicornWorker", "--bind", f"fd://{listening.fileno()}"]
        command += ["--graceful-timeout", "30", "--no-control-socket", "--log-level", "warning", "preloaded:app"]
        process = subprocess.Popen(command, cwd=tmp_path, pass_fds=[listening.fileno()], start_new_session=True)
        yield Gunicorn(process, listening.getsockname()[1], tmp_path, bool(request.param))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Pinned(Client):
    """A client that keeps its connection, and so its worker."""

    _connection: http.client.HTTPConnection | None = None

    def _request(self, method: str, body: str | None, headers: dict[str, str], timeout: float) -> Answer:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if self.session is not None:
            headers = {**headers, "mcp-session-id": self.session}
        self._connection.request(method, self.path, body, headers)
        answer = Answer(self._connection, self._connection.getresponse())
        answer.close = answer._response.close  # type: ignore[method-assign]
        return answer


def elsewhere(client: Client) -> Client:
    """The same session on connections of its own, which any worker may get."""
    other = object.__new__(Client)
    other.__dict__.update({**client.__dict__})
    other.__dict__.pop("_connection", None)
    return other


def worker(answer: Answer) -> str:
    who = answer.headers["x-worker"]
    assert who is not None
    return who


def test_every_worker_serves_and_any_resumes(gunicorn: Gunicorn, receiver: Receiver) -> None:
    def modern(n: int) -> tuple[str, Any]:
        config = {"notificationConfig": receiver.config("completed")} if n == 0 else {}
        answer = Client(gunicorn.port, MODERN).call("steps", {"count": 1}, **config)
        last = answer.messages()[-1]
        assert "result" in last, last
        return worker(answer), last["result"]["content"][0]["text"]

    seen: set[str] = set()
    end = time.monotonic() + WAIT
    while len(seen) < WORKERS:
        assert time.monotonic() < end, f"only {seen} serve"
        with ThreadPoolExecutor(16) as pool:
            for who, said in pool.map(modern, range(16)):
                assert who == said
                seen.add(who)
    assert receiver.next()["name"] == "tool_call.completed"

    # A session lives in one worker; its streams are resumed in all of them.
    client = Pinned(gunicorn.port, LEGACY)
    whole = client.call("steps", {"count": 3}, progress=True)
    owner, events = worker(whole), whole.rest()
    assert len(events) == 4
    others: set[str] = set()
    while len(others - {owner}) < WORKERS - 1:
        assert time.monotonic() < end, f"only {others} resume"
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: elsewhere(client).get(events[0].id), range(16)))
        for answer in answers:
            told = answer.rest()
            if worker(answer) == owner:
                # There the latest connection has the stream, and those that ask at the same time may end before they have all.
                assert told == events[1:][: len(told)]
            else:
                assert told == events[1:]
            others.add(worker(answer))

    # And while the call runs: the rest comes live from the worker that runs it.
    running = client.call("steps", {"count": 400, "hold_at": 2}, id=2, progress=True)
    first = running.take(2)
    running.cut()
    while worker(resumed := elsewhere(client).get(first[-1].id)) == owner:
        resumed.close()
        assert time.monotonic() < end, "every connection went to the owner"
    (gunicorn.place / "go").touch()
    *rest, last = resumed.rest()
    said = [event.message["params"]["progress"] for event in [*first, *rest]]
    assert said == list(range(1, 401))
    assert last.message["result"]["content"][0]["text"] == owner

    assert gunicorn.stop() == 0
    # uvicorn lets its process die of the signal that stopped it, so that nobody closes the hub; its lock's file stays, and the
    # next one that opens the store takes it away.
    hub = Hub(f"sqlite:{gunicorn.place / 'tidings.db'}")
    try:
        hub.open()
        if gunicorn.used_before:
            assert [event.payload for event in hub.run(hub.stream("master", "n").read()).events] == [b"0"]
    finally:
        hub.run(hub.close())
    assert [path.name for path in gunicorn.place.iterdir() if "-w-" in path.name] == []

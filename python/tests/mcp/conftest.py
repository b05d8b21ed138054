"""A hub, a receiver and a server of each kind, for every test of the mcp adapter."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_listen import Keep, Stdio
from mcp_stage import KINDS, SDK, Stage, app_of, high_level_server, server_of
from mcp_wire import Answer, Receiver, Served
from tidings import Hub
from tidings.mcp._attach import _host

# Tests of what not every SDK has.
_ONLY = {
    "test_fastmcp.py": ["fastmcp"],
    "test_mcp1.py": ["mcp1"],
    "test_mcp1_fanout.py": ["mcp1"],
    "test_mcp1_tasks.py": ["mcp1"],
    "test_mcp_attach.py": ["mcp2"],
    "test_mcp_chain.py": ["mcp2"],
    "test_mcp_elsewhere.py": ["mcp2"],
    "test_mcp_gunicorn.py": ["mcp2"],
    "test_mcp_fanout.py": ["mcp2", "fastmcp"],
    "test_mcp_listen.py": ["mcp2"],
    "test_mcp_notices.py": ["mcp2"],
    "test_mcp_task_notifications.py": ["mcp2", "fastmcp"],
    "test_mcp_readme.py": ["mcp2"],
    "test_mcp_task_processes.py": ["mcp2", "fastmcp"],
    "test_mcp_task_sdk_client.py": ["mcp2", "fastmcp"],
    "test_mcp_task_stream.py": ["mcp2", "fastmcp"],
    "test_mcp_tasks.py": ["mcp2", "fastmcp"],
}
collect_ignore = [name for name, sdks in _ONLY.items() if SDK not in sdks]

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.gate.open()


@pytest.fixture(params=sorted(KINDS))
def server(request: pytest.FixtureRequest, stage: Stage) -> Any:
    """One server of each kind in turn."""
    return server_of(request.param, stage)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(SECRET)
    yield made
    made.close()


@pytest.fixture
def make_hub(tmp_path: Path, receiver: Receiver) -> Iterator[Callable[..., Hub]]:
    """Makes hubs on a file that may deliver to the receiver; closes them."""
    made: list[Hub] = []

    def make(**options: Any) -> Hub:
        hub = Hub(
            f"sqlite:{tmp_path / 'tidings.db'}",
            allow_networks=["127.0.0.0/8"],
            allow_http=True,
            allow_ports=[receiver.port],
            **options,
        )
        made.append(hub)
        return hub

    yield make
    for hub in made:
        asyncio.run(hub.close())


@pytest.fixture
def hub(make_hub: Callable[..., Hub]) -> Hub:
    return make_hub()


@pytest.fixture
def strict_hub() -> Iterator[Hub]:
    """A hub as it comes: only public addresses, only https."""
    made = Hub("memory:")
    yield made
    asyncio.run(made.close())


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves a server's Streamable HTTP app until the test ends."""
    running: list[Served] = []

    def start(server: Any, *, graceful: int | None = 1, **options: Any) -> Served:
        served = Served(app_of(server, **options), graceful=graceful)
        running.append(served)
        return served

    yield start
    for served in running:
        if not served.should_exit:
            served.stop()


@pytest.fixture
def plain(stage: Stage) -> Any:
    """The server that people use."""
    return high_level_server(stage)


@pytest.fixture
def keep() -> Iterator[Keep]:
    """Keeps a stream open until the test ends, then closes it."""
    kept: list[Answer] = []

    def one(answer: Answer) -> Answer:
        kept.append(answer)
        return answer

    yield one
    for answer in kept:
        answer.close()


@pytest.fixture
def stdio() -> Iterator[Callable[..., Stdio]]:
    """Serves a server to a client on a pipe, in the event loop of a `Served`."""
    made: list[Stdio] = []

    def make(served: Served, server: Any) -> Stdio:
        low_level = _host.low_level(server)
        assert low_level is not None
        made.append(Stdio(served, low_level))
        return made[-1]

    yield make
    for client in made:
        client.close()

"""What the tests across languages share: a process of each, on one file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp_process import Process, ServerProcess
from mcp_stage import KINDS
from mcp_task_process import TaskProcess

NODE = Path(__file__).resolve().parents[2] / "node" / "test" / "mcp" / "process.mjs"


class NodeProcess(Process):
    """The Node.js package's test server, attached to the store on `database`."""

    def __init__(self, database: Path) -> None:
        self._process = subprocess.Popen(
            ["node", str(NODE), str(database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        self.port = int(self.line())


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The file that all of a test's processes share."""
    return tmp_path / "tidings.db"


@pytest.fixture
def python(database: Path) -> Iterator[ServerProcess]:
    """A Python server."""
    process = ServerProcess(database, KINDS[0])
    yield process
    process.close()


@pytest.fixture
def python_tasks(database: Path) -> Iterator[TaskProcess]:
    """A Python server with tasks."""
    process = TaskProcess(database)
    yield process
    process.close()


@pytest.fixture
def start_node(database: Path) -> Iterator[Callable[[], NodeProcess]]:
    """Starts Node.js servers."""
    running: list[NodeProcess] = []

    def start() -> NodeProcess:
        running.append(NodeProcess(database))
        return running[-1]

    yield start
    for process in running:
        process.close()

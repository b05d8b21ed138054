"""A real server process on a disk that fails when told to, and what the tests ask of it."""

from __future__ import annotations

import errno
import http.client
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp_wire import WAIT, SseEvent

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

DATABASE = "faulty.db"
"""Only files whose name contains this are meant; no directory of a test has it in its name."""

OPEN, CREATE, WRITE, SYNC, SIZE, NAME = 1, 2, 4, 8, 16, 32
"""Kinds of operations, as in shim.c."""
ALL = OPEN | CREATE | WRITE | SYNC | SIZE | NAME

_FIELDS = ("kinds", "error", "delay", "hold", "failed", "waiting", "written", "skew")


def build_shim(directory: Path) -> Path:
    """Compiles the shim with the C compiler that tools/check-prerequisites asks for."""
    shim = directory / "shim.so"
    compiler = [*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, "-o", str(shim), str(HERE / "shim.c"), "-ldl"], check=True)
    return shim


def until(happened: Callable[[], Any], what: str) -> Any:
    """Waits for something that has to happen; how long it takes is no matter."""
    end = time.monotonic() + WAIT
    while not (found := happened()):
        assert time.monotonic() < end, f"did not happen: {what}"
        time.sleep(0.01)
    return found


class Faults:
    """What the disk does, for the processes that were started with it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "control"
        self.path.write_bytes(bytes(4 * len(_FIELDS)))
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._fields = memoryview(self._map).cast("i")

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            self._fields[_FIELDS.index(name)] = value

    def _get(self, name: str) -> int:
        return self._fields[_FIELDS.index(name)]

    # The kinds are said last: until then none is meant, and from then on what befalls them is known.

    def fail(self, error: int, kinds: int = ALL) -> None:
        """From now on operations of these kinds fail."""
        self._set(error=error, kinds=kinds)

    def slow(self, milliseconds: int, kinds: int = WRITE | SYNC) -> None:
        """From now on each takes that much longer, and one that is held up comes back."""
        self._set(delay=milliseconds, kinds=kinds, hold=0)

    def hold(self, kinds: int = WRITE | SYNC) -> None:
        """From now on none comes back."""
        self._set(hold=1, kinds=kinds)

    def skew(self, seconds: int) -> None:
        """From now on the time of day is so much off."""
        self._set(skew=seconds)

    def end(self) -> None:
        """The disk is well again, and the clock right."""
        self._set(error=0, delay=0, hold=0, kinds=0, skew=0)

    @property
    def failed(self) -> int:
        """How many operations were made to fail."""
        return self._get("failed")

    @property
    def waiting(self) -> int:
        """How many operations are held up now."""
        return self._get("waiting")

    @property
    def written(self) -> int:
        """How many writes went through."""
        return self._get("written")


class Victim:
    """The server process of victim.py."""

    def __init__(
        self,
        directory: Path,
        shim: Path,
        receiver_port: int,
        *,
        patience: dict[str, float] | None = None,
        environment: dict[str, str] | None = None,
        **hub: Any,
    ) -> None:
        self._environment = environment or {}
        self.directory = directory
        self.data = directory / "data"
        self.data.mkdir()
        self.synced = directory / "synced"
        self.synced.mkdir()
        self.faults = Faults(directory)
        self._shim = shim
        self._log = directory / "log"
        self._log.touch()
        self._seen = 0
        self._port_file = directory / "port"
        self._spec = {
            "database": str(self.data / DATABASE),
            "receiver_port": receiver_port,
            "hub": hub,
            "patience": patience or {},
            "port_file": str(self._port_file),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def launch(self) -> None:
        """Starts the process; `ready` waits for it."""
        self._port_file.unlink(missing_ok=True)
        environment = {
            **os.environ,
            **self._environment,
            "LD_PRELOAD": str(self._shim),
            "TIDINGS_FAULTS_CONTROL": str(self.faults.path),
            "TIDINGS_FAULTS_NAME": DATABASE,
            "TIDINGS_FAULTS_SYNCED": str(self.synced),
            "PYTHONPATH": str(ROOT / "python" / "tests"),
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "victim.py"), json.dumps(self._spec)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ready(self) -> Victim:
        """Waits until the server listens."""
        process = self._process
        assert process is not None

        def listens() -> bool:
            assert process.poll() is None, self._log.read_text()
            return self._port_file.exists()

        until(listens, "the server's start")
        self.port = int(self._port_file.read_text())
        return self

    def start(self) -> Victim:
        """Starts the process and waits until it listens."""
        self.launch()
        return self.ready()

    def stop(self) -> None:
        """Ends the process in good order, which a failing disk must not prevent."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills it as nothing can be caught."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def lose_power(self) -> None:
        """After `kill`: leaves of the database what was synced, as a loss of power may."""
        assert self._process is None
        for suffix in ("", "-wal"):
            left, kept = self.data / (DATABASE + suffix), self.synced / (DATABASE + suffix)
            left.unlink(missing_ok=True)
            if kept.exists():
                shutil.copyfile(kept, left)
        (self.data / (DATABASE + "-shm")).unlink(missing_ok=True)

    # -- the stage

    def ask(self, what: str) -> Any:
        """One of /stage."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            connection.request("GET", f"/stage/{what}")
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, (what, answer.status, body)
            return json.loads(body)
        finally:
            connection.close()

    def count(self, name: str) -> int:
        """One of what the server counts."""
        counted: int = self.ask("counts")[name]
        return counted

    def settle(self) -> None:
        """Waits until nothing that earlier calls left is on its way: no delivery, and nothing to the disk."""
        until(
            lambda: all(state not in ("pending", "leased", "retrying") for _, state, _ in self.ask("deliveries")),
            "the end of every delivery",
        )
        self.ask("flush")

    # -- the log

    def mark(self) -> None:
        """`lines` tells only what the log gets from here on."""
        self._seen = self._log.stat().st_size

    def lines(self) -> list[str]:
        """Everything the log got: the loggers that matter, and tracebacks, print nothing on a good day."""
        return self._log.read_bytes()[self._seen :].decode().splitlines()

    @contextmanager
    def outage(self, error: int, kinds: int = ALL) -> Iterator[None]:
        """The disk fails inside and is well afterwards; when this ends the store is known to work again."""
        self.faults.fail(error, kinds)
        try:
            yield
            until(lambda: self.count("failing"), "the store's failing")
        finally:
            self.faults.end()
        until(lambda: not self.count("failing"), "the store's recovery")
        until(lambda: any("the store is back" in line for line in self.lines()), "the line that says so")


def assert_one_outage(lines: list[str], *between: str) -> None:
    """One line at the start, one at the end, those in between: and nothing for each event."""
    expected = ["ERROR tidings.", *["ERROR tidings."] * len(between), "WARNING tidings."]
    told = ["the store fails", *between, "the store is back"]
    assert len(lines) == len(told), lines
    for line, level, text in zip(lines, expected, told, strict=True):
        assert line.startswith(level), lines
        assert text in line, lines


def name_of(error: int) -> str:
    """For the names of tests."""
    return errno.errorcode[error]


def progress(events: list[SseEvent]) -> list[int]:
    """The numbers of the steps that these events tell."""
    return [int(event.message["params"]["progress"]) for event in events if is_progress(event)]


def is_progress(event: SseEvent) -> bool:
    return bool(event.message.get("method") == "notifications/progress")


def result_text(event: SseEvent) -> str:
    """What the tool said in its result."""
    text: str = event.message["result"]["content"][0]["text"]
    return text

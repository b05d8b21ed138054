"""One adapter: a process that answers questions, a JSON value a line."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path
from typing import IO, Any

# Far above what an answer takes: it only ends what hangs.
LIMIT_SECONDS = 60
# The first answer may have to wait for a build.
FIRST_LIMIT_SECONDS = 1800


class Failed(Exception):
    """The adapter could not answer; the surface under test may be fine."""


class Unsupported(Exception):
    """The adapter does not know the operation."""


class Adapter:
    def __init__(self, command: list[str], folder: Path) -> None:
        self.command, self.folder = command, folder
        self.process: subprocess.Popen[bytes] | None = None
        self.lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.number = 0
        self.features: set[str] = set()

    def start(self) -> None:
        try:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise Failed(f"cannot be started: {error}") from error
        assert self.process.stdout is not None
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.read, args=(self.process.stdout, self.lines), daemon=True).start()
        hello = self.ask("hello", {}, FIRST_LIMIT_SECONDS)
        self.features = set(hello["features"])

    @staticmethod
    def read(source: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
        with source:
            for line in source:
                lines.put(line)
        lines.put(None)

    def ask(self, op: str, given: Any, limit: float = LIMIT_SECONDS) -> Any:
        if self.process is None:
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.number += 1
        question = json.dumps({"id": self.number, "op": op, "in": given}).encode() + b"\n"
        try:
            self.process.stdin.write(question)
            self.process.stdin.flush()
            line = self.lines.get(timeout=limit)
        except (OSError, ValueError):
            line = None
        except queue.Empty:
            self.stop()
            raise Failed(f"no answer within {limit:.0f} s") from None
        if line is None:
            code = self.stop()
            raise Failed(f"the adapter ended with exit code {code}")
        try:
            answer = json.loads(line)
        except ValueError:
            self.stop()
            raise Failed(f"the answer is no JSON: {line[:200]!r}") from None
        if not isinstance(answer, dict) or answer.get("id") != self.number:
            self.stop()
            raise Failed(f"the answer is for another question: {line[:200]!r}")
        if answer.get("unsupported") is True:
            raise Unsupported(op)
        if "out" not in answer:
            raise Failed(str(answer.get("error", "neither out nor error")))
        return answer["out"]

    def stop(self) -> int | None:
        process, self.process = self.process, None
        if process is None:
            return None
        assert process.stdin is not None
        try:
            process.stdin.close()
        except OSError:
            pass
        try:
            return process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

"""Plays scenarios.

A step is {"do", "with"?, "expect"?, "on"?, "until"?}. `do` is an operation of the adapter, or one of the runner's own:

  clock.advance    {ms}: virtual time of every process moves
  crash            kill -9 of the process; its next step starts a new one
  store.block      holds the database's write lock, so that nothing is committed
  store.unblock    lets go of it
  receiver.next    {answer: {status, headers?} or null to hang up, secrets?}: waits for the next request to `${receiver}`,
                   says what came and answers. `signature` is valid, invalid or none; `headers` are x-… and authorization
  receiver.always  {status}: from now on every request is answered so at once; receiver.next then says what came
  receiver.hold    the same as receiver.next without an answer: the request stays open until the scenario ends

`on` names the process, `a` if it is not given. `until` asks again until the expectation holds. Of an answer only the members
that are expected are compared; one with an `error` has to be expected. Names: `${url}` is a database of the scenario's own,
`${receiver}` the receiver's address. Requests that no step took fail the scenario, unless they were always answered.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.adapter import Adapter, Failed, Unsupported
from conformance.fixtures import Scenario
from conformance.matching import Bindings, differences, fill
from conformance.receiver import LIMIT_SECONDS, Receiver, Request

# 2026-11-30T18:40:56.123Z, and ten minutes after the boot
START = {"bootMs": 600_000, "unixMs": 1_796_064_056_123}
Step = dict[str, Any]


def signature_of(request: Request, secrets: list[str]) -> str:
    header = request.headers.get("webhook-signature")
    if header is None:
        return "none"
    content = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = set()
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected.add("v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode())
    return "valid" if set(header.split(" ")) == expected else "invalid"


def told(request: Request, secrets: list[str]) -> dict[str, Any]:
    return {
        "path": request.path,
        "id": request.headers.get("webhook-id"),
        "timestamp": request.headers.get("webhook-timestamp"),
        "contentType": request.headers.get("content-type"),
        "headers": {n: v for n, v in request.headers.items() if n.startswith("x-") or n == "authorization"},
        "signature": signature_of(request, secrets),
        "body": request.body.decode(),
    }


class Stage:
    def __init__(self, first: Adapter, command: list[str], folder: Path) -> None:
        self.command, self.folder = command, folder
        self.processes = {"a": first}
        self.fresh: set[str] = set()
        self.virtual = False
        self.clock = dict(START)
        self.bound: Bindings = {}
        self.receiver = Receiver()
        self.held: list[Request] = []
        self.lock: sqlite3.Connection | None = None
        self.own: dict[str, Callable[[Step, Any], Any]] = {
            "clock.advance": self.advance,
            "crash": self.crash,
            "store.block": self.block,
            "store.unblock": self.unblock,
            "receiver.next": self.take,
            "receiver.hold": self.hold,
            "receiver.always": self.always,
        }

    def play(self, scenario: Scenario) -> list[str]:
        """What is wrong, a line each."""
        self.virtual = "clock" in scenario.features
        with tempfile.TemporaryDirectory(prefix="tidings-conformance-") as folder:
            self.database = Path(folder) / "scenario.db"
            self.bound = {"url": f"sqlite:{self.database}", "receiver": self.receiver.url}
            try:
                faults = self.steps(scenario.steps)
                if not faults and (left := self.end()):
                    faults = [f"{left} requests came that no step took"]
                return faults
            finally:
                self.clean()

    def steps(self, steps: list[Step]) -> list[str]:
        for number, step in enumerate(steps, 1):
            try:
                faults = self.step(step)
            except (Failed, Unsupported, KeyError) as failure:
                faults = [f"{type(failure).__name__}: {failure}"]
            if faults:
                return [f"step {number}, {step['do']}: {fault}" for fault in faults]
        return []

    def step(self, step: Step) -> list[str]:
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            bound = dict(self.bound)
            got = self.do(step, fill(step.get("with", {}), bound))
            faults = self.compare(step.get("expect", {}), got, bound)
            if not faults:
                self.bound = bound
            if not faults or not step.get("until") or time.monotonic() > deadline:
                return faults
            time.sleep(0.01)  # between two looks at what changes on its own

    @staticmethod
    def compare(want: dict[str, Any], got: dict[str, Any], bound: Bindings) -> list[str]:
        if "error" in got and "error" not in want:
            return [f"error {got['error']}"]
        seen = {name: value for name, value in got.items() if name in want}
        return list(differences(want, seen, bound, []))

    def do(self, step: Step, given: Any) -> Any:
        own = self.own.get(step["do"])
        return own(step, given) if own else self.ask(step.get("on", "a"), step["do"], given)

    def ask(self, name: str, op: str, given: Any) -> Any:
        if name not in self.processes:
            self.processes[name] = Adapter(self.command, self.folder)
        process = self.processes[name]
        if name not in self.fresh:
            self.fresh.add(name)
            process.ask("stage.reset", {})
            if self.virtual or "clock" in process.features:
                process.ask("clock.set", {"virtual": self.virtual, **self.clock})
        return process.ask(op, given)

    def advance(self, step: Step, given: Any) -> Any:
        for clock in self.clock:
            self.clock[clock] += given["ms"]
        for name in self.fresh:
            self.processes[name].ask("clock.set", {"virtual": True, **self.clock})
        return {}

    def crash(self, step: Step, given: Any) -> Any:
        name = step.get("on", "a")
        process = self.processes[name].process
        assert process is not None
        process.kill()
        self.processes[name].stop()
        self.fresh.discard(name)
        return {}

    def block(self, step: Step, given: Any) -> Any:
        self.lock = sqlite3.connect(self.database, isolation_level=None, timeout=30)
        self.lock.execute("BEGIN IMMEDIATE")
        return {}

    def unblock(self, step: Step, given: Any) -> Any:
        if self.lock is not None:
            self.lock.close()
            self.lock = None
        return {}

    def take(self, step: Step, given: Any) -> Any:
        request = self.receiver.next()
        if request is None:
            return {"error": f"no request came within {LIMIT_SECONDS} s"}
        request.answer.put(given.get("answer"))
        return told(request, given.get("secrets", []))

    def always(self, step: Step, given: Any) -> Any:
        self.receiver.always = {"status": given["status"]}
        return {}

    def hold(self, step: Step, given: Any) -> Any:
        request = self.receiver.next()
        if request is None:
            return {"error": f"no request came within {LIMIT_SECONDS} s"}
        self.held.append(request)
        return told(request, given.get("secrets", []))

    def end(self) -> int:
        """Closes every hub, which lets attempts in flight end; requests that are left were not expected."""
        self.unblock({}, {})
        left = self.receiver.left()
        answered = self.receiver.always is not None
        for name in self.fresh:
            self.processes[name].ask("stage.reset", {})
        left += self.receiver.left()
        return 0 if answered else left

    def clean(self) -> None:
        self.unblock({}, {})
        for request in self.held:
            request.answer.put(None)
        self.receiver.close()
        for name in self.fresh:
            try:
                self.processes[name].ask("stage.reset", {})
            except (Failed, Unsupported):
                pass
        for name, process in self.processes.items():
            if name != "a":
                process.stop()

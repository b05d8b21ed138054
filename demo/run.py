"""Three tool calls that their client or their server does not live to see the end of, and what comes of them.

  python demo          the server is a Python one
  python demo --node   a TypeScript one, which after each kill -9 the other language follows on the same file

Exits 0 only if everything it tells was seen.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

from client import Client, Event, Stream
from tidings import Hub

HERE = Path(__file__).resolve().parent
NODE = HERE.parent / "node" / "examples" / "build"

SERVERS = {"Python": [sys.executable, str(HERE / "server.py")], "TypeScript": ["node", str(NODE / "demo-server.mjs")]}
"""By language: the same server."""

PATIENCE = 60.0
"""Seconds to wait for something that has to come."""

QUIET = 3.0
"""Seconds to listen for a second copy of something that has to come once."""


class Checks:
    """What was to be seen, and whether it was."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, str, bool]] = []
        self._act = ""

    def act(self, title: str) -> None:
        self._act = title
        print(f"\n{title}\n{'-' * len(title)}")

    def check(self, what: str, seen: bool, found: object = "") -> None:
        self._seen.append((self._act, what, seen))
        print(f"   {'ok  ' if seen else 'FAIL'}  {what}" + ("" if seen else f"; found: {found!r}"))

    def summary(self) -> bool:
        width = max(len(what) for _, what, _ in self._seen)
        print(f"\n{'=' * (width + 9)}")
        act = ""
        for of, what, seen in self._seen:
            if of != act:
                act = of
                print(act)
            print(f"   {what.ljust(width)}  {'seen' if seen else 'NOT SEEN'}")
        missing = sum(not seen for _, _, seen in self._seen)
        print("=" * (width + 9))
        print("All of it was seen." if not missing else f"{missing} of {len(self._seen)} not seen.")
        return not missing


def say(text: str) -> None:
    print(f" * {text}")


def wait_for(what: str, find: Callable[[], Any]) -> Any:
    """What `find` finds, once it finds something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = find()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError(f"{what} did not come within {PATIENCE:.0f} s")


class Server:
    """The MCP server, a process of its own; each time it is started in the next language."""

    def __init__(self, directory: Path, receiver_port: int, languages: list[str]) -> None:
        self.database = directory / "tidings.db"
        self._receiver_port = receiver_port
        self._languages = cycle(languages)
        self._port_file = directory / "server.port"
        self._process: subprocess.Popen[bytes] | None = None
        self.language = ""
        self.port = 0

    def start(self) -> None:
        self.language = next(self._languages)
        self._port_file.unlink(missing_ok=True)
        arguments = [str(self.database), str(self._receiver_port), str(self._port_file)]
        process = self._process = subprocess.Popen([*SERVERS[self.language], *arguments])

        def ready() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            return self._port_file.exists()

        wait_for("the server", ready)
        self.port = int(self._port_file.read_text())

    def kill(self) -> None:
        """kill -9: nothing is flushed, nothing is said."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Receiver:
    """The webhook endpoint, a process of its own. Its port stays the same when it comes back."""

    def __init__(self, directory: Path) -> None:
        self.secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        self._log = directory / "received.jsonl"
        self._log.touch()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        before = len(self._lines())
        command = [sys.executable, str(HERE / "receiver.py"), self.secret, str(self._log), str(self.port)]
        self._process = subprocess.Popen(command)
        started = wait_for("the receiver", lambda: [line for line in self._lines()[before:] if "port" in line])
        self.port = started[0]["port"]

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _lines(self) -> list[dict[str, Any]]:
        text = self._log.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def got(self, call_id: str) -> list[dict[str, Any]]:
        """What has arrived about a call, and everything that could not be verified."""
        deliveries = [line for line in self._lines() if "port" not in line]
        return [one for one in deliveries if not one["verified"] or one["event"]["data"]["callId"] == call_id]

    def wait(self, call_id: str) -> list[dict[str, Any]]:
        """The same, once there is something, and after a while in which a second copy would have come."""
        wait_for("the webhook", lambda: self.got(call_id))
        time.sleep(QUIET)
        return self.got(call_id)

    def config(self) -> dict[str, Any]:
        """Two routes, in order of preference for the triggers both have."""

        def route(id: str, *triggers: str) -> dict[str, Any]:
            endpoint = f"http://127.0.0.1:{self.port}/{id}"
            return {"id": id, "type": "webhook", "endpoint": endpoint, "triggers": triggers, "secret": self.secret}

        return {"routes": [route("primary", "completed", "failed"), route("audit", "failed", "cancelled", "timeout")]}


def steps(events: list[Event]) -> list[int]:
    return [event.message["params"]["progress"] for event in events if "progress" in event.message.get("params", {})]


def read(stream: Stream, until: Callable[[Event], bool] = lambda event: False) -> list[Event]:
    """The messages of a stream, told as they come, up to its end or one that is enough."""
    events = []
    for event in stream:
        if event.message is None:
            continue
        events.append(event)
        message = event.message
        if "result" in message:
            say(f"client   <- result: {message['result']['content'][0]['text']}")
        elif message.get("method") == "notifications/progress":
            say(f"client   <- step {message['params']['progress']:g}: {message['params']['message']}")
        else:
            say(f"client   <- {message.get('method') or message}")
        if until(event):
            break
    return events


def at_step(number: int) -> Callable[[Event], bool]:
    return lambda event: steps([event]) == [number]


def outcome(delivery: dict[str, Any]) -> tuple[str, str, str | None]:
    found = delivery["event"]["data"]["outcome"]
    return delivery["event"]["name"], found["status"], found.get("reason")


def begin(checks: Checks, client: Client, receiver: Receiver, id: int, quarter: str) -> tuple[Stream, dict[str, Any]]:
    """Call the tool and see the config acknowledged before anything else."""
    say(f"client   -> tools/call report({quarter!r}) with two webhook routes, primary and audit")
    stream = client.call(id, "report", {"quarter": quarter}, receiver.config())
    first = read(stream, lambda event: True)[0].message
    acknowledged: dict[str, Any] = first.get("params", {})
    checks.check(
        "the config is acknowledged before the tool runs",
        first.get("method") == "notifications/config/acknowledged"
        and acknowledged["requestId"] == id
        and acknowledged["acceptedRoutes"] == ["primary", "audit"],
        first,
    )
    return stream, acknowledged


def resumed_after_a_cut(checks: Checks, server: Server, receiver: Receiver) -> str:
    checks.act("1. The client loses its connection in the middle of a call")
    client = Client(server.port)
    routes = client.capabilities.get("notificationConfig", {}).get("supportedRouteTypes")
    checks.check("the server says that it knows webhook routes", routes == ["webhook"], client.capabilities)
    stream, acknowledged = begin(checks, client, receiver, 1, "Q1")
    before = read(stream, at_step(2))
    stream.cut()
    say("client   x  the connection is cut after step 2; the tool goes on")
    assert before[-1].id is not None
    say(f"client   -> GET with Last-Event-ID {before[-1].id}")
    after = read(client.resume(before[-1].id))
    say("server   x  closes the resumed stream, which is complete")
    checks.check("steps 3 to 5 come after the resume, each once", steps(after) == [3, 4, 5], steps(after))
    results = [event.message for event in after if "result" in event.message]
    checks.check("the result comes after them, once, and the stream ends", results == [after[-1].message], results)
    if results:
        repeated = results[0]["result"].get("_meta", {}).get("io.tidings/acknowledged")
        checks.check("the acknowledgement is in the result too", repeated == acknowledged, repeated)
    show_webhook(checks, receiver, acknowledged, ("tool_call.completed", "completed", None))
    return client.session


def killed_before_the_webhook(checks: Checks, server: Server, receiver: Receiver) -> str:
    checks.act("2. The server is killed when the outcome is on disk and the webhook is not sent")
    receiver.stop()
    say("receiver x  is down: connections to it are refused")
    client = Client(server.port)
    stream, acknowledged = begin(checks, client, receiver, 2, "Q2")
    after = read(stream)
    checks.check("the result is returned, so its outcome is on disk", "result" in after[-1].message, after[-1].message)
    server.kill()
    say("server   x  kill -9")
    receiver.start()
    say(f"receiver    is back; it has got {len(receiver.got(acknowledged['callId']))} requests about this call")
    checks.check("nothing was delivered before the restart", receiver.got(acknowledged["callId"]) == [])
    server.start()
    say(f"server      a {server.language} one is started on the same file; nobody calls it")
    show_webhook(checks, receiver, acknowledged, ("tool_call.completed", "completed", None))
    return client.session


def killed_during_the_tool(checks: Checks, server: Server, receiver: Receiver) -> None:
    checks.act("3. The server is killed while the tool runs")
    client = Client(server.port)
    stream, acknowledged = begin(checks, client, receiver, 3, "Q3")
    before = read(stream, at_step(2))
    server.kill()
    say("server   x  kill -9, after step 2")
    checks.check("the tool did not come to its end", steps(before) == [1, 2], steps(before))
    server.start()
    say(f"server      a {server.language} one is started on the same file; it finds a call whose process is gone")
    show_webhook(checks, receiver, acknowledged, ("tool_call.failed", "failed", "server_lost"))


def read_by_the_other(checks: Checks, server: Server, typescript: str, python: str) -> None:
    """Each language reads the receipts that the other has written: of the sessions whose webhook it has delivered."""
    checks.act("4. Each language reads what the other has written")

    def in_python(session: str) -> list[str]:
        stream = hub.stream(f"session:{session}", "deliveries")
        return [event.type for event in hub.run(stream.read()).events]

    def in_typescript(session: str) -> list[str]:
        command = ["node", str(NODE / "read.mjs"), str(server.database), f"session:{session}", "deliveries"]
        lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()
        return [json.loads(line)["type"] for line in lines]

    hub = Hub(f"sqlite:{server.database}")
    found = wait_for("the receipt of the TypeScript server", lambda: in_python(typescript))
    checks.check("Python reads the receipt of the TypeScript server", found == ["io.tidings.delivered"], found)
    hub.run(hub.close())
    found = wait_for("the receipt of the Python server", lambda: in_typescript(python))
    checks.check("TypeScript reads the receipt of the Python server", found == ["io.tidings.delivered"], found)


def show_webhook(
    checks: Checks, receiver: Receiver, acknowledged: dict[str, Any], expected: tuple[str, str, str | None]
) -> None:
    try:
        deliveries = receiver.wait(acknowledged["callId"])
    except TimeoutError as error:
        checks.check("the webhook arrives", False, str(error))
        return
    for one in deliveries:
        told = "not verified"
        if one["verified"]:
            name, _, reason = outcome(one)
            told = name + (f", reason {reason}" if reason else "")
        say(f"receiver <- {one['path']} {one['id']}: {told}")
    checks.check("the webhook arrives, once", len(deliveries) == 1, [one["id"] for one in deliveries])
    checks.check("standardwebhooks verifies it", all(one["verified"] for one in deliveries))
    reason = f", reason {expected[2]}" if expected[2] else ""
    checks.check(f"it says {expected[1]}{reason}", outcome(deliveries[0]) == expected, outcome(deliveries[0]))
    checks.check("it came on the route that is preferred", deliveries[0]["path"] == "/primary", deliveries[0]["path"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", action="store_true", help="begin with a TypeScript server")
    both = parser.parse_args().node
    started = time.monotonic()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="tidings-demo-") as name:
        receiver = Receiver(Path(name))
        receiver.start()
        server = Server(Path(name), receiver.port, ["TypeScript", "Python"] if both else ["Python"])
        try:
            server.start()
            print(f"An MCP server in {server.language}, a webhook receiver and a client that nothing goes well for.")
            first = resumed_after_a_cut(checks, server, receiver)
            second = killed_before_the_webhook(checks, server, receiver)
            killed_during_the_tool(checks, server, receiver)
            if both:
                read_by_the_other(checks, server, first, second)
        except Exception as error:  # noqa: BLE001 (whatever it is, the summary tells)
            checks.check("the demo runs to its end", False, f"{type(error).__name__}: {error}")
        finally:
            server.stop()
            receiver.stop()
    passed = checks.summary()
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

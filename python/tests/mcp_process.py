"""A server in a process of its own, which can be killed. Run as a program it is that process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mcp_wire import WAIT

HERE = Path(__file__).resolve()


class Process:
    """A program of these tests that says its port first and then goes on by what it is told."""

    def __init__(self, program: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        self.port = int(self.line())

    def line(self) -> str:
        """What it says next: its port, then what its tools have come to."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server process ended"
        return line.strip()

    def reached(self) -> None:
        """Wait until a tool has come to the gate."""
        assert self.line() == "reached"

    def go(self) -> None:
        """Open the gate."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def notify(self, kind: str) -> int:
        """Has it publish a change; how many listeners of its own it told."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"notify {kind}\n")
        self._process.stdin.flush()
        return int(self.line().removeprefix("told "))

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it, in good order if it still runs."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        try:
            self._process.wait(WAIT)
        finally:
            self._process.kill()


class ServerProcess(Process):
    """The test server of a kind (`mcp_stage.KINDS`), attached to the store on `database`."""

    def __init__(self, database: Path, kind: str, receiver_port: int = 443) -> None:
        super().__init__(HERE, str(database), kind, str(receiver_port))


def main() -> None:
    import threading

    import tidings.mcp
    from mcp_stage import Stage, app_of, server_of
    from mcp_wire import Served
    from tidings import Hub

    database, kind, port = sys.argv[1:]
    hub = Hub(
        f"sqlite:{database}",
        allow_networks=["127.0.0.0/8"],
        allow_http=True,
        allow_ports=[int(port)],
    )
    stage = Stage()
    server = server_of(kind, stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    served = Served(app_of(server))
    print(served.port, flush=True)

    def tell() -> None:
        stage.reached.wait()
        print("reached", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "go":
            stage.gate.open()
        elif line.startswith("notify "):
            fanout = tidings.mcp.notify(server, line.split()[1])
            print(f"told {fanout.told}", flush=True)
    served.stop()
    hub.run(hub.close())


if __name__ == "__main__":
    main()

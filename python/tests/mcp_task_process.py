"""A server with tasks in a process of its own, which can be killed. Run as a program it is that process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()


class TaskProcess:
    """`mcp_tasks.task_server` with tasks and ``tasks/stream``, attached to the store on `database`."""

    def __init__(self, database: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE), str(database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        self.port = int(self.line())

    def line(self) -> str:
        """What it says next: its port, then `reached`, `cancelled`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server process ended"
        return line.strip()

    def go(self) -> None:
        """Open the gate."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

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
            self._process.wait(20)
        finally:
            self._process.kill()


def main() -> None:
    import threading

    import tidings.mcp
    from mcp_tasks import Play, task_server
    from mcp_wire import Served
    from tidings import Hub

    hub = Hub(f"sqlite:{sys.argv[1]}")
    play = Play()
    server = task_server(play)
    tools = dict.fromkeys(("work", "progress", "stubborn", "ask"), "always")
    tidings.mcp.attach(server, hub, tasks=tidings.mcp.Tasks(tools=tools), tasks_stream=True)
    served = Served(server.streamable_http_app())
    print(served.port, flush=True)

    def tell() -> None:
        play.reached.wait()
        print("reached", flush=True)
        play.cancelled._event.wait()
        print("cancelled", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "go":
            play.gate.open()
    served.stop()
    hub.run(hub.close())


if __name__ == "__main__":
    main()

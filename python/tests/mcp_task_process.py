"""A server with tasks in a process of its own, which can be killed. Run as a program it is that process."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp_process import Process

HERE = Path(__file__).resolve()


class TaskProcess(Process):
    """`mcp_tasks.task_server` with tasks and ``tasks/stream``, attached to the store on `database`."""

    def __init__(self, database: Path) -> None:
        super().__init__(HERE, str(database))


def main() -> None:
    import threading

    import tidings.mcp
    from mcp_stage import app_of
    from mcp_tasks import Play, task_server
    from mcp_wire import Served
    from tidings import Hub

    hub = Hub(f"sqlite:{sys.argv[1]}")
    play = Play()
    server = task_server(play)
    tools = dict.fromkeys(("work", "progress", "stubborn", "ask"), "always")
    tidings.mcp.attach(server, hub, tasks=tidings.mcp.Tasks(tools=tools), tasks_stream=True)
    served = Served(app_of(server))
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

"""An MCP server with one slow tool. Run by run.py: server.py DATABASE RECEIVER_PORT PORT_FILE."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import tidings.mcp
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from tidings import Hub

STEPS = ("open the ledger", "read the entries", "add them up", "check the sums", "write the report")
PAUSE = 0.4
"""Seconds each step takes."""

server: MCPServer = MCPServer("demo", log_level="CRITICAL")


@server.tool()
async def report(quarter: str, ctx: Context[Any, Any]) -> str:
    """Work on the report of a quarter, step by step."""
    for number, step in enumerate(STEPS, 1):
        await asyncio.sleep(PAUSE)
        await ctx.report_progress(number, len(STEPS), step)
    return f"The report of {quarter} is ready."


class Announced(uvicorn.Server):
    """Tells its port, which the system chose, by a file that appears when the server is ready."""

    def __init__(self, config: uvicorn.Config, port_file: Path) -> None:
        super().__init__(config)
        self._port_file = port_file

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        ready = self._port_file.with_suffix(".new")
        ready.write_text(str(port))
        os.replace(ready, self._port_file)


def main(database: str, receiver_port: int, port_file: str) -> None:
    # The receiver of the demo is on this machine and speaks plain HTTP; by default neither is allowed.
    hub = Hub(f"sqlite:{database}", allow_networks=["127.0.0.0/8"], allow_http=True, allow_ports=[receiver_port])
    tidings.mcp.attach(server, hub, routes=["webhook"])

    config = uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=0, log_level="critical")
    Announced(config, Path(port_file)).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

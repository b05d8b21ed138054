"""The server whose disk fails: a stock mcp server with tidings attached, on uvicorn. Run by faulty.py with a JSON spec.

Beside /mcp it has /stage, by which the test holds its tools and asks what it counts, without touching the database.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import tidings.mcp
import uvicorn
from mcp_stage import Stage, high_level_server
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tidings import Hub


class Announced(uvicorn.Server):
    """Tells its port, which the system chose, by a file that appears when the server is ready."""

    def __init__(self, config: uvicorn.Config, port_file: Path) -> None:
        super().__init__(config)
        self._port_file = port_file

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        ready = self._port_file.with_suffix(".new")
        ready.write_text(str(self.servers[0].sockets[0].getsockname()[1]))
        os.replace(ready, self._port_file)


def main(spec: dict[str, Any]) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    hub = Hub(
        f"sqlite:{spec['database']}",
        allow_networks=["127.0.0.0/8"],
        allow_http=True,
        allow_ports=[spec["receiver_port"]],
        **spec["hub"],
    )
    usual = {}
    for name, value in spec["patience"].items():
        module, _, constant = name.rpartition(".")
        usual[module, constant] = getattr(sys.modules[module], constant)
        setattr(sys.modules[module], constant, value)
    stage = Stage()
    server = high_level_server(stage)
    attachment = tidings.mcp.attach(server, hub, routes=["webhook"])
    app = server.streamable_http_app()

    async def reached(request: Request) -> JSONResponse:
        await stage.reached.passed()
        return JSONResponse(None)

    async def release(request: Request) -> JSONResponse:
        stage.gate.open()
        return JSONResponse(None)

    async def reset(request: Request) -> JSONResponse:
        stage.reset()
        return JSONResponse(None)

    async def patient(request: Request) -> JSONResponse:
        """As patient as ever, from now on."""
        for (module, constant), value in usual.items():
            setattr(sys.modules[module], constant, value)
        return JSONResponse(None)

    async def flush(request: Request) -> JSONResponse:
        await hub.flush()
        return JSONResponse(None)

    def counts(request: Request) -> JSONResponse:
        stats = hub.stats()
        names = ("groups", "events", "lost", "refused", "failures", "failing")
        told = {name: getattr(stats, name) for name in names}
        return JSONResponse({**told, "tools": len(stage.params), "swallowed": attachment.failures})

    def deliveries(request: Request) -> JSONResponse:
        return JSONResponse([[found.call_id, found.state, found.attempts] for found in hub.deliveries()])

    for endpoint in (reached, release, reset, patient, flush, counts, deliveries):
        app.router.routes.append(Route(f"/stage/{endpoint.__name__}", endpoint))

    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_config=None, log_level="warning", timeout_graceful_shutdown=1
    )
    Announced(config, Path(spec["port_file"])).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

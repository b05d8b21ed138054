"""An MCP server whose users watch a dashboard: what becomes of their tool calls arrives there, over a WebSocket.

    python dashboard.py [PORT]        # prints its port; needs `pip install "tidings[mcp]" uvicorn websockets`

One process serves both, on one port: `/mcp` for MCP clients (Streamable HTTP) and `/dashboard?token=…` for browsers. A call
names the dashboard as a route of type `message`:

    {"routes": [{"id": "d", "type": "message", "endpoint": "dashboard", "triggers": ["completed", "failed"]}]}

The policy makes the caller's own dashboard of it, whatever the client writes: nobody reaches somebody else's. A dashboard
that is not open, or that does not read, does not hold anything up: the delivery goes to the next route, or is tried again.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import tidings.mcp
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket
from tidings import HostDelivery, Hub
from tidings.mcp import Deny, PolicyRequest, Rewrite

ISSUER = "https://login.example"
TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob"}
"""Stands in for your login."""

SECONDS_TO_READ = 5.0
"""A dashboard that takes nothing for so long is closed: its browser may come back."""


class Login:
    """Who asks, for MCP clients."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user = TOKENS.get(token)
        if user is None:
            return None
        return AccessToken(token=token, client_id="any", scopes=[], subject=user, claims={"iss": ISSUER})


hub = Hub("memory:")
server = MCPServer(
    "reports",
    token_verifier=Login(),
    auth=AuthSettings(issuer_url=AnyHttpUrl(ISSUER), resource_server_url=None, required_scopes=[]),
)


@server.tool()
async def report(quarter: str) -> str:
    """Writes a report."""
    return f"The report of {quarter} is ready."


def policy(request: PolicyRequest) -> Rewrite | Deny:
    """Whatever a client calls its dashboard becomes the one of the user who is logged in."""
    for user in TOKENS.values():
        if request.principal == tidings.mcp.principal(ISSUER, user, "any"):
            own = f"dashboard/{user}"
            routes = request.config.get("routes")
            for route in routes if isinstance(routes, list) else ():
                if isinstance(route, dict) and route.get("type") == "message" and "endpoint" in route:
                    route["endpoint"] = own
            return Rewrite(request.config, open=[own])
    return Deny("log in first")


async def dashboard(browser: WebSocket) -> None:
    """One browser, from its coming to its going."""
    user = TOKENS.get(browser.query_params.get("token", ""))
    if user is None:
        await browser.close(1008)
        return
    await browser.accept()

    async def send(delivery: HostDelivery) -> None:
        # Done when the browser's side of the connection has taken it; until then nothing else is sent to this one.
        try:
            await asyncio.wait_for(browser.send_text(delivery.frame().decode()), SECONDS_TO_READ)
        except asyncio.TimeoutError:
            leaving.set()
            raise

    leaving = asyncio.Event()
    serving = asyncio.create_task(hub.serve_sink(f"dashboard/{user}", send, timeout=SECONDS_TO_READ + 1))
    reading = asyncio.create_task(_until_it_goes(browser))
    too_slow = asyncio.create_task(leaving.wait())
    try:
        await asyncio.wait({serving, reading, too_slow}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (serving, reading, too_slow):
            task.cancel()
        await asyncio.gather(serving, reading, too_slow, return_exceptions=True)
    if leaving.is_set():
        try:
            await asyncio.wait_for(browser.close(1013), 1.0)  # try again later
        except asyncio.TimeoutError:
            pass  # the closing frame stands behind what it does not read; the connection goes with this function


async def _until_it_goes(browser: WebSocket) -> None:
    async for _ in browser.iter_text():
        pass


tidings.mcp.attach(server, hub, routes=["webhook", "message"], policy=policy)
app = server.streamable_http_app()
app.router.routes.append(WebSocketRoute("/dashboard", dashboard))


def main() -> None:
    """Serves until it is interrupted."""
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()

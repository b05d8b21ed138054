"""Servers with the same tools on the SDK that is installed: mcp 2.x, mcp 1.x, or FastMCP (which brings mcp 2.x).

Every test of the mcp adapter gets its servers here, so that one test says for all of them what has to hold; what an SDK
cannot do is a flag below.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from mcp_stage_tools import Stage
from mcp_wire import LEGACY, MODERN

if find_spec("fastmcp") is not None:
    SDK = "fastmcp"
    from mcp_stage_fastmcp import SERVERS, Context, app_of, guarded_server, high_level_server, plain_tool
elif find_spec("mcp_types") is not None:
    SDK = "mcp2"
    from mcp.server.mcpserver import Context
    from mcp_stage_v2 import SERVERS, app_of, guarded_server, high_level_server, plain_tool
else:
    SDK = "mcp1"
    from mcp_stage_v1 import SERVERS, Context, app_of, guarded_server, high_level_server, plain_tool

KINDS = tuple(SERVERS)
"""The kinds of server there are."""

ERAS = [LEGACY] if SDK == "mcp1" else [LEGACY, MODERN]
"""The protocol versions to test, one of each era that the SDK speaks."""

RAISES_PROTOCOL_ERRORS = SDK == "mcp2"
"""Whether an error that a tool raises on purpose is answered as that error, and not as a result that says isError."""

CANCELLED = 0 if SDK == "mcp1" else -32800
"""The code of the SDK's own answer to a request that was cancelled."""


def server_of(kind: str, stage: Stage) -> Any:
    """A server of that kind."""
    return SERVERS[kind](stage)


__all__ = [
    "CANCELLED",
    "ERAS",
    "KINDS",
    "RAISES_PROTOCOL_ERRORS",
    "SDK",
    "SERVERS",
    "Context",
    "Stage",
    "app_of",
    "guarded_server",
    "high_level_server",
    "plain_tool",
    "server_of",
]

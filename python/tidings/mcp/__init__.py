"""The adapter to the MCP Python SDKs: mcp 2.x, mcp 1.30 and FastMCP 4.

Two lines give an existing server durable, resumable streams and outcome webhooks::

    hub = tidings.Hub("sqlite:tidings.db")
    tidings.mcp.attach(server, hub, routes=["webhook"])

`attach` works on an `MCPServer`, a `FastMCP` and a low-level `Server`. `EventStore` alone goes wherever the SDK takes an
``event_store=``; `ResumeFront` resumes sessions of other processes where neither is at work. `SDK_VERSION` says which SDK
was found. Everything needs only stock releases of the SDK; the private names it touches are listed in
`_compat`, `_host1` and `_transports`, and `attach` refuses, naming them, when a release has moved one.
"""

from __future__ import annotations

from typing import Any

from ._attach import Attachment, attach, notify
from ._current import ToolCall, current_call
from ._event_store import EventStore, SessionEventStore
from ._policy import Allow, Deny, PolicyRequest, Rewrite
from ._principals import principal
from ._resume import ResumeFront
from ._sdk import GENERATION
from ._sdk import VERSION as SDK_VERSION
from ._task_policy import Tasks

__all__ = [
    "SDK_VERSION",
    "Allow",
    "Attachment",
    "Deny",
    "EventStore",
    "PolicyRequest",
    "ResumeFront",
    "Rewrite",
    "SessionEventStore",
    "Tasks",
    "ToolCall",
    "attach",
    "current_call",
    "notify",
    "principal",
]


def __getattr__(name: str) -> Any:
    # Made of what only mcp 1.x has: its experiment with tasks, of 2025-11-25.
    if name in ("TaskMessageQueue", "TaskStore"):
        if GENERATION != 1:
            raise AttributeError(f'tidings.mcp.{name} is for mcp 1.30; with mcp 2.x say attach(…, tasks="auto")')
        from ._task_queue1 import TaskMessageQueue
        from ._task_store1 import TaskStore

        return {"TaskMessageQueue": TaskMessageQueue, "TaskStore": TaskStore}[name]
    if name in ("ClientNotices", "ListenHandler", "StreamGap", "SubscriptionBus"):
        # Made of what only mcp 2.x has.
        if GENERATION != 2:
            raise AttributeError(f"tidings.mcp.{name} is for mcp 2.x")
        from ._bus import SubscriptionBus
        from ._client_notices import ClientNotices, StreamGap
        from ._listen import ListenHandler

        return {
            "ClientNotices": ClientNotices,
            "ListenHandler": ListenHandler,
            "StreamGap": StreamGap,
            "SubscriptionBus": SubscriptionBus,
        }[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

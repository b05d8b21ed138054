"""The adapter to the MCP Python SDK, mcp 2.x.

Two lines give an existing server durable, resumable streams and outcome webhooks::

    hub = tidings.Hub("sqlite:tidings.db")
    tidings.mcp.attach(server, hub, routes=["webhook"])

`attach` works on an `MCPServer` and on a low-level `Server`. `EventStore` alone goes wherever the SDK takes an
``event_store=``. Everything needs only stock releases of the SDK; the private names it touches are listed in
`_compat`, and `attach` refuses, naming them, when a release has moved one.
"""

from __future__ import annotations

try:
    import mcp_types as _mcp_types
except ImportError as error:
    raise ImportError("tidings.mcp needs the MCP SDK 2.x; install it with: pip install 'tidings[mcp]'") from error
del _mcp_types

from ._attach import Attachment, attach
from ._current import ToolCall, current_call
from ._event_store import EventStore, SessionEventStore
from ._task_policy import Tasks

__all__ = ["Attachment", "EventStore", "SessionEventStore", "Tasks", "ToolCall", "attach", "current_call"]

"""The adapter to the MCP Python SDK, mcp 2.x.

Two lines give an existing server durable, resumable streams and outcome webhooks::

    hub = tidings.Hub("sqlite:tidings.db")
    tidings.mcp.attach(server, hub, routes=["webhook"])

`attach` works on an `MCPServer` and on a low-level `Server`. `EventStore` alone goes wherever the SDK takes an
``event_store=``. Everything needs only stock releases of the SDK; the private names it touches are listed in
`_compat`, and `attach` refuses, naming them, when a release has moved one.
"""

from __future__ import annotations

from ._attach import Attachment, attach
from ._event_store import EventStore, SessionEventStore
from ._resume import ResumeFront, principal

__all__ = ["Attachment", "EventStore", "ResumeFront", "SessionEventStore", "attach", "principal"]

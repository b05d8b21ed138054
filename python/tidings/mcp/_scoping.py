"""Giving every transport of the SDK an event store of its own session.

The SDK's `EventStore` interface does not say which session an event belongs to, and its stream ids are bare request
ids, so one store shared by a manager mixes sessions. The only place that knows both the store and the session is a
transport's constructor; it is wrapped once, at class level, and acts only on transports that were given a
`tidings.mcp.EventStore`. That covers the SDK's session manager and any other that makes the SDK's transports.
"""

from __future__ import annotations

import functools
import uuid
import weakref
from typing import Any, Final

from mcp.server.streamable_http import StreamableHTTPServerTransport

from . import _compat

_MARK: Final = "__tidings_scoped__"


def install() -> None:
    """Wrap the constructor of the SDK's transport. Doing it twice does nothing."""
    original = StreamableHTTPServerTransport.__init__
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def init(self: StreamableHTTPServerTransport, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _scope(self)

    setattr(init, _MARK, True)
    StreamableHTTPServerTransport.__init__ = init  # type: ignore[method-assign]


def _scope(transport: StreamableHTTPServerTransport) -> None:
    from ._event_store import EventStore

    store = _compat.transport_store(transport)
    if not isinstance(store, EventStore):
        return
    # A transport without a session serves one client and nothing is shared beyond it.
    session = transport.mcp_session_id or uuid.uuid4().hex
    scoped = store.scoped(session, close_sse_stream=_closer(transport))
    _compat.set_transport_store(transport, scoped)
    # When the session is gone its open streams are closed, so that their retention can end.
    weakref.finalize(transport, scoped.close).atexit = False


def _closer(transport: StreamableHTTPServerTransport) -> Any:
    held = weakref.ref(transport)

    def close(stream_id: str) -> None:
        alive = held()
        if alive is not None:
            alive.close_sse_stream(stream_id)

    return close

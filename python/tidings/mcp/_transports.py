"""The private names of the SDK's Streamable HTTP that the adapter touches; mcp 1.x and 2.x share them, FastMCP adds two."""

from __future__ import annotations

import inspect
from typing import Any

from mcp.server.streamable_http import GET_STREAM_KEY, EventStore, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


def store_of(transport: StreamableHTTPServerTransport) -> EventStore | None:
    """The event store a transport was made with."""
    return transport._event_store


def set_store(transport: StreamableHTTPServerTransport, store: EventStore) -> None:
    """Give a transport another event store; it reads the attribute at each use."""
    transport._event_store = store


def is_full(transport: StreamableHTTPServerTransport, stream_id: str) -> bool:
    """Whether the connection a stream is sent on has as many messages waiting as the SDK lets wait.

    The next message then holds up the whole session until the client has read one.
    """
    streams = transport._request_streams.get(stream_id)
    if streams is None:
        return False
    waiting = streams[0].statistics()
    return waiting.current_buffer_used >= waiting.max_buffer_size


def has_stream_of_its_own(transport: StreamableHTTPServerTransport) -> bool:
    """Whether a session's client has a GET stream open."""
    return GET_STREAM_KEY in transport._request_streams


def inner_store(wrapper: EventStore) -> EventStore | None:
    """The event store inside one of FastMCP's `SessionScopedEventStore`."""
    inner: EventStore | None = getattr(wrapper, "_event_store", None)
    return inner


def manager_store(manager: StreamableHTTPSessionManager) -> EventStore | None:
    """The event store a session manager was made with (FastMCP's manager wraps it anew whenever it is asked)."""
    store: EventStore | None = getattr(manager, "_shared_event_store", None)
    return store if store is not None else manager.event_store


def session(manager: StreamableHTTPSessionManager, session_id: str | None) -> StreamableHTTPServerTransport | None:
    """The transport of a session that the manager holds."""
    return None if session_id is None else manager._server_instances.get(session_id)


def missing() -> list[str]:
    """Which of these names the installed SDK does not have."""
    transport = "mcp.server.streamable_http.StreamableHTTPServerTransport"
    manager = "mcp.server.streamable_http_manager.StreamableHTTPSessionManager"
    wanted = {
        f"{transport}._event_store": assigns(StreamableHTTPServerTransport, "_event_store"),
        f"{transport}._request_streams": assigns(StreamableHTTPServerTransport, "_request_streams"),
        f"{manager}._admit_session(requestor)": takes(
            getattr(StreamableHTTPSessionManager, "_admit_session", None), "requestor"
        ),
        f"{manager}._handle_stateful_request(scope, receive, send)": takes(
            getattr(StreamableHTTPSessionManager, "_handle_stateful_request", None), "scope", "receive", "send"
        ),
        f"{manager}._server_instances": assigns(StreamableHTTPSessionManager, "_server_instances"),
    }
    return [name for name, there in wanted.items() if not there]


def takes(function: Any, *names: str) -> bool:
    """Whether a function has parameters of these names."""
    return function is not None and all(
        name in inspect.signature(inspect.unwrap(function)).parameters for name in names
    )


def assigns(cls: type, name: str) -> bool:
    """Whether a class's constructor sets an attribute: it exists only once an instance does."""
    constructor: Any = inspect.unwrap(cls.__dict__["__init__"])
    return name in constructor.__code__.co_names

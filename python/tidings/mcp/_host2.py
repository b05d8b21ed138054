"""Attaching to a server of mcp 2.x (FastMCP's included); `_host1` has the same names for mcp 1.x."""

from __future__ import annotations

import functools
from typing import Any, Final

from mcp.server.lowlevel.server import Server

from .. import Hub
from . import _compat, _fan_out, _scoping
from ._call_methods import CallMethods
from ._calls import Limits
from ._event_store import EventStore
from ._middleware import Middleware
from ._nursery import Nurseries
from ._routing import Routing
from ._task_methods import TaskMethods
from ._task_policy import Tasks
from ._timeouts import Timeout
from ._trouble import Trouble

SERVERS: Final = "an MCPServer or a low-level Server of mcp 2.x or a FastMCP of fastmcp 4"
"""What `low_level` knows, for messages."""

fan_out = _fan_out.install
low_level = _compat.low_level
missing = _compat.missing


def spelled(uri: str) -> str:
    """A resource's URI as this SDK shows it to clients."""
    return uri


def is_attached(server: Server[Any]) -> bool:
    """Whether `install` has been here."""
    return any(isinstance(middleware, Middleware) for middleware in server.middleware)


def install(
    server: Server[Any],
    hub: Hub,
    routing: Routing,
    timeout: Timeout,
    limits: Limits,
    nurseries: Nurseries,
    trouble: Trouble,
    store: EventStore | None,
    tasks: Tasks | None,
    tasks_stream: bool,
    step_aside: bool,
) -> bool:
    """Put the adapter into a server; whether it serves tasks. Raises RuntimeError where tasks are served already and it may
    not `step_aside`."""
    if tasks is not None:
        methods = TaskMethods(server, hub, tasks, stream=tasks_stream, trouble=trouble)
        if not methods.install(step_aside=step_aside):
            tasks = None
    middleware = Middleware(server, hub, routing, timeout, limits, nurseries, trouble, tasks)
    if routing:
        CallMethods(server, hub, trouble).install()
    chain = server.middleware
    chain.insert(1 if chain and type(chain[0]).__name__ == _compat.TELEMETRY else 0, middleware)
    server.lifespan = nurseries.around(server.lifespan)
    if store is not None:
        _default_event_store(server, store)
    return tasks is not None


def _default_event_store(server: Server[Any], store: EventStore) -> None:
    """Make `store` the default of the server's apps, of those to come and of the one there may be."""
    inner = server.streamable_http_app

    @functools.wraps(inner)
    def streamable_http_app(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("event_store") is None:
            kwargs["event_store"] = store
        return inner(*args, **kwargs)

    # Whatever makes its session manager itself, as FastMCP does
    _scoping.default_store(server, store)
    # `MCPServer` and `run` come through here as well.
    server.streamable_http_app = streamable_http_app  # type: ignore[method-assign]
    manager = _compat.existing_manager(server)
    if manager is not None and manager.event_store is None:
        manager.event_store = store

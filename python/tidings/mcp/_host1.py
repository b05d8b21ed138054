"""Attaching to a server of mcp 1.x; `_host2` has the same names for mcp 2.x.

mcp 1.x has no middleware: the handler of ``tools/call`` is wrapped where the server keeps it. And it enters a server's
lifespan once for each session, so that a call which outlives its session would lose its task with it: over HTTP the calls
live as long as the session manager.
"""

from __future__ import annotations

import functools
import weakref
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp import types
from mcp.server.fastmcp import FastMCP
from mcp.server.lowlevel import server as _lowlevel
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.session import BaseSession
from pydantic import AnyUrl, ValidationError

from .. import Hub
from . import _capabilities, _fan_out1, _scoping, _transports, _wire
from ._calls import Limits, WatchedCall
from ._event_store import EventStore
from ._nursery import Nurseries, Nursery
from ._peers import Peer
from ._request1 import Handler, Request1, config_taken
from ._routing import Routing
from ._task_policy import Tasks
from ._timeouts import Timeout, limit_of
from ._transports import assigns
from ._trouble import Trouble

SERVERS: Final = "a FastMCP or a low-level Server of mcp 1.x"
"""What `low_level` knows, for messages."""

fan_out = _fan_out1.install

_MARK: Final = "__tidings_watched__"

_attached: Final[weakref.WeakKeyDictionary[Server, Nurseries]] = weakref.WeakKeyDictionary()


def low_level(server: object) -> Server | None:
    """The low-level server inside `server`, or None when `server` is not one of mcp 1.x."""
    if isinstance(server, FastMCP):
        return server._mcp_server
    return server if isinstance(server, Server) else None


def spelled(uri: str) -> str:
    """A resource's URI as this SDK shows it to clients, who subscribe to what they were shown."""
    try:
        return str(AnyUrl(uri))
    except ValidationError:
        return uri


def missing() -> list[str]:
    """The private names the adapter relies on and the installed SDK does not have."""
    wanted = {
        "mcp.server.lowlevel.server.request_ctx": hasattr(_lowlevel, "request_ctx"),
        "mcp.server.lowlevel.Server.request_handlers": assigns(Server, "request_handlers"),
        "mcp.server.fastmcp.FastMCP._mcp_server": assigns(FastMCP, "_mcp_server"),
        "mcp.shared.session.BaseSession._in_flight": assigns(BaseSession, "_in_flight"),
        "mcp.shared.session.BaseSession._exit_stack": assigns(BaseSession, "_exit_stack"),
        "mcp.shared.session.BaseSession._write_stream": assigns(BaseSession, "_write_stream"),
        "mcp.server.session.ServerSession.client_params": hasattr(ServerSession, "client_params"),
    }
    return [*(name for name, there in wanted.items() if not there), *_transports.missing(), *_fan_out1.missing()]


def is_attached(server: Server) -> bool:
    """Whether `install` has been here."""
    return server in _attached


def install(
    server: Server,
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
    """Put the adapter into a server. Raises RuntimeError for tasks: their extension begins with 2026-07-28 and mcp 2.x."""
    if tasks is not None:
        raise RuntimeError(
            'tasks and tasks_stream need mcp 2.x; with mcp 1.x leave tasks "off" and pass a tidings.mcp.TaskStore to '
            "server.experimental.enable_tasks()"
        )
    _attached[server] = nurseries
    _wrap_manager()
    server.lifespan = nurseries.around(server.lifespan, once=True)
    watch = _Watch(server, hub, routing, timeout, limits, nurseries, trouble)
    _wrap_handler(server, watch)
    if routing.offers:
        _advertise(server, routing)
    if store is not None:
        _scoping.default_store(server, store)
    return False


def _wrap_handler(server: Server, watch: _Watch) -> None:
    """Wrap the handler there is, and those that are registered from here on."""

    def wrap() -> None:
        handler = server.request_handlers.get(types.CallToolRequest)
        if handler is not None and not hasattr(handler, _MARK):
            wrapped = functools.partial(watch.call, handler)
            setattr(wrapped, _MARK, True)
            server.request_handlers[types.CallToolRequest] = wrapped

    wrap()
    inner = server.call_tool

    @functools.wraps(inner)
    def call_tool(*args: Any, **kwargs: Any) -> Any:
        register = inner(*args, **kwargs)

        def decorator(function: Any) -> Any:
            registered = register(function)
            wrap()
            return registered

        return decorator

    server.call_tool = call_tool


def _advertise(server: Server, routing: Routing) -> None:
    inner = server.get_capabilities

    @functools.wraps(inner)
    def get_capabilities(*args: Any, **kwargs: Any) -> types.ServerCapabilities:
        found = inner(*args, **kwargs).model_dump(by_alias=True, exclude_none=True)
        told = _capabilities.advertise({"capabilities": found}, routing.types_of_server())["capabilities"]
        return types.ServerCapabilities.model_validate(told)

    server.get_capabilities = get_capabilities


def _wrap_manager() -> None:
    """Session managers of attached servers keep a nursery while they run. Doing it twice does nothing."""
    original = StreamableHTTPSessionManager.run
    if hasattr(original, _MARK):
        return

    @asynccontextmanager
    @functools.wraps(original)
    async def run(self: StreamableHTTPSessionManager) -> Any:
        nurseries = _attached.get(self.app)
        async with original(self):
            if nurseries is None:
                yield
            else:
                async with nurseries.opened(None):
                    yield

    setattr(run, _MARK, True)
    StreamableHTTPSessionManager.run = run


class _Watch:
    """What `Middleware` is on mcp 2.x."""

    def __init__(
        self,
        server: Server,
        hub: Hub,
        routing: Routing,
        timeout: Timeout,
        limits: Limits,
        nurseries: Nurseries,
        trouble: Trouble,
    ) -> None:
        self._server = weakref.ref(server)
        self._hub = hub
        self._routing = routing
        self._timeout = timeout
        self._limits = limits
        self._nurseries = nurseries
        self._trouble = trouble

    async def call(self, handler: Handler, request: types.CallToolRequest) -> types.ServerResult:
        """One ``tools/call``."""
        seconds = limit_of(self._timeout, request.params.name)
        in_meta = config_taken(request)
        # A call that asked to become a task of the 2025-11-25 experiment answers before it has done anything.
        if self._routing and request.params.task is None:
            ctx = _lowlevel.request_ctx.get()
            asked = Request1(ctx, request, handler, in_meta)
            nursery = self._nurseries.current(ctx.lifespan_context)
            peer = asked.peer(self._routing, nursery)
            brings = self._routing.offers and _wire.CONFIG in asked.params
            if brings or self._routing.default_config(request.params.name, peer) is not None:
                return await self._watch(asked, nursery, peer, seconds)
        if seconds is None:
            return await handler(request)
        with anyio.move_on_after(seconds):
            return await handler(request)
        raise _wire.timed_out(seconds)

    async def _watch(
        self, asked: Request1, nursery: Nursery | None, peer: Peer | None, seconds: float | None
    ) -> types.ServerResult:
        principal, counted_as = asked.principal()
        call = WatchedCall(
            self._hub,
            asked,
            principal=principal,
            counted_as=counted_as,
            limits=self._limits,
            routing=self._routing,
            peer=peer,
            timeout=seconds,
            trouble=self._trouble,
        )
        if nursery is not None:
            nursery.start(call)
            result = await call.respond()
        else:
            await call.run()
            result = call.answer()
        return types.ServerResult(types.CallToolResult.model_validate(result))

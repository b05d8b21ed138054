"""The one middleware that `attach` puts around every request of a server."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .. import Hub
from . import _capabilities, _compat, _wire
from ._calls import Limits, WatchedCall
from ._nursery import Nurseries
from ._peers import Peer
from ._principal import principal_of
from ._request2 import Request2, config_moved, peer_of
from ._routing import Routing
from ._task_call import TaskCall
from ._task_methods import asker, declared, undeclared
from ._task_policy import NEVER, REQUIRED, Tasks
from ._timeouts import Timeout, limit_of
from ._trouble import Trouble


class Middleware:
    """Watches calls that carry a config, says so in the capabilities, and lets everything else through untouched.

    It stands outside every other middleware but the SDK's telemetry: what they do to a result is done to what is
    delivered too, and what they hold open for a tool stays open while the tool runs on without its request.
    """

    def __init__(
        self,
        server: Server[Any],
        hub: Hub,
        routing: Routing,
        timeout: Timeout,
        limits: Limits,
        nurseries: Nurseries,
        trouble: Trouble,
        tasks: Tasks | None = None,
    ) -> None:
        self._server = server
        self._hub = hub
        self._routing = routing
        self._timeout = timeout
        self._limits = limits
        self._nurseries = nurseries
        self._trouble = trouble
        self._tasks = tasks

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """One inbound request or notification."""
        method = ctx.method
        if method == "tools/call":
            ctx = config_moved(ctx, keep=self._routing.offers)
            if self._tasks is not None and (call := self._task_call(ctx, call_next, self._tasks)) is not None:
                return await call.respond()
            if self._routing and self._is_served(ctx) and (watched := self._watched(ctx, call_next)) is not None:
                return await watched
            if self._timeout is not None:
                return await self._bound(ctx, call_next)
        elif self._routing.offers and method in _capabilities.METHODS:
            types = self._routing.types_of(self._peer_of(ctx))
            return _capabilities.advertise(_wire.result_dict(await call_next(ctx)), types)
        return await call_next(ctx)

    def _task_call(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, tasks: Tasks) -> TaskCall | None:
        mode = tasks.mode((ctx.params or {}).get("name"))
        nursery = self._nurseries.current(ctx.lifespan_context)
        if mode == NEVER or not self._is_served(ctx):
            return None
        if not declared(ctx):
            if mode == REQUIRED and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                raise undeclared()
            return None
        if nursery is None:
            return None
        methods.validate_client_request("tools/call", ctx.protocol_version, ctx.params)
        params = ctx.params or {}
        if not self._routing.offers:
            # A config means nothing to this server: the tool gets its parameters as they are.
            params = {key: value for key, value in params.items() if key != _wire.CONFIG}
        principal, counted_as = principal_of(ctx)
        request = Request2(replace(ctx, params=params), call_next)
        call = TaskCall(
            self._hub,
            request,
            principal=principal,
            counted_as=counted_as,
            limits=self._limits,
            routing=self._routing,
            peer=request.peer(self._routing, nursery),
            timeout=self._limit_of(ctx),
            trouble=self._trouble,
            policy=tasks,
            mode=mode,
            bound=asker(ctx)[1],
            stamp=lambda: _compat.server_info_meta(self._server),
        )
        nursery.start(call)
        return call

    def _is_served(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        # What the SDK is going to refuse anyway must not get a config accepted first; it says why in its own words.
        if ctx.request_id is None or self._server.get_request_handler("tools/call") is None:
            return False
        return _compat.connection(ctx.session).initialize_accepted

    def _peer_of(self, ctx: ServerRequestContext[Any, Any]) -> Peer | None:
        # Before the handshake there is no telling the era but by the request itself.
        connection = _compat.connection(ctx.session)
        nursery = self._nurseries.current(ctx.lifespan_context)
        if nursery is None or ctx.method != "initialize" or not connection.has_standalone_channel:
            return None
        return peer_of(connection, self._routing, nursery, over_http=ctx.request is not None)

    def _watched(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> Coroutine[Any, Any, dict[str, Any]] | None:
        """The call, if its client or the server itself wants it watched."""
        asked = self._routing.offers and _wire.CONFIG in (ctx.params or {})
        request = Request2(ctx, call_next)
        peer = request.peer(self._routing, self._nurseries.current(ctx.lifespan_context))
        tool = (ctx.params or {}).get("name", "")
        if not asked and self._routing.default_config(tool, peer) is None:
            return None
        return self._watch(ctx, request, peer)

    async def _watch(self, ctx: ServerRequestContext[Any, Any], request: Request2, peer: Peer | None) -> dict[str, Any]:
        # Raises what the SDK would raise for parameters that are no tools/call; nothing is accepted then.
        methods.validate_client_request("tools/call", ctx.protocol_version, ctx.params)
        principal, counted_as = principal_of(ctx)
        call = WatchedCall(
            self._hub,
            request,
            principal=principal,
            counted_as=counted_as,
            limits=self._limits,
            routing=self._routing,
            peer=peer,
            timeout=self._limit_of(ctx),
            trouble=self._trouble,
        )
        nursery = self._nurseries.current(ctx.lifespan_context)
        if nursery is not None:
            nursery.start(call)
            return await call.respond()
        # Driven without a lifespan (in memory, or while going down): the call lives and ends inside its request.
        await call.run()
        return call.answer()

    async def _bound(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        seconds = self._limit_of(ctx)
        if seconds is None:
            return await call_next(ctx)
        with anyio.move_on_after(seconds):
            return await call_next(ctx)
        raise _wire.timed_out(seconds)

    def _limit_of(self, ctx: ServerRequestContext[Any, Any]) -> float | None:
        return limit_of(self._timeout, (ctx.params or {}).get("name", ""))

"""``subscriptions/listen`` (2026-07-28), served from the hub: one call is one listener."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, SubscriptionsListenResult

from .. import InvalidArgument, TidingsError
from .._native import Profile
from . import _compat, _wire
from ._desk import Desks
from ._opening import opening_of
from ._principal import principal_of
from ._task_methods import declared, undeclared

MAX_LISTENERS: Final = 1024
"""As many listeners one event loop serves, unless said otherwise."""


class _Listener:
    """A writer, see `_desk.Writer`."""

    def __init__(self, outbound: DispatchContext[Any]) -> None:
        self._outbound = outbound
        self.ended = anyio.Event()
        self.in_order = False

    async def write(self, method: str, params: dict[str, Any] | None) -> None:
        await self._outbound.notify(method, params)

    def failed(self) -> None:
        self.ended.set()

    def finished(self) -> None:
        self.in_order = True
        self.ended.set()


class ListenHandler:
    """Serves ``subscriptions/listen``; `attach` registers one.

    Unlike the SDK's it honours only what the server advertises, tells tasks by ``taskIds``, coalesces instead of ending a
    stream that lags, and tells what other processes publish.
    """

    def __init__(self, server: Server[Any], desks: Desks, *, max_listeners: int = MAX_LISTENERS) -> None:
        self._server = server
        self._desks = desks
        self._max = max_listeners

    async def __call__(self, ctx: ServerRequestContext[Any, Any], params: Any) -> SubscriptionsListenResult:
        """Serve one listener until its client leaves or `close`."""
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id")
        asked = (ctx.params or {}).get("notifications")
        if not isinstance(asked, Mapping):
            raise MCPError(INVALID_PARAMS, "notifications: must be an object")
        if asked.get("taskIds") and not declared(ctx):
            raise undeclared()
        desk, principal = None, principal_of(ctx)[0]
        try:
            profile = self._profile(ctx)
            honoured = profile.honoured(_wire.dumps(self._theirs(asked, principal)).decode())
            if opening_of(self._desks.hub).ready():
                desk = self._desks.current(ctx.lifespan_context)
            if desk is None:
                raise MCPError(INTERNAL_ERROR, "Notifications cannot be served now; try again later")
            if len(desk.outbox) >= self._max:
                raise MCPError(INTERNAL_ERROR, "Subscription limit reached")
            listener = _Listener(_compat.request_outbound(ctx.session))
            sink = desk.add(listener, principal)
        except InvalidArgument as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except TidingsError as error:
            self._desks.trouble.report("a listener could not be served", error)
            raise MCPError(INTERNAL_ERROR, "Notifications cannot be served now; try again later") from error
        try:
            desk.outbox.listen(sink, profile, ctx.request_id, honoured)
            await listener.ended.wait()
        finally:
            desk.drop(sink)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        return SubscriptionsListenResult(_meta=meta)

    def _profile(self, ctx: ServerRequestContext[Any, Any]) -> Profile:
        server = self._server.get_capabilities(protocol_version=ctx.protocol_version)
        client = ctx.session.client_capabilities
        return Profile(ctx.protocol_version, _json(server), "{}" if client is None else _json(client))

    def _theirs(self, asked: Mapping[str, Any], principal: str) -> dict[str, Any]:
        """The filter without the tasks that are not there for who asks."""
        filtered = dict(asked)
        ids = asked.get("taskIds")
        if isinstance(ids, list):
            hub = self._desks.hub
            # What is no text the core refuses.
            theirs = [i for i in ids if not isinstance(i, str) or hub.task(i, principal=principal) is not None]
            filtered["taskIds"] = theirs
        return filtered

    def close(self) -> None:
        """End every listener in order: each gets what was promised, then its result. Does not wait for that."""
        for desk in self._desks.each():
            desk.outbox.end_all()


def _json(model: Any) -> str:
    text: str = model.model_dump_json(by_alias=True, exclude_none=True)
    return text

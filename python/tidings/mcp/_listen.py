"""``subscriptions/listen`` (2026-07-28), served from the hub: one call is one listener."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, SubscriptionsListenResult

from .. import Hub, InvalidArgument, TidingsError
from .._native import Profile
from . import _compat, _wire
from ._bus import SubscriptionBus
from ._desk import DEADLINE, Desk, Desks
from ._opening import opening_of
from ._principal import principal_of
from ._task_methods import declared, undeclared
from ._task_policy import EXTENSION
from ._trouble import Trouble

MAX_LISTENERS: Final = 1024
"""As many listeners one event loop serves, unless said otherwise."""

_NOT_NOW: Final = "Notifications cannot be served now; try again later"

_EVERYTHING: Final = json.dumps(
    {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "extensions": {EXTENSION: {}},
    }
)
"""What a server is taken to advertise that nobody has named."""


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
    """Serves ``subscriptions/listen`` (2026-07-28) from a hub. `attach` registers one; by hand, without `attach`::

        server = Server("name", ..., on_subscriptions_listen=(handler := ListenHandler(hub)))
        handler.server = server

    `hub` may also be a `SubscriptionBus`. Listeners are told what is published by `Hub.notify`, on a `SubscriptionBus`, or
    with a store shared by several processes in any of them. Unlike the SDK's handler it honours only what the server
    advertises (everything, while it knows of no `server`), tells tasks by ``taskIds``, coalesces instead of ending a
    stream that lags, and ends one whose connection took longer than `deadline` seconds for what it was told; see
    `Hub.failed_sinks`.

    Raises TypeError where `hub` is neither, ValueError where a limit is out of range.
    """

    def __init__(
        self,
        hub: Hub | SubscriptionBus,
        server: Server[Any] | None = None,
        *,
        max_listeners: int = MAX_LISTENERS,
        deadline: float = DEADLINE,
    ) -> None:
        found = hub.hub if isinstance(hub, SubscriptionBus) else hub
        # By what it needs, not by its class: hosts wrap hubs, and so do tests.
        if not callable(getattr(found, "outbox", None)):
            raise TypeError(f"hub must be a Hub or a SubscriptionBus, not {hub!r}")
        count: object = max_listeners
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"max_listeners must be a count, 1 or more, not {max_listeners!r}")
        if not (math.isfinite(deadline) and deadline > 0):
            raise ValueError(f"deadline must be a finite number of seconds above 0, not {deadline!r}")
        self.hub: Final = found
        self.server = server
        """Whose capabilities say what is honoured."""
        self._max = max_listeners
        self._deadline = deadline
        self._desks: Desks | None = None
        self._own: set[Desk] = set()
        self._trouble = Trouble()

    def adopt(self, server: Server[Any], desks: Desks) -> None:
        """From now on it is a part of an attached server."""
        self.server = server
        self._desks = desks
        self._trouble = desks.trouble

    async def __call__(self, ctx: ServerRequestContext[Any, Any], params: Any) -> SubscriptionsListenResult:
        """Serve one listener until its client leaves or `close`."""
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id")
        asked = (ctx.params or {}).get("notifications")
        if not isinstance(asked, Mapping):
            raise MCPError(INVALID_PARAMS, "notifications: must be an object")
        if asked.get("taskIds") and not declared(ctx):
            raise undeclared()
        principal = principal_of(ctx)[0]
        with self._refusals():
            profile = self._profile(ctx)
            honoured = profile.honoured(_wire.dumps(self._theirs(asked, principal)).decode())
            ready = opening_of(self.hub).ready()
            desk = self._desks.current(ctx.lifespan_context) if ready and self._desks is not None else None
        if desk is not None:
            return await self._serve(desk, len(desk.outbox), ctx, profile, principal, honoured)
        if not ready or self._desks is not None:
            raise MCPError(INTERNAL_ERROR, _NOT_NOW)
        return await self._serve_alone(ctx, profile, principal, honoured)

    async def _serve_alone(
        self, ctx: ServerRequestContext[Any, Any], profile: Profile, principal: str, honoured: str
    ) -> SubscriptionsListenResult:
        """Where nobody keeps a task that writes, the listener brings its own."""
        result: SubscriptionsListenResult | MCPError
        async with anyio.create_task_group() as tasks:
            try:
                with self._refusals():
                    desk = Desk(self.hub, tasks, self._trouble, self._deadline)
                self._own.add(desk)
                try:
                    result = await self._serve(desk, len(self._own) - 1, ctx, profile, principal, honoured)
                finally:
                    self._own.discard(desk)
            except MCPError as error:
                result = error  # a group would put it into another one
            tasks.cancel_scope.cancel()
        if isinstance(result, MCPError):
            raise result
        return result

    async def _serve(
        self,
        desk: Desk,
        others: int,
        ctx: ServerRequestContext[Any, Any],
        profile: Profile,
        principal: str,
        honoured: str,
    ) -> SubscriptionsListenResult:
        assert ctx.request_id is not None  # `__call__` looked
        if others >= self._max:
            raise MCPError(INTERNAL_ERROR, "Subscription limit reached")
        listener = _Listener(_compat.request_outbound(ctx.session))
        with self._refusals():
            sink = desk.add(listener, principal)
        try:
            with self._refusals():
                desk.outbox.listen(sink, profile, ctx.request_id, honoured)
            await listener.ended.wait()
        finally:
            desk.drop(sink)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        return SubscriptionsListenResult(_meta=meta)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What goes wrong is an answer."""
        try:
            yield
        except InvalidArgument as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except TidingsError as error:
            self._trouble.report("a listener could not be served", error)
            raise MCPError(INTERNAL_ERROR, _NOT_NOW) from error

    def _profile(self, ctx: ServerRequestContext[Any, Any]) -> Profile:
        server = _EVERYTHING
        if self.server is not None:
            server = _json(self.server.get_capabilities(protocol_version=ctx.protocol_version))
        client = ctx.session.client_capabilities
        return Profile(ctx.protocol_version, server, "{}" if client is None else _json(client))

    def _theirs(self, asked: Mapping[str, Any], principal: str) -> dict[str, Any]:
        """The filter without the tasks that are not there for who asks."""
        filtered = dict(asked)
        ids = asked.get("taskIds")
        if isinstance(ids, list):
            # What is no text the core refuses.
            theirs = [i for i in ids if not isinstance(i, str) or self.hub.task(i, principal=principal) is not None]
            filtered["taskIds"] = theirs
        return filtered

    def close(self) -> None:
        """End every listener in order: each gets what was promised, then its result. Does not wait for that."""
        for desk in [*self._own, *(() if self._desks is None else self._desks.each())]:
            desk.outbox.end_all()


def _json(model: Any) -> str:
    text: str = model.model_dump_json(by_alias=True, exclude_none=True)
    return text

"""A ``tools/call`` of mcp 2.x."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp_types import LOG_LEVEL_META_KEY, RequestParamsMeta
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from . import _compat, _wire
from ._nursery import Nursery
from ._outbound import RecordingOutbound
from ._peers import Peer, into
from ._request import Emit
from ._routing import Routing

_PEER: Final = "io.tidings/peer"


def peer_of(connection: Connection, routing: Routing, nursery: Nursery, *, over_http: bool) -> Peer:
    """The one `Peer` of a connection."""
    found: Peer | None = connection.state.get(_PEER)
    if found is None:
        # What is sent to a session over HTTP that does not listen just now gets lost, unless it is recorded.
        heard = routing.recorded or not over_http
        send = into(connection.session_id, connection.outbound.notify) if heard else None
        found = routing.peer(nursery, send, over_http=over_http)
        connection.state[_PEER] = found
        connection.exit_stack.callback(found.close)
    return found


def config_moved(ctx: ServerRequestContext[Any, Any], *, keep: bool) -> ServerRequestContext[Any, Any]:
    """The same ``tools/call`` with a config in its ``_meta`` where the others have it, or without that unless `keep`: its tool
    does not see it. One in the parameters is preferred, whatever it is."""
    params = ctx.params or {}
    given = params.get("_meta")
    if not isinstance(given, Mapping) or _wire.EXTENSION not in given:
        return ctx
    moved = {**params, "_meta": _without_extension(given)}
    if keep:
        moved.setdefault(_wire.CONFIG, given[_wire.EXTENSION])
    meta = None if ctx.meta is None else cast(RequestParamsMeta, _without_extension(ctx.meta))
    return replace(ctx, params=moved, meta=meta)


def _without_extension(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if key != _wire.EXTENSION}


class Request2:
    """See `Request`."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> None:
        assert ctx.request_id is not None  # the middleware lets only requests in
        self._ctx = ctx
        self._call_next = call_next
        self.id = ctx.request_id
        self.params: Mapping[str, Any] = ctx.params or {}
        self.session_id = _compat.connection(ctx.session).session_id
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    def answered(self, responses: Mapping[str, Any], state: Any) -> Request2:
        """The same request with the answers to what its tool asked for (2026-07-28, multi-round-trip)."""
        more: dict[str, Any] = {"inputResponses": dict(responses)}
        if state is not None:
            more["requestState"] = state
        return Request2(replace(self._ctx, params={**self.params, **more}), self._call_next)

    def peer(self, routing: Routing, nursery: Nursery | None) -> Peer | None:
        """The connection, of a client that made a handshake: a request of 2026-07-28 stands alone."""
        connection = _compat.connection(self._ctx.session)
        if nursery is None or self.modern or not connection.has_standalone_channel:
            return None
        return peer_of(connection, routing, nursery, over_http=self._ctx.request is not None)

    def cancel_asked(self) -> bool:
        """Whether the client cancelled it; a connection that is lost or a server that stops is something else."""
        return _compat.request_outbound(self._ctx.session).cancel_requested.is_set()

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification on the request's own stream."""
        await _compat.request_outbound(self._ctx.session).notify(method, params)

    async def run(self, emit: Emit) -> HandlerResult:
        """Call the rest of the chain with a context of the call's own."""
        ctx = self._ctx
        params = {key: value for key, value in self.params.items() if key != _wire.CONFIG}
        # Recorded is all that the tool says; to the client goes what it asked for.
        levels = allowed_log_levels(ctx.protocol_version, ctx.meta)
        outbound: Any = RecordingOutbound(_compat.request_outbound(ctx.session), emit, levels)
        every = cast(RequestParamsMeta, {**(ctx.meta or {}), LOG_LEVEL_META_KEY: "debug"})
        session = ServerSession(outbound, _compat.connection(ctx.session), request_meta=every)
        meta = ctx.meta
        if meta is None or meta.get("progress_token") is None:
            meta = cast(RequestParamsMeta, {**(meta or {}), "progress_token": _wire.RECORDED_TOKEN})
        return await self._call_next(replace(ctx, params=params, session=session, meta=meta))

"""What a server says about a running request, held to the rules: progress strictly rises and ends with the request, log
messages come at the level that was asked for.

The SDK sends whatever a tool says. Here the tool is told where it is wrong (a number that is none), and what the protocol
does not allow is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions, DispatchContext, Outbound
from mcp_types import RequestId, ServerNotification

from . import _compat
from ._current import as_request
from ._reports import MESSAGE, PROGRESS, checked, passes, rules

if TYPE_CHECKING:
    from ._session_peer import Peer


class GatedRequest:
    """Stands in for a request's `DispatchContext`."""

    def __init__(
        self, inner: DispatchContext[Any], token: int | str | None, peer: Peer | None, interval: float
    ) -> None:
        self._inner = inner
        self._progress = rules(token, interval)
        self._peer = peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification on the request's own stream, if it may be."""
        if method == PROGRESS:
            params = self._report(dict(params or {}))
            if params is None:
                return
        elif method == MESSAGE and not _passes(self._peer, params):
            return
        await self._inner.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress; on the wire only if the client gave a token."""
        if self._report({"progress": progress, "total": total, "message": message}) is not None:
            await self._inner.progress(progress, total, message)

    def _report(self, params: dict[str, Any]) -> dict[str, Any] | None:
        return checked(self._progress, params, time.monotonic())

    def end(self) -> None:
        """The request has its answer."""
        self._progress.end()


class GatedConnection:
    """Stands in for a session's `Outbound`: what is said outside any request."""

    def __init__(self, inner: Outbound, peer: Peer) -> None:
        self._inner = inner
        self._peer = peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification on the session's own stream, if it may be."""
        if method == MESSAGE and not _passes(self._peer, params):
            return
        await self._inner.notify(method, params, opts)


def gate_connection(connection: Connection, peer: Peer) -> None:
    """Hold what is said outside any request to the session's level."""
    outbound: Any = connection.outbound
    inner = outbound._inner if isinstance(outbound, GatedConnection) else outbound
    connection.outbound = GatedConnection(inner, peer)


def _passes(peer: Peer | None, params: Mapping[str, Any] | None) -> bool:
    # From 2026-07-28 on the SDK itself holds messages to the request's level.
    return peer is None or passes(peer.level, params)


class _Session(ServerSession):
    """The session as a request's tool sees it."""

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        """Send a notification. Progress goes on the request's own stream, whether or not the tool named the request: on
        the session's it would be lost where none is open, and is not allowed."""
        if notification.method == PROGRESS and related_request_id is None:
            related_request_id = ""
        await super().send_notification(notification, related_request_id)


async def gated(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext, peer: Peer | None, interval: float
) -> HandlerResult:
    """Run a request whose tool is held to the rules."""
    meta = (ctx.params or {}).get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    if isinstance(token, bool) or not isinstance(token, int | str):
        token = None
    outbound: Any = GatedRequest(_compat.request_outbound(ctx.session), token, peer, interval)
    session = _Session(outbound, _compat.connection(ctx.session), request_meta=ctx.meta)
    asked = _compat.request_outbound(ctx.session).cancel_requested
    try:
        with as_request(asked.is_set):
            return await call_next(replace(ctx, session=session))
    finally:
        outbound.end()

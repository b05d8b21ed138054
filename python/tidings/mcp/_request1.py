"""A ``tools/call`` of mcp 1.x."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import anyio
from mcp import types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.lowlevel.server import request_ctx
from mcp.server.session import ServerSession
from mcp.shared.context import RequestContext
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from . import _wire
from ._nursery import Nursery
from ._peers import Peer, into
from ._principals import ANONYMOUS, principal_in
from ._request import Emit
from ._routing import Routing

Handler = Callable[[types.CallToolRequest], Awaitable[types.ServerResult]]

_peers: Final[weakref.WeakKeyDictionary[ServerSession, Peer]] = weakref.WeakKeyDictionary()
_STAND_IN: Final = "connection:"
_stand_ins: Final[weakref.WeakKeyDictionary[ServerSession, str]] = weakref.WeakKeyDictionary()


def config_taken(request: types.CallToolRequest) -> dict[str, Any]:
    """Takes a config out of the ``_meta`` of a ``tools/call``, so that its tool does not see it: the config as a member of the
    parameters, or nothing. The `RequestContext` has the same ``_meta``."""
    meta = request.params.meta
    extra = None if meta is None else meta.model_extra
    return {_wire.CONFIG: extra.pop(_wire.EXTENSION)} if extra and _wire.EXTENSION in extra else {}


class Request1:
    """See `Request`."""

    modern: Final = False

    def __init__(
        self, ctx: RequestContext, request: types.CallToolRequest, handler: Handler, in_meta: dict[str, Any]
    ) -> None:
        self._ctx = ctx
        self._request = request
        self._handler = handler
        # The only one that knows of a cancellation by the client.
        self._responder = ctx.session._in_flight.get(ctx.request_id)
        self.id = ctx.request_id
        # A config in the parameters is preferred to one in the `_meta`, whatever it is.
        self.params = {"name": request.params.name, **in_meta, **(request.params.model_extra or {})}
        self.session_id = _session_id(ctx)

    def principal(self) -> tuple[str, str]:
        """The principal of the request, and the name its detached calls are counted under."""
        return requestor(self._ctx)

    def peer(self, routing: Routing, nursery: Nursery | None) -> Peer | None:
        """The session, unless it is of this one request."""
        over_http = self._ctx.request is not None
        if nursery is None or (over_http and self.session_id is None):
            return None
        found = _peers.get(self._ctx.session)
        if found is None:
            # What is sent to a session over HTTP that does not listen just now gets lost, unless it is recorded.
            heard = routing.recorded or not over_http
            send = into(self.session_id, sender(self._ctx.session)) if heard else None
            found = _peers[self._ctx.session] = routing.peer(nursery, send, over_http=over_http)
            self._ctx.session._exit_stack.callback(found.close)
        return found

    def cancel_asked(self) -> bool:
        """Whether the client cancelled it; a session that ends or a server that stops is something else."""
        return self._responder is not None and self._responder.cancelled

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification on the request's own stream."""
        notification = types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
        metadata = ServerMessageMetadata(related_request_id=self.id)
        await self._ctx.session._write_stream.send(SessionMessage(types.JSONRPCMessage(notification), metadata))

    async def run(self, emit: Emit) -> Any:
        """Call the handler with a context of the call's own."""
        params = self._request.params.model_copy()
        extra = {key: value for key, value in (params.model_extra or {}).items() if key != _wire.CONFIG}
        object.__setattr__(params, "__pydantic_extra__", extra)
        meta = self._ctx.meta or types.RequestParams.Meta()
        if meta.progressToken is None:
            meta = meta.model_copy(update={"progressToken": _wire.RECORDED_TOKEN})
        ctx = replace(self._ctx, session=_recording(self._ctx.session, emit), meta=meta)
        token = request_ctx.set(ctx)
        try:
            result = await self._handler(self._request.model_copy(update={"params": params}))
        finally:
            request_ctx.reset(token)
        return result.root


def requestor(ctx: RequestContext) -> tuple[str, str]:
    """Who asks, and the name under which what they have running is counted."""
    name = principal_name(ctx.request, _session_id(ctx), ctx.session)
    return name, ANONYMOUS if name.startswith(_STAND_IN) else name


def principal_name(request: Any, session_id: str | None, session: ServerSession) -> str:
    """Who is at the other end: of an HTTP request if there is one, of an MCP session, of a connection."""
    name = _logged_in(request)
    if name is not None:
        return name
    if session_id is not None:
        return "session:" + session_id
    return _stand_ins.setdefault(session, _STAND_IN + uuid.uuid4().hex)


def sender(session: ServerSession) -> Callable[[str, dict[str, Any] | None], Awaitable[None]]:
    """Sends notifications that belong to no request of a session's."""
    stream = session._write_stream

    async def send(method: str, params: dict[str, Any] | None) -> None:
        notification = types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
        await stream.send(SessionMessage(types.JSONRPCMessage(notification)))

    return send


def _session_id(ctx: RequestContext) -> str | None:
    headers = getattr(ctx.request, "headers", None)
    # A server without sessions has seen no `initialize` on this connection, whatever the client's headers say.
    if headers is None or ctx.session.client_params is None:
        return None
    return headers.get("mcp-session-id")


def _logged_in(request: Any) -> str | None:
    scope = getattr(request, "scope", None)
    name = principal_in(scope) if isinstance(scope, dict) else None
    if name is not None:
        return name
    token = get_access_token()
    return None if token is None else principal_in({"user": AuthenticatedUser(token)})


class _RecordingSession(ServerSession):
    """The session as a watched tool sees it: what it says is recorded on its call, then sent as ever, if it still can be.

    It shares all state with the session it stands for.
    """

    __slots__ = ("_tidings_emit",)

    def __init__(self) -> None:
        raise TypeError("made by _recording")

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notification; progress and log also become events of the call."""
        said = notification.model_dump(by_alias=True, mode="json", exclude_none=True)
        params = said.get("params") or {}
        if said["method"] == "notifications/progress":
            self._record(_wire.PROGRESS_EVENT, {k: v for k, v in params.items() if k != "progressToken"})
            if params.get("progressToken") == _wire.RECORDED_TOKEN:
                return
        elif said["method"] == "notifications/message":
            self._record(_wire.LOG_EVENT, params)
        try:
            await super().send_notification(notification, related_request_id)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the session is over and the tool runs on

    def _record(self, kind: str, payload: dict[str, Any]) -> None:
        try:
            encoded = _wire.dumps(payload)
        except (TypeError, ValueError):
            return
        self._tidings_emit(kind, encoded)


def _recording(session: ServerSession, emit: Emit) -> ServerSession:
    proxy = object.__new__(_RecordingSession)
    proxy.__dict__ = session.__dict__
    proxy._tidings_emit = emit
    return proxy

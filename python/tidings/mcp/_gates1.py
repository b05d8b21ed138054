"""What a server of mcp 1.x says about its running requests, held to the rules of `_gates`.

mcp 1.x has no place of its own for it: whatever a session says, to whichever request it belongs, goes over the one stream that
the session writes to. That is where it is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from mcp import types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.shared.session import RequestResponder

from .._native import Progress
from ._reports import MESSAGE, PROGRESS, checked, passes, rules

_ANSWERS: Final = (types.JSONRPCResponse, types.JSONRPCError)


class GatedStream:
    """Stands in for the stream that a session writes to."""

    def __init__(
        self, inner: Any, session_id: str | None, running: Mapping[Any, RequestResponder[Any, Any]], interval: float
    ) -> None:
        self._inner = inner
        self.session_id = session_id
        """The MCP session it is of, if there is one."""
        self._running = running
        self._interval = interval
        self._progress: dict[types.RequestId, Progress] = {}
        self.level: str | None = None
        """What ``logging/setLevel`` asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Any:
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self._inner.__aexit__(*error)

    async def send(self, item: SessionMessage) -> None:
        """Send a message, if it may be."""
        root = item.message.root
        if isinstance(root, types.JSONRPCNotification):
            if root.method == PROGRESS:
                found = self._report(root.params or {}, item.metadata)
                if found is None:
                    return
                item = found
            elif root.method == MESSAGE and not passes(self.level, root.params):
                return
        elif isinstance(root, _ANSWERS):
            self._progress.pop(root.id, None)
        await self._inner.send(item)

    def _report(self, params: dict[str, Any], metadata: Any) -> SessionMessage | None:
        related = metadata.related_request_id if isinstance(metadata, ServerMessageMetadata) else None
        request = self._owner(params.get("progressToken"), related)
        if request is None:
            return None  # nobody asked for it, or the request has its answer
        progress = self._progress.get(request.request_id)
        if progress is None:
            progress = rules(request.request_meta.progressToken, self._interval)
            self._progress[request.request_id] = progress
        told = checked(progress, params, time.monotonic())
        if told is None:
            return None
        said = types.JSONRPCNotification(jsonrpc="2.0", method=PROGRESS, params=told)
        # On the request's own stream, whether or not the tool named the request.
        belongs = ServerMessageMetadata(related_request_id=request.request_id)
        return SessionMessage(types.JSONRPCMessage(said), belongs)

    def _owner(self, token: Any, related: Any) -> RequestResponder[Any, Any] | None:
        """The running request that a report is of: the one it names, or else the one that brought its token."""
        for request in self._running.values():
            meta = request.request_meta
            asked = None if meta is None else meta.progressToken
            if asked is None or request._completed:
                continue
            named = related is not None and str(request.request_id) == str(related)
            # 1 and "1" are two tokens.
            if named or (related is None and type(asked) is type(token) and asked == token):
                return request
        return None

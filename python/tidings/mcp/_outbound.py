"""The channel a watched tool sends on: what it says is recorded on its call, then sent as ever."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from mcp.shared.dispatcher import CallOptions, DispatchContext

from ._request import Emit
from ._wire import LOG_EVENT, PROGRESS_EVENT, RECORDED_TOKEN, dumps


class RecordingOutbound:
    """Stands in for a request's `DispatchContext`. Progress and log notifications also become events of the call.

    It does so whether or not the client asked for them, and after the client has gone; the SDK itself drops what can no
    longer be sent. Sent are log messages of the levels in `log_levels`.
    """

    def __init__(self, inner: DispatchContext[Any], emit: Emit, log_levels: Container[str]) -> None:
        self._inner = inner
        self._emit = emit
        self._log_levels = log_levels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification on the request's own stream."""
        if method == "notifications/progress":
            self._record(PROGRESS_EVENT, {k: v for k, v in (params or {}).items() if k != "progressToken"})
            if (params or {}).get("progressToken") == RECORDED_TOKEN:
                return
        elif method == "notifications/message":
            self._record(LOG_EVENT, dict(params or {}))
            if (params or {}).get("level") not in self._log_levels:
                return
        await self._inner.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress; on the wire only if the client gave a token."""
        payload: dict[str, Any] = {"progress": progress}
        if total is not None:
            payload["total"] = total
        if message is not None:
            payload["message"] = message
        self._record(PROGRESS_EVENT, payload)
        await self._inner.progress(progress, total, message)

    def _record(self, kind: str, payload: dict[str, Any]) -> None:
        try:
            encoded = dumps(payload)
        except (TypeError, ValueError):
            return  # no JSON text: the SDK will refuse to send it too
        self._emit(kind, encoded)

"""For clients: everything that a server tells besides answers, in one place and in the order it comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.client.extension import ClientExtension, NotificationBinding
from pydantic import BaseModel, ConfigDict

GAP: Final = "notifications/io.tidings/gap"

MAX_WAITING: Final = 1024
"""As many handlers may wait at a time, unless said otherwise."""

_LISTS: Final[dict[Any, str]] = {
    types.ToolListChangedNotification: "tools",
    types.PromptListChangedNotification: "prompts",
    types.ResourceListChangedNotification: "resources",
}


@dataclass(frozen=True)
class StreamGap:
    """A resumed stream that could not be complete, see the README's "Guarantees"."""

    reason: str
    """`evicted`, `regressed`, `lost` or `unknown`."""
    earliest_seq: int | None
    head_seq: int | None


class _Gap(BaseModel):
    model_config = ConfigDict(extra="allow")

    reason: str
    earliestSeq: int | None = None
    headSeq: int | None = None


Handler = Callable[..., Awaitable[None] | None]


class ClientNotices:
    """Calls one handler for each kind of notification; give only those you want. A handler may be `async`; one that takes
    its time holds up neither answers nor the handlers of what comes after.

    For an `mcp.Client`: ``Client(…, message_handler=notices, extensions=[notices.extension])``. For a `ClientSession`:
    ``ClientSession(…, message_handler=notices, notification_bindings=notices.bindings)``.
    """

    def __init__(
        self,
        *,
        message: Handler | None = None,
        progress: Handler | None = None,
        list_changed: Handler | None = None,
        updated: Handler | None = None,
        gap: Handler | None = None,
        other: Handler | None = None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """`message(params)` and `progress(params)` get the SDK's parameters, `list_changed(kind)` ``"tools"``, ``"prompts"``
        or ``"resources"``, `updated(uri)` a resource's URI, `gap(gap)` a `StreamGap`, `other(notification)` what is left:
        other notifications, and exceptions of the transport. When `max_waiting` handlers have not returned, the one that began
        first is cancelled for the next, and counted in `dropped`."""
        if isinstance(max_waiting, bool) or max_waiting < 1:
            raise ValueError(f"max_waiting must be a count, 1 or more, not {max_waiting!r}")
        self._message = message
        self._progress = progress
        self._list_changed = list_changed
        self._updated = updated
        self._gap = gap
        self._other = other
        self._max_waiting = max_waiting
        self._waiting: dict[anyio.CancelScope, None] = {}
        self.dropped = 0
        """How many handlers were cancelled because too many had not returned."""
        self.bindings: Sequence[NotificationBinding[Any]] = [
            NotificationBinding(method=GAP, params_type=_Gap, handler=self._on_gap)
        ]
        """For `ClientSession(notification_bindings=…)`."""
        self.extension: ClientExtension = _Extension(self.bindings)
        """For `Client(extensions=[…])`."""

    async def __call__(self, message: Any) -> None:
        """The SDK's `message_handler`."""
        if isinstance(message, types.LoggingMessageNotification):
            await self._tell(self._message, message.params)
        elif isinstance(message, types.ProgressNotification):
            await self._tell(self._progress, message.params)
        elif (kind := _LISTS.get(type(message))) is not None:
            await self._tell(self._list_changed, kind)
        elif isinstance(message, types.ResourceUpdatedNotification):
            await self._tell(self._updated, str(message.params.uri))
        else:
            await self._tell(self._other, message)

    async def _on_gap(self, params: _Gap) -> None:
        await self._tell(self._gap, StreamGap(params.reason, params.earliestSeq, params.headSeq))

    async def _tell(self, handler: Handler | None, what: Any) -> None:
        waits = None if handler is None else handler(what)
        if waits is None:
            return
        if len(self._waiting) >= self._max_waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.cancel()
            self.dropped += 1
        with anyio.CancelScope() as scope:
            self._waiting[scope] = None
            try:
                await waits
            finally:
                self._waiting.pop(scope, None)


class _Extension(ClientExtension):
    identifier = "io.tidings/notices"

    def __init__(self, bindings: Sequence[NotificationBinding[Any]]) -> None:
        self._bindings = bindings

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return self._bindings

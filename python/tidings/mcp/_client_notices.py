"""For clients: everything that a server tells besides answers, in one place and in the order it comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
from mcp.client.extension import ClientExtension, NotificationBinding
from pydantic import BaseModel, ConfigDict

GAP: Final = "notifications/io.tidings/gap"

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
    """Calls one handler for each kind of notification; give only those you want. A handler may be `async`.

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
    ) -> None:
        """`message(params)` and `progress(params)` get the SDK's parameters, `list_changed(kind)` ``"tools"``, ``"prompts"``
        or ``"resources"``, `updated(uri)` a resource's URI, `gap(gap)` a `StreamGap`, `other(notification)` what is left:
        other notifications, and exceptions of the transport."""
        self._message = message
        self._progress = progress
        self._list_changed = list_changed
        self._updated = updated
        self._gap = gap
        self._other = other
        self.bindings: Sequence[NotificationBinding[Any]] = [
            NotificationBinding(method=GAP, params_type=_Gap, handler=self._on_gap)
        ]
        """For `ClientSession(notification_bindings=…)`."""
        self.extension: ClientExtension = _Extension(self.bindings)
        """For `Client(extensions=[…])`."""

    async def __call__(self, message: Any) -> None:
        """The SDK's `message_handler`."""
        if isinstance(message, types.LoggingMessageNotification):
            await _tell(self._message, message.params)
        elif isinstance(message, types.ProgressNotification):
            await _tell(self._progress, message.params)
        elif (kind := _LISTS.get(type(message))) is not None:
            await _tell(self._list_changed, kind)
        elif isinstance(message, types.ResourceUpdatedNotification):
            await _tell(self._updated, str(message.params.uri))
        else:
            await _tell(self._other, message)

    async def _on_gap(self, params: _Gap) -> None:
        await _tell(self._gap, StreamGap(params.reason, params.earliestSeq, params.headSeq))


class _Extension(ClientExtension):
    identifier = "io.tidings/notices"

    def __init__(self, bindings: Sequence[NotificationBinding[Any]]) -> None:
        self._bindings = bindings

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return self._bindings


async def _tell(handler: Handler | None, what: Any) -> None:
    if handler is not None:
        waits = handler(what)
        if waits is not None:
            await waits

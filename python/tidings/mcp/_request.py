"""A ``tools/call`` as a watched call needs it, whichever SDK it came in through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ._nursery import Nursery
    from ._peers import Peer
    from ._routing import Routing

Emit = Callable[[str, bytes], None]
"""Records an event of a call: its type, and its payload as JSON text."""


class Request(Protocol):
    """One request, and the tool behind it."""

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters as the client sent them, with its config."""

    @property
    def id(self) -> int | str:
        """The request's id in its own JSON type."""

    @property
    def session_id(self) -> str | None:
        """The MCP session it came in on, if there is one."""

    @property
    def modern(self) -> bool:
        """Whether it is of 2026-07-28 or later."""

    def peer(self, routing: Routing, nursery: Nursery | None) -> Peer | None:
        """The connection it came in on, where notifications can be sent on it once the request is over."""

    def cancel_asked(self) -> bool:
        """Whether the client cancelled it by ``notifications/cancelled``."""

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification on the request's own stream. May raise what the SDK raises."""

    async def run(self, emit: Emit) -> Any:
        """Run the tool, which does not see the config and whose progress and log go to `emit` too.

        Returns what the SDK's handler returns, and raises what it raises.
        """

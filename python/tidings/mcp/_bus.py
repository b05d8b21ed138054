"""The SDK's `SubscriptionBus`, over a hub: what is published there reaches every peer of both eras, in every process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from .. import Hub

_KINDS: Final[dict[type[Any], str]] = {
    ToolsListChanged: "tools",
    PromptsListChanged: "prompts",
    ResourcesListChanged: "resources",
}


def publish(hub: Hub, event: ServerEvent) -> None:
    """Tell everybody of an event of the SDK's. May raise what the hub raises."""
    if isinstance(event, ResourceUpdated):
        hub.notify(uri=event.uri)
    elif (kind := _KINDS.get(type(event))) is not None:
        hub.notify(kind)


class SubscriptionBus(InMemorySubscriptionBus):
    """A bus for `MCPServer(subscriptions=…)`, or to publish on from anywhere.

    What is published goes to the hub, which tells the listeners and sessions of servers that are attached to it, here and
    in other processes; handlers of the SDK that subscribed to this very object hear it as well.
    """

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self.hub: Final = hub
        """Where it goes."""

    async def publish(self, event: ServerEvent) -> None:
        """Tell everybody of `event`."""
        publish(self.hub, event)
        await super().publish(event)


def follow(bus: Any, hub: Hub, report: Callable[[str, BaseException], None]) -> None:
    """Have the hub told of what a server publishes on a bus of its own (`ctx.notify_tools_changed()` and so on)."""
    if isinstance(bus, SubscriptionBus):
        return

    def hear(event: ServerEvent) -> None:
        try:
            publish(hub, event)
        except Exception as error:
            report("a change could not be published", error)

    bus.subscribe(hear)

"""The connection of a session as a place that deliveries go through: routes of type ``message`` and ``signal``."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from .. import HostDelivery, Hub, _routes
from . import _scoping, _wire
from ._doorbell import Doorbell
from ._nursery import Nursery
from ._trouble import Trouble

Send = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Sends a notification that belongs to no request. May raise what the SDK raises."""

_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class Peer:
    """One connection that outlives its requests. Offered as a place once a call needs it, until the connection ends.

    Its name is random and never on the wire: a client reaches its own connection by naming none.
    """

    def __init__(
        self, hub: Hub, nursery: Nursery, trouble: Trouble, send: Send | None, doorbell: Doorbell | None
    ) -> None:
        self.name: Final = uuid.uuid4().hex
        self._hub = hub
        self._nursery = nursery
        self._trouble = trouble
        self._handlers: dict[str, _routes.Handler] = {}
        if send is not None:
            self._handlers["message"] = _message(send)
        if doorbell is not None:
            self._handlers["signal"] = _signal(doorbell)
        self._places: dict[str, _routes.Place] = {}
        self._closed = False

    @property
    def route_types(self) -> tuple[str, ...]:
        """The types of routes that can go to this connection."""
        return tuple(self._handlers)

    def offer(self, route_type: str) -> None:
        """Take deliveries of that type from now on. May raise what the hub raises."""
        if route_type in self._places or route_type not in self._handlers or self._closed:
            return
        place = self._hub._offer_peer(route_type, self.name, self._handlers[route_type])
        self._places[route_type] = place
        self._nursery.serve(lambda: self._serve(place))

    async def _serve(self, place: _routes.Place) -> None:
        try:
            await _routes.serve([place])
        except Exception as error:
            self._trouble.report("a session gets no more messages", error)

    def close(self) -> None:
        """The connection is over: what waits for it is given up, and the next route has its turn."""
        self._closed = True
        for place in self._places.values():
            place.outlet.close()


def into(session_id: str | None, send: Send) -> Send:
    """`send`, which raises too when the session, if it is one over HTTP, was ended meanwhile."""

    async def sent(method: str, params: dict[str, Any]) -> None:
        await send(method, params)
        if session_id is not None and _scoping.is_over(session_id):
            raise anyio.ClosedResourceError

    return sent


def _message(send: Send) -> _routes.Handler:
    async def handle(delivery: HostDelivery) -> object:
        try:
            await send(_wire.TRIGGERED_METHOD, json.loads(delivery.body))
        except _GONE:
            return _routes.Refused.UNREACHABLE
        return True

    return handle


def _signal(doorbell: Doorbell) -> _routes.Handler:
    async def handle(delivery: HostDelivery) -> object:
        return doorbell.ring(delivery.signal or "")

    return handle

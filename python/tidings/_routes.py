"""Routes that end in this program: handlers of deliveries, and who serves them.

The core holds a delivery until a handler asks for one, so that no thread of its own ever calls Python: serving is an async
function like any other, in whichever event loop, or thread without one, the program likes.
"""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from . import _native, _port
from ._errors import ClosedError, InvalidArgument
from ._native import HostDelivery

Handler: TypeAlias = Callable[[HostDelivery], "object | Awaitable[object]"]

LIMIT: Final = 64
"""Deliveries of one route in the program's hands or queued for it; the others wait in the store."""

TIMEOUT: Final = 10.0
"""Seconds one attempt may take."""

_log: Final = logging.getLogger("tidings.routes")


@dataclass(frozen=True)
class Route:
    """A place that takes deliveries, and the function that does."""

    route_type: str
    name: str | None
    peer: str | None
    handler: Handler
    limit: int
    timeout: float
    in_order: bool
    """One delivery after the other, rather than several at a time."""

    def open(self, hub: _native.Hub) -> Place:
        """Offers it. Blocks where the hub is not open yet."""
        return Place(self, hub.outlet(self.route_type, self.name, self.peer, self.limit, self.timeout))


class Place(NamedTuple):
    """A place that is offered."""

    route: Route
    outlet: _native.Outlet


def route(
    route_type: str,
    handler: Handler,
    *,
    name: str | None = None,
    peer: str | None = None,
    limit: int = LIMIT,
    timeout: float = TIMEOUT,
    in_order: bool = False,
) -> Route:
    """A checked `Route`. Raises `InvalidArgument` and TypeError, which name the argument."""
    if not callable(handler):
        raise TypeError(f"handler: must be a function of one delivery, not {handler!r}")
    if limit.__class__ is not int or limit < 1:
        raise InvalidArgument("limit: must be a whole number, at least 1")
    if not (math.isfinite(timeout) and timeout > 0):
        raise InvalidArgument("timeout: must be a finite number of seconds above 0")
    return Route(route_type, name, peer, handler, limit, timeout, in_order)


def is_async(handler: Handler) -> bool:
    """Whether calling the handler takes no time of its own, but what it returns does."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - asked whether it is async


class Refused(Enum):
    """What a handler of the library's own returns where it cannot deliver."""

    UNREACHABLE = "unreachable"
    """The peer is gone."""
    NOT_READY = "not_ready"
    """The peer does not wait for the signal, which would end it."""


def settle(delivery: HostDelivery, answer: object) -> None:
    """What the handler returned: `False` refuses, anything else confirms."""
    if answer is False:
        delivery._refuse("refused")
    elif isinstance(answer, Refused):
        delivery._refuse(answer.value)
    elif not delivery._confirm():
        _log.warning("a handler was done with %r after its deadline: it is delivered once more", delivery)


FAILURES: Final = (Exception, SystemExit)
"""What is the failure of one handler, and ends nothing else: not the program either, from whichever task or thread."""


def failed(delivery: HostDelivery, error: BaseException) -> None:
    """The handler raised, was cancelled or took too long: its delivery's attempt failed, and nothing else did."""
    delivery._refuse("failed")
    if isinstance(error, FAILURES):
        _log.warning("a handler failed: %r", delivery, exc_info=error)


async def serve(places: Sequence[Place]) -> None:
    """Hands deliveries to the handlers until it is cancelled or the hub closes. Then the places are offered no longer."""
    try:
        kind = _port.loop_kind()
        if kind == "trio":
            from ._routes_trio import serve_all as serve_in_trio

            await serve_in_trio(places)
        elif kind == "asyncio":
            from ._routes_asyncio import serve_all as serve_in_asyncio

            await serve_in_asyncio(places)
        else:
            await _serve_in_threads(places)
    finally:
        for place in places:
            place.outlet.close()


async def _serve_in_threads(places: Sequence[Place]) -> None:
    """In this thread the first, each other one in a thread of its own; handlers may await this library only."""

    def run(place: Place) -> None:
        try:
            _port.run(_serve_one(place))
        except ClosedError:
            pass

    for place in places[1:]:
        threading.Thread(target=run, args=(place,), name="tidings-routes", daemon=True).start()
    for place in places[:1]:
        await _serve_one(place)


async def _serve_one(place: Place) -> None:
    route, outlet = place
    while (delivery := await _port.wait(outlet.next())) is not None:
        try:
            answer: Any = route.handler(delivery)
            if inspect.isawaitable(answer):
                answer = await answer
        except BaseException as error:
            failed(delivery, error)
            if not isinstance(error, FAILURES):
                raise
        else:
            settle(delivery, answer)

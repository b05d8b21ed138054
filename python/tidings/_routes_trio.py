"""Serving routes in a trio run."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import trio

from . import _native
from ._native import HostDelivery
from ._port import wait
from ._routes import FAILURES, Place, Route, failed, is_async, settle


async def serve_all(places: Sequence[Place]) -> None:
    """See `_routes.serve`."""
    async with trio.open_nursery() as nursery:
        for place in places:
            nursery.start_soon(_serve, place.route, place.outlet)


async def _serve(route: Route, outlet: _native.Outlet) -> None:
    async with trio.open_nursery() as running:
        while (delivery := await wait(outlet.next())) is not None:
            # What is ready comes without a trip through the loop, and others have to have their turn.
            await trio.lowlevel.checkpoint()
            if route.in_order:
                await _attempt(route, delivery)
            else:
                running.start_soon(_attempt, route, delivery)


async def _attempt(route: Route, delivery: HostDelivery) -> None:
    try:
        with trio.fail_after(route.timeout):
            answer = await _call(route, delivery)
    except BaseException as error:
        failed(delivery, error)
        if not isinstance(error, FAILURES):
            raise
    else:
        settle(delivery, answer)


async def _call(route: Route, delivery: HostDelivery) -> Any:
    # What may block does so in a thread; at the deadline it is left behind there.
    if is_async(route.handler):
        answer = route.handler(delivery)
    else:
        answer = await trio.to_thread.run_sync(route.handler, delivery, abandon_on_cancel=True)
    return await answer if inspect.isawaitable(answer) else answer

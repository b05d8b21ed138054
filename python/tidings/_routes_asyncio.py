"""Serving routes under asyncio, and under those that do as it does (uvloop)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

from . import _native
from ._native import HostDelivery
from ._port import wait
from ._routes import Place, Route, failed, is_async, settle


async def serve_all(places: Sequence[Place]) -> None:
    """See `_routes.serve`."""
    servers = [asyncio.ensure_future(_serve(place.route, place.outlet)) for place in places]
    try:
        await asyncio.gather(*servers)
    finally:
        await _end(servers)


async def _end(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(route: Route, outlet: _native.Outlet) -> None:
    running: set[asyncio.Future[None]] = set()
    try:
        while (delivery := await wait(outlet.next())) is not None:
            if route.in_order:
                await _attempt(route, delivery)
            else:
                task = asyncio.ensure_future(_attempt(route, delivery))
                running.add(task)
                task.add_done_callback(running.discard)
        await asyncio.gather(*running)
    finally:
        await _end(tuple(running))


async def _attempt(route: Route, delivery: HostDelivery) -> None:
    try:
        answer = await asyncio.wait_for(_call(route, delivery), route.timeout)
    except BaseException as error:
        failed(delivery, error)
        if not isinstance(error, Exception):
            raise
    else:
        settle(delivery, answer)


async def _call(route: Route, delivery: HostDelivery) -> Any:
    # What may block does so in a thread; at the deadline it is left behind there.
    handler = route.handler
    try:
        answer = handler(delivery) if is_async(handler) else await asyncio.to_thread(handler, delivery)
        return await answer if inspect.isawaitable(answer) else answer
    except SystemExit as error:
        # asyncio would end its loop with whatever else runs in it.
        raise RuntimeError("the handler asked for the program's end") from error

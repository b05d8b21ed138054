"""`attach`: everything the adapter brings to a server, in one call."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.lowlevel.server import Server

from .. import Hub
from . import _compat, _scoping
from ._calls import Limits
from ._event_store import EventStore
from ._middleware import Middleware, Timeout
from ._nursery import Nurseries
from ._sdk import VERSION
from ._trouble import Trouble

ROUTE_TYPES: Final = ("webhook",)
"""What `routes` may name."""

DETACHED_CALLS: Final = 64
"""DESIGN section 5: how many calls of one principal may run on without their request."""

DETACHED_SECONDS: Final = 3600.0
"""DESIGN section 5: for how long each of them may."""


@dataclass(frozen=True)
class Attachment:
    """What `attach` did to a server."""

    hub: Hub
    routes: tuple[str, ...]
    event_store: EventStore | None
    """The store that new Streamable HTTP sessions get unless the app is made with another one."""
    _nurseries: Nurseries
    _trouble: Trouble

    @property
    def detached(self) -> int:
        """How many tool calls now run on although their request is gone."""
        return sum(self._nurseries.detached.values())

    @property
    def failures(self) -> int:
        """How many failures of the hub were swallowed around calls; each was logged, at most one line a minute."""
        return self._trouble.count


def attach(
    server: object,
    hub: Hub,
    *,
    routes: Sequence[str] = (),
    tasks: str = "off",
    tasks_stream: bool = False,
    timeout: Timeout = None,
    event_store: bool = True,
    resume_front: bool = True,
    max_detached: int = DETACHED_CALLS,
    detached_limit: float = DETACHED_SECONDS,
) -> Attachment:
    """Attach `hub` to an `MCPServer` or a low-level `Server` of mcp 2.x, or to a `FastMCP`. Once for each server, before it serves.

    With nothing named it makes the sessions of Streamable HTTP resumable: `streamable_http_app` and
    ``run("streamable-http")`` get an `EventStore` when they are given none (`event_store=False` leaves that be).
    A client may also resume at another process on the same store, or after a restart (`resume_front=False` leaves that be).

    `routes` names the route types that clients may use in ``notificationConfig`` (``["webhook"]``). Then, for every
    ``tools/call`` that carries one, on both protocol eras: it is accepted whole or refused whole with -32602 and
    ``data.faults``, before the tool runs; an accepted one is on disk and acknowledged before the tool runs, and
    again in the result's ``_meta``; the tool does not see it; the call ends in exactly one outcome, which is on
    disk (at most 2 s of waiting) before the result is returned. The client may go away: the call runs on, for at
    most `detached_limit` seconds, at most `max_detached` for each principal (callers without a session or a login
    share one such count); beyond that it is cancelled. A client that cancels cancels the tool.

    `timeout` bounds tool calls, in seconds, for all tools or by name; a config may lower it. The tool is cancelled
    and the client gets an error.

    Raises TypeError for an object that is not such a server or a list, ValueError for a value out of range, RuntimeError for
    a server attached twice or an SDK release that lacks what the adapter needs, NotImplementedError for `tasks`.
    """
    low_level = _compat.low_level(server)
    if low_level is None:
        raise TypeError(
            f"attach takes an MCPServer or a low-level Server of mcp 2.x or a FastMCP of fastmcp 4, not "
            f"{type(server).__module__}.{type(server).__qualname__}; the installed SDK is mcp {VERSION}"
        )
    if lacking := _compat.missing():
        raise RuntimeError(f"mcp {VERSION} lacks what tidings.mcp needs: {', '.join(lacking)}")
    if any(isinstance(middleware, Middleware) for middleware in low_level.middleware):
        raise RuntimeError("this server has been attached already")
    named = _checked_routes(routes)
    if tasks != "off":
        if tasks != "auto":
            raise ValueError(f'tasks must be "off" or "auto", not {tasks!r}')
        raise NotImplementedError('tasks="auto": the Tasks extension is not there yet; leave it "off"')
    if tasks_stream:
        raise NotImplementedError("tasks_stream: tasks/stream is not there yet; leave it False")
    _check_timeout(timeout)
    _check_count("max_detached", max_detached)
    _check_seconds("detached_limit", detached_limit)

    trouble = Trouble()
    nurseries = Nurseries(hub, trouble)
    store = EventStore(hub, resume_front=resume_front) if event_store else None
    middleware = Middleware(low_level, hub, named, timeout, Limits(max_detached, detached_limit), nurseries, trouble)
    chain = low_level.middleware
    chain.insert(1 if chain and type(chain[0]).__name__ == _compat.TELEMETRY else 0, middleware)
    low_level.lifespan = nurseries.around(low_level.lifespan)
    if store is not None:
        _default_event_store(low_level, store)
    return Attachment(hub, named, store, nurseries, trouble)


def _default_event_store(server: Server[Any], store: EventStore) -> None:
    """Make `store` the default of the server's apps, of those to come and of the one there may be."""
    inner = server.streamable_http_app

    @functools.wraps(inner)
    def streamable_http_app(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("event_store") is None:
            kwargs["event_store"] = store
        return inner(*args, **kwargs)

    _scoping.default_store(server, store)
    # `MCPServer` and `run` come through here as well.
    server.streamable_http_app = streamable_http_app  # type: ignore[method-assign]
    manager = _compat.existing_manager(server)
    if manager is not None and manager.event_store is None:
        manager.event_store = store


def _checked_routes(routes: object) -> tuple[str, ...]:
    if isinstance(routes, str) or not isinstance(routes, Iterable):
        raise TypeError(f'routes must be a list of route types, such as ["webhook"], not {routes!r}')
    named = tuple(dict.fromkeys(routes))
    for name in named:
        if name not in ROUTE_TYPES:
            raise ValueError(f"routes: {name!r} is not a route type; there is {', '.join(map(repr, ROUTE_TYPES))}")
    return named


def _check_timeout(timeout: Timeout) -> None:
    if isinstance(timeout, Mapping):
        for name, seconds in timeout.items():
            _check_seconds(f"timeout[{name!r}]", seconds)
    elif timeout is not None:
        _check_seconds("timeout", timeout)


def _check_count(field: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"{field} must be a count, 0 or more, not {count!r}")


def _check_seconds(field: str, seconds: object) -> None:
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not (math.isfinite(seconds) and seconds > 0):  # type: ignore[arg-type, operator]
        raise ValueError(f"{field} must be a finite number of seconds above 0, not {seconds!r}")

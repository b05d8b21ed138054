"""`attach`: everything the adapter brings to a server, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from .. import Fanout, Hub
from . import _task_policy
from ._calls import Limits
from ._doorbell import of_stdio
from ._event_store import EventStore
from ._nursery import Nurseries
from ._policy import Policy
from ._routing import DefaultRoutes, Routing, check_defaults
from ._sdk import GENERATION, VERSION
from ._task_policy import Tasks
from ._timeouts import Timeout
from ._trouble import Trouble

if TYPE_CHECKING or GENERATION == 2:
    from . import _host2 as _host
else:
    from . import _host1 as _host

ROUTE_TYPES: Final = ("webhook", "message", "callback", "signal")
"""What `routes` may name besides the types that the hub has registered."""

DETACHED_CALLS: Final = 64
"""DESIGN section 5: how many calls of one principal may run on without their request."""

DETACHED_SECONDS: Final = 3600.0
"""DESIGN section 5: for how long each of them may."""


_attachments: Final[WeakKeyDictionary[Any, Attachment]] = WeakKeyDictionary()
"""What `attach` did, by the low-level server."""


@dataclass(frozen=True)
class Attachment:
    """What `attach` did to a server."""

    hub: Hub
    routes: tuple[str, ...]
    event_store: EventStore | None
    """The store that new Streamable HTTP sessions get unless the app is made with another one."""
    tasks: bool
    """Whether the Tasks extension is served from the hub: not where the server had tasks of its own."""
    _nurseries: Nurseries
    _trouble: Trouble
    _peers: Any = None

    @property
    def detached(self) -> int:
        """How many tool calls now run on although their request is gone."""
        return self.hub.detached

    def end_listeners(self) -> None:
        """End every listener in order: it gets what it was promised, then the result of its request. Does not wait."""
        if self._peers is not None:
            self._peers.end_listeners()

    @property
    def failures(self) -> int:
        """How many failures of the hub were swallowed around calls; each was logged, at most one line a minute."""
        return self._trouble.count


def attach(
    server: object,
    hub: Hub,
    *,
    routes: Sequence[str] = (),
    policy: Policy | None = None,
    default_routes: DefaultRoutes = None,
    signal_as_root: bool = False,
    tasks: str | Tasks = "off",
    tasks_stream: bool = False,
    timeout: Timeout = None,
    event_store: bool = True,
    resume_front: bool = True,
    fanout: bool = True,
    progress_interval: float = 0.0,
    max_detached: int = DETACHED_CALLS,
    detached_limit: float = DETACHED_SECONDS,
) -> Attachment:
    """Attach `hub` to an `MCPServer` (mcp 2.x), a `FastMCP` (fastmcp 4, mcp 1.x) or a low-level `Server`. Once for each server, before it serves.

    With nothing named it makes the sessions of Streamable HTTP resumable: `streamable_http_app` and
    ``run("streamable-http")`` get an `EventStore` when they are given none (`event_store=False` leaves that be).
    A client may also resume at another process on the same store, or after a restart (`resume_front=False` leaves that be).

    `routes` names the route types that clients may use in ``notificationConfig`` (``["webhook"]``). Then, for every
    ``tools/call`` that carries one, or the same under the extension's name in its ``_meta``, on both protocol eras: it is
    accepted whole or refused whole with -32602 and ``data.faults``, before the tool runs; an accepted one is on disk and
    acknowledged before the tool runs, and again in the result's ``_meta``; the tool does not see it; the call ends in
    exactly one outcome, which is on disk (at most 2 s of waiting) before the result is returned. The client may go away:
    the call runs on, for at most `detached_limit` seconds, at most `max_detached` for each principal (callers without a
    session or a login share one such count); beyond that it is cancelled. A client that cancels cancels the tool.

    `routes` may also name ``message`` (a notification into the calling session), ``callback`` and the types that
    `Hub.register_route_type` added, which are served while the server runs, and ``signal`` (Linux, stdio: the peer's process
    is rung; `signal_as_root` allows it to a process of root's). What a session cannot have is not in its capabilities.
    `policy` judges each client's config before anything else: a function of a `PolicyRequest`, async, or sync (then in a
    thread), that answers `Allow`, `Deny`, `Rewrite`, `True` or `False`. Names of ``message`` and ``callback`` routes are
    refused unless it opens them. One that raises refuses the config with -32603.
    `default_routes` are the server's own, for all tools or by name, for calls whose client brings no config; a client that
    brings one is told by its own routes only. Nobody has to allow them and nobody is told of them.

    `tasks` serves the Tasks extension (SEP-2663) to clients of 2026-07-28 that declare it, ``"auto"`` or a `Tasks` with terms
    of your own: a call that takes longer than two seconds is answered with a task, whose record is on disk by then, and
    which the client asks for by its id, also after a restart. `tasks_stream` adds ``tasks/stream`` (SEP-2694, a draft):
    the task's progress, log and what the tool emits by `current_call`, from any number on, then live. A server that has
    tasks of its own (fastmcp-tasks) keeps them: ``"auto"`` then stays off and says so in the log and in the result.

    With `fanout` the server's peers are registered: sessions up to 2025-11-25 (which may then subscribe to resources and
    set a log level) and listeners of ``subscriptions/listen``. `notify`, a changed component and the SDK's own
    ``ctx.notify_tools_changed()`` tell each of them that asked, once, here and in other processes on the same store. Progress
    is held to the protocol: it rises, ends with its request, and comes at most once in `progress_interval` seconds (but for the
    report that reaches its total).

    `timeout` bounds tool calls, in seconds, for all tools or by name; a config may lower it. The tool is cancelled
    and the client gets an error.

    Raises TypeError for an object that is not such a server or a list, ValueError for a value out of range, RuntimeError for
    a server attached twice, one with tasks of its own and `Tasks` of yours, or an SDK release that lacks what the adapter needs.
    """
    low_level = _host.low_level(server)
    if low_level is None:
        raise TypeError(
            f"attach takes {_host.SERVERS}, not "
            f"{type(server).__module__}.{type(server).__qualname__}; the installed SDK is mcp {VERSION}"
        )
    if lacking := _host.missing():
        raise RuntimeError(f"mcp {VERSION} lacks what tidings.mcp needs: {', '.join(lacking)}")
    if _host.is_attached(low_level):
        raise RuntimeError("this server has been attached already")
    named = _checked_routes(routes, hub)
    if policy is not None and not callable(policy):
        raise TypeError(f"policy must be a function of a PolicyRequest, not {policy!r}")
    check_defaults(hub, default_routes, named)
    terms = _task_policy.checked(tasks)
    if tasks_stream and terms is None:
        raise ValueError('tasks_stream needs tasks: it streams the events of tasks; say tasks="auto"')
    _check_timeout(timeout)
    _check_count("max_detached", max_detached)
    _check_seconds("detached_limit", detached_limit)

    if progress_interval != 0:
        _check_seconds("progress_interval", progress_interval)

    trouble = Trouble()
    nurseries = Nurseries(hub, trouble)
    store = EventStore(hub, resume_front=resume_front) if event_store else None
    limits = Limits(max_detached, detached_limit)
    doorbell = of_stdio(as_root=signal_as_root) if "signal" in named else None
    routing = Routing(hub, named, policy, default_routes, trouble, doorbell, recorded=event_store)
    served = _host.install(
        low_level,
        hub,
        routing,
        timeout,
        limits,
        nurseries,
        trouble,
        store,
        terms,
        tasks_stream,
        step_aside=tasks == "auto",
    )
    peers = _host.fan_out(low_level, hub, nurseries, trouble, server, progress_interval) if fanout else None
    made = Attachment(hub, named, store, served, nurseries, trouble, peers)
    _attachments[low_level] = made
    return made


def notify(server_or_hub: object, *kinds: str, uri: str | None = None, audience: str | None = None) -> Fanout:
    """Tell every peer that asked for it that something has changed: sessions of both eras, in every process on the store.

    `kinds`: ``"tools"``, ``"prompts"``, ``"resources"``; `uri`: that one resource. With `audience` only peers of that
    `principal`. Never waits; any thread may. Call it as often as things change: what comes before a peer was written to is
    one notification.

    The answer counts this process's peers: `told`, `skipped` (they did not ask, may not hear it, or cannot be reached: a
    session without an open GET stream whose server has no event store of ours), `failed` (they had not taken an earlier
    one in time).

    Raises TypeError for a server that is not attached, `InvalidArgument` for a kind that there is not.
    """
    if isinstance(server_or_hub, Hub):
        hub = server_or_hub
        attached = [made for made in list(_attachments.values()) if made.hub is hub]
    else:
        low_level = _host.low_level(server_or_hub)
        found = None if low_level is None else _attachments.get(low_level)
        if found is None:
            raise TypeError("notify takes a Hub or a server that was attached to one")
        hub, attached = found.hub, [found]
    for made in attached:
        if made._peers is not None:
            made._peers.look()
    return hub.notify(*kinds, uri=None if uri is None else _host.spelled(uri), audience=audience)


def _checked_routes(routes: object, hub: Hub) -> tuple[str, ...]:
    if isinstance(routes, str) or not isinstance(routes, Iterable):
        raise TypeError(f'routes must be a list of route types, such as ["webhook"], not {routes!r}')
    named = tuple(dict.fromkeys(routes))
    known = list(dict.fromkeys([*ROUTE_TYPES, *hub.route_types]))
    for name in named:
        if name not in known:
            raise ValueError(f"routes: {name!r} is not a route type; there is {', '.join(map(repr, known))}")
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

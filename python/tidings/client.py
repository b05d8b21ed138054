"""For MCP clients: ask to be told what becomes of a tool call, and read what the server says about it.

Works with any client library, as it only makes and reads JSON values::

    capabilities = client.capability()                          # into the client's own capabilities
    config = client.config(client.webhook("https://me.example/hook", secret=secret, triggers=["completed", "failed"]))
    await session.call_tool(…)                                  # with {"notificationConfig": config} in its params,
                                                                # or meta={client.EXTENSION: config}
    told = client.acknowledgement(result["_meta"])
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ._errors import InvalidArgument
from ._hub import Hub

__all__ = [
    "ACKNOWLEDGED",
    "CONFIG",
    "EXTENSION",
    "GAP",
    "TRIGGERED",
    "Acknowledgement",
    "StreamGap",
    "Undelivered",
    "acknowledgement",
    "callback",
    "capability",
    "check",
    "config",
    "gap",
    "message",
    "signal",
    "supported",
    "undelivered",
    "webhook",
]

CONFIG: Final = "notificationConfig"
"""The key in the parameters of `tools/call` (SEP-992)."""

EXTENSION: Final = "io.tidings/notification-config"
"""The same capability under the key for extensions; and the key of a config in the ``_meta`` of `tools/call`, where an SDK has
no room for it in the parameters."""

ACKNOWLEDGED: Final = "notifications/config/acknowledged"
"""The notification that acknowledges a config before its tool runs."""

TRIGGERED: Final = "notifications/io.tidings/triggered"
"""The notification of a route of type `message`; its params are a webhook's body."""

GAP: Final = "notifications/io.tidings/gap"
"""The notification on a resumed stream that cannot be complete."""

_ROUTE_TYPES: Final = ("webhook", "message", "callback", "signal")


def capability() -> dict[str, Any]:
    """What a client adds to its own capabilities: it knows configs, under both names."""
    return {CONFIG: {}, "extensions": {EXTENSION: {}}}


def supported(capabilities: Mapping[str, Any]) -> list[str]:
    """The route types that a server's capabilities (of `initialize` or `server/discover`) name; none where it has none."""
    extensions = capabilities.get("extensions")
    told = extensions.get(EXTENSION) if isinstance(extensions, Mapping) else None
    told = told if isinstance(told, Mapping) else capabilities.get(CONFIG)
    types = told.get("supportedRouteTypes") if isinstance(told, Mapping) else None
    return [kind for kind in types if isinstance(kind, str)] if isinstance(types, list) else []


def webhook(
    endpoint: str,
    *,
    triggers: Sequence[Any],
    id: str = "webhook",
    secret: str | None = None,
    headers: Mapping[str, str] | None = None,
    deadline: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A route that posts to `endpoint`, signed with `secret` (`whsec_…`); `deadline` in seconds from the firing."""
    return _route(
        id,
        "webhook",
        triggers,
        endpoint=endpoint,
        secret=secret,
        headers=dict(headers) if headers is not None else None,
        deadlineMs=None if deadline is None else round(deadline * 1000),
        **more,
    )


def message(name: str | None = None, *, triggers: Sequence[Any], id: str = "message", **more: Any) -> dict[str, Any]:
    """A route into this session, or to a place of that name that the server opens to this client."""
    return _route(id, "message", triggers, endpoint=name, **more)


def callback(name: str, *, triggers: Sequence[Any], id: str = "callback", **more: Any) -> dict[str, Any]:
    """A route to a handler in the server that it opens to this client."""
    return _route(id, "callback", triggers, endpoint=name, **more)


def signal(name: str, *, triggers: Sequence[Any], id: str = "signal", **more: Any) -> dict[str, Any]:
    """A route that rings this process (stdio on Linux only) with `SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n`.

    Name one that this process has a handler for, or waits for: else it would be its end, and the server does not send it.
    """
    return _route(id, "signal", triggers, signal=name, **more)


def _route(id: str, kind: str, triggers: Sequence[Any], **members: Any) -> dict[str, Any]:
    if isinstance(triggers, str):
        raise TypeError("triggers: must be a list, not one str")
    given = {name: value for name, value in members.items() if value is not None}
    return {"id": id, "type": kind, "triggers": list(triggers), **given}


def config(
    *routes: Mapping[str, Any],
    timeout: float | None = None,
    supported: Sequence[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A `notificationConfig` of these routes, in order of preference, checked by the rules of the server's own core.

    `timeout` in seconds may only lower the server's. `supported` are the route types of the server, if they are known.
    Raises `ConfigError`, which lists the broken rules. What only the server knows (its address rules, what its policy opens)
    it alone can judge.
    """
    made: dict[str, Any] = {"routes": [dict(route) for route in routes], **more}
    if timeout is not None:
        if not timeout > 0:
            raise InvalidArgument("timeout: must be a number of seconds above 0")
        made["timeoutMs"] = max(round(timeout * 1000), 1)
    check(made, supported=supported)
    return made


def check(config: Mapping[str, Any], *, supported: Sequence[str] | None = None) -> list[str]:
    """Checks a config; raises `ConfigError`. Returns the names of triggers that nothing fires by itself."""
    routes = config.get("routes")
    named = [route for route in routes if isinstance(route, Mapping)] if isinstance(routes, list) else []
    types = [str(route.get("type")) for route in named] if supported is None else list(supported)
    opened = [route["endpoint"] for route in named if isinstance(route.get("endpoint"), str)]
    # Opens nothing: it judges the text. That a server may allow plain http and other ports is not for us to say.
    judge = Hub("memory:", allow_http=True, allow_networks=["0.0.0.0/0", "::/0"])
    return judge.check_config(
        json.dumps(config), route_types=[*_ROUTE_TYPES, *types] if supported is None else types, open=opened
    )


@dataclass(frozen=True)
class Acknowledgement:
    """A server's word that it has the config on disk."""

    call_id: str
    """The call, by which it is found again and cancelled (`io.tidings/calls/cancel`)."""
    request_id: int | str
    accepted_routes: list[str]
    """The ids of the routes: all of them."""
    ignored_triggers: list[str]
    """Names that nothing there fires by itself."""


def acknowledgement(value: Mapping[str, Any] | None) -> Acknowledgement | None:
    """Reads the acknowledgement from the params of `ACKNOWLEDGED`, or from a result's `_meta`; None where there is none."""
    value = _member(value, "io.tidings/acknowledged") or value
    if not isinstance(value, Mapping) or not isinstance(value.get("callId"), str):
        return None
    return Acknowledgement(
        value["callId"],
        value.get("requestId", ""),
        _texts(value.get("acceptedRoutes")),
        _texts(value.get("ignoredTriggers")),
    )


@dataclass(frozen=True)
class Undelivered:
    """A firing that reached nobody."""

    trigger: str | None
    routes: list[str]
    """The ids of the routes that wanted it."""
    reason: str
    """`no_deliverable_route` or `store_unavailable`."""


def undelivered(meta: Mapping[str, Any] | None) -> list[Undelivered]:
    """What a result's `_meta` says could not be delivered, where the server's policy is to say it."""
    entries = meta.get("io.tidings/undelivered") if isinstance(meta, Mapping) else None
    return [
        Undelivered(entry.get("trigger"), _texts(entry.get("routes")), str(entry.get("reason", "")))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping)
    ]


@dataclass(frozen=True)
class StreamGap:
    """Why a resumed stream is not complete."""

    reason: str
    """`evicted`, `regressed`, `lost` or `unknown`."""
    earliest_seq: int | None
    head_seq: int | None


def gap(params: Mapping[str, Any] | None) -> StreamGap | None:
    """Reads the params of `GAP`; None for what is none."""
    if not isinstance(params, Mapping) or not isinstance(params.get("reason"), str):
        return None
    return StreamGap(params["reason"], _number(params.get("earliestSeq")), _number(params.get("headSeq")))


def _member(value: object, name: str) -> Mapping[str, Any] | None:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []

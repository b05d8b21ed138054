"""What becomes of the configs of one server: which route types a session may use, the policy, the server's own routes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from .. import ConfigError, Hub
from . import _policy, _wire
from ._doorbell import Doorbell
from ._nursery import Nursery
from ._peers import Peer, Send
from ._policy import Allow, Deny, Policy, PolicyRequest
from ._request import Request
from ._trouble import Trouble

Routes: TypeAlias = "Sequence[Mapping[str, Any]]"
DefaultRoutes: TypeAlias = "Routes | Mapping[str, Routes] | None"
"""Routes of the server's own, for all tools or by name."""

_OF_A_PEER: Final = ("message", "signal")
"""Types whose routes without an ``endpoint`` go to the calling session."""


@dataclass(frozen=True)
class Accepted:
    """A config that the policy lets through, for the core to judge."""

    config: bytes
    route_types: list[str]
    open: list[str]
    to_peer: tuple[str, ...]
    """The types of its routes that go to the calling session."""


class ConfigRefused(Exception):
    """Nothing runs."""

    def __init__(self, answer: Exception) -> None:
        super().__init__(str(answer))
        self.answer = answer
        """What the client is answered."""


class Routing:
    """The routes of one server. False where it offers none."""

    def __init__(
        self,
        hub: Hub,
        types: Sequence[str],
        policy: Policy | None,
        defaults: DefaultRoutes,
        trouble: Trouble,
        doorbell: Doorbell | None,
        recorded: bool,
    ) -> None:
        self._hub = hub
        self._types = tuple(types)
        self._policy = policy
        self._defaults = defaults
        self._trouble = trouble
        self.doorbell = doorbell
        self.recorded: Final = recorded
        """Whether an event store of ours keeps what a session of Streamable HTTP is sent while nobody listens."""

    def __bool__(self) -> bool:
        return bool(self._types) or bool(self._defaults)

    @property
    def offers(self) -> bool:
        """Whether clients may bring configs."""
        return bool(self._types)

    def peer(self, nursery: Nursery, send: Send | None, *, over_http: bool) -> Peer:
        """A connection as a place for deliveries."""
        doorbell = None if over_http else self.doorbell
        return Peer(self._hub, nursery, self._trouble, send, doorbell)

    def types_of(self, peer: Peer | None) -> list[str]:
        """The route types that a session may use; `peer` is its connection, if it outlives the request."""

        def can(kind: str) -> bool:
            if kind in _OF_A_PEER and (peer is None or kind not in peer.route_types):
                return kind == "message" and self._policy is not None  # by a name that the policy opens
            return kind != "callback" or self._policy is not None

        return [kind for kind in self._types if can(kind)]

    def types_of_server(self) -> list[str]:
        """The route types that a session may use where it is not known which session asks."""
        kinds = {"callback": self._policy is not None, "signal": self.doorbell is not None}
        return [kind for kind in self._types if kinds.get(kind, True)]

    def default_config(self, tool: str, peer: Peer | None) -> dict[str, Any] | None:
        """The server's own routes for a call without a config, as far as they lead anywhere from this session."""
        routes = self._defaults.get(tool, ()) if isinstance(self._defaults, Mapping) else self._defaults or ()
        there = peer.route_types if peer is not None else ()
        usable = [
            dict(route)
            for route in routes
            if route["type"] not in _OF_A_PEER or "endpoint" in route or route["type"] in there
        ]
        return {"routes": usable} if usable else None

    def default(self, config: dict[str, Any]) -> Accepted:
        """The server's own config, which nobody has to allow."""
        return self._accepted(config, _types_in(config), _names_in(config))

    async def judge(self, request: Request, principal: str, peer: Peer | None) -> Accepted:
        """The client's config after the policy. Raises `ConfigRefused`."""
        config = request.params[_wire.CONFIG]
        types = self.types_of(peer)
        if self._policy is None or not isinstance(config, dict):
            return self._accepted(config, types, [])
        copy = json.loads(_wire.dumps(config))
        asked = PolicyRequest(principal, request.params["name"], copy, request.session_id)
        try:
            said = await _policy.ask(self._policy, asked)
        except Exception as error:
            self._trouble.report("the policy failed, and a notificationConfig was refused", error)
            raise ConfigRefused(_wire.policy_failed()) from error
        if isinstance(said, Deny):
            fault = {"path": "", "rule": "denied", "message": said.reason}
            raise ConfigRefused(_wire.config_rejected({"faults": [fault], "total": 1}))
        return self._accepted(config if isinstance(said, Allow) else dict(said.config), types, list(said.open))

    def _accepted(self, config: Any, types: list[str], names: list[str]) -> Accepted:
        routes = config.get("routes") if isinstance(config, Mapping) else None
        routes = routes if isinstance(routes, list | tuple) else ()
        to_peer = {
            route["type"]
            for route in routes
            if isinstance(route, Mapping) and route.get("type") in _OF_A_PEER and "endpoint" not in route
        }
        return Accepted(_wire.dumps(config), types, names, tuple(sorted(to_peer)))


def check_defaults(hub: Hub, defaults: object, types: Sequence[str]) -> None:
    """Raises TypeError or ValueError for routes of the server's own that could not be used; the core judges them."""
    by_tool = defaults.items() if isinstance(defaults, Mapping) else [("", defaults)] if defaults is not None else []
    for tool, routes in by_tool:
        field = f"default_routes[{tool!r}]" if tool else "default_routes"
        if isinstance(routes, str | Mapping) or not isinstance(routes, Sequence):
            raise TypeError(f"{field} must be a list of routes, not {routes!r}")
        if not routes:
            continue
        config = {"routes": list(routes)}
        try:
            hub.check_config(
                json.dumps(config), route_types=[*types, *_OF_A_PEER, "webhook", "callback"], open=_names_in(config)
            )
        except ConfigError as error:
            raise ValueError(f"{field}: {error}") from error


def _types_in(config: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(route["type"] for route in config["routes"]))


def _names_in(config: Mapping[str, Any]) -> list[str]:
    named = [route for route in config["routes"] if isinstance(route, Mapping) and route.get("type") != "webhook"]
    return [route["endpoint"] for route in named if isinstance(route.get("endpoint"), str)]

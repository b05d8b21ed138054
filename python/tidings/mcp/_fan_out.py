"""What `attach` puts into a server so that its peers are told of changes."""

from __future__ import annotations

from typing import Any, Final

from mcp.server.lowlevel.server import Server
from mcp_types import SubscriptionsListenRequestParams

from .. import Hub, TidingsError
from . import _bus, _compat, _components, _scoping
from ._desk import Desks
from ._fanout_peers import Peers
from ._listen import ListenHandler
from ._nursery import Nurseries
from ._trouble import Trouble

_LISTEN: Final = "subscriptions/listen"

_NOT_TOLD: Final = "a change could not be published"


def install(
    server: Server[Any],
    hub: Hub,
    nurseries: Nurseries,
    trouble: Trouble,
    outer: object,
    progress_interval: float,
) -> Peers:
    """Register the server's peers, and tell them of what changes. `outer` is what the server's author made."""
    desks = Desks(hub, nurseries, trouble)
    entry = server.get_request_handler(_LISTEN)
    bus = _compat.bus(outer, entry)
    peers = Peers(server, desks, hides_lists=_compat.hides_lists(outer), progress_interval=progress_interval)
    peers.install()
    chain = server.middleware
    chain.insert(1 if chain and type(chain[0]).__name__ == _compat.TELEMETRY else 0, peers)
    if entry is not None and isinstance(entry.handler, ListenHandler):
        # Of another hub it is its author's business.
        if entry.handler.hub is hub:
            entry.handler.adopt(server, desks)
    elif _compat.may_serve_listeners(outer, entry):
        handler = ListenHandler(hub, server)
        handler.adopt(server, desks)
        server.add_request_handler(_LISTEN, SubscriptionsListenRequestParams, handler)
    if bus is not None:
        _bus.follow(bus, hub, trouble.report)

    def changed(kind: str) -> None:
        # Before the server serves there is nobody to tell, and the store is not to be opened.
        if desks.serving:
            try:
                hub.notify(kind)
            except TidingsError as error:
                trouble.report(_NOT_TOLD, error)

    _components.follow(outer, changed)
    _scoping.install()
    return peers

"""`ListenHandler` and `SubscriptionBus` by hand: for whoever wires a server of his own and does not `attach`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import ToolsListChanged
from mcp_listen import PROMPTS, TOOLS, UPDATED, Keep, Listener, counts, total, until
from mcp_types import ListToolsResult
from mcp_wire import MODERN, WAIT, Client, Served
from tidings import Hub
from tidings.fanout import Sink
from tidings.mcp import ListenHandler, SubscriptionBus


async def no_tools(ctx: Any, params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[])


def listen(served: Served, keep: Keep, filter: dict[str, Any], id: int | str = 1) -> Listener:
    made = Listener(Client(served.port, MODERN), filter, id)
    keep(made.answer)
    return made


def publish(served: Served, bus: SubscriptionBus) -> None:
    """As a tool would: in the server's loop."""
    asyncio.run_coroutine_threadsafe(bus.publish(ToolsListChanged()), served.loop).result(WAIT)


EVERYTHING = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["x:/y"]}


def test_a_server_of_ones_own_serves_listeners_from_the_hub(hub: Hub, serve: Callable[..., Served], keep: Keep) -> None:
    handler = ListenHandler(hub)
    served = serve(Server("by hand", on_list_tools=no_tools, on_subscriptions_listen=handler))
    one, two = listen(served, keep, EVERYTHING, "one"), listen(served, keep, {"promptsListChanged": True}, 2)
    # It was not told which server it is of: everything is honoured.
    assert (one.honoured, two.honoured) == (EVERYTHING, {"promptsListChanged": True})
    assert counts(tidings.mcp.notify(hub, "tools")) == (1, 1, 0)
    assert one.next() == (TOOLS, {})
    assert counts(hub.notify("prompts")) == (2, 0, 0)
    assert (one.next(), two.next()) == ((PROMPTS, {}), (PROMPTS, {}))
    assert counts(hub.notify(uri="x:/y")) == (1, 1, 0)
    assert one.next() == (UPDATED, {"uri": "x:/y"})
    two.answer.cut()
    until(lambda: total(hub) == 1)
    handler.close()
    [last] = one.answer.rest()
    assert last.message["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "one"
    until(lambda: total(hub) == 0)


def test_it_honours_what_its_server_advertises(hub: Hub, serve: Callable[..., Served], keep: Keep) -> None:
    handler = ListenHandler(hub, max_listeners=1)
    handler.server = Server("by hand", on_list_tools=no_tools, on_subscriptions_listen=handler)
    served = serve(handler.server)
    assert listen(served, keep, EVERYTHING).honoured == {"toolsListChanged": True}
    answer = Client(served.port, MODERN).request("subscriptions/listen", {"notifications": {}})
    assert answer.messages()[-1]["error"]["message"] == "Subscription limit reached"
    answer = Client(served.port, MODERN).request("subscriptions/listen", {"notifications": {"toolsListChanged": 1}})
    assert answer.messages()[-1]["error"]["code"] == -32602


@pytest.mark.parametrize("of", ["bus", "hub"])
def test_the_bus_reaches_listeners_and_whoever_subscribed_to_it(
    hub: Hub, serve: Callable[..., Served], keep: Keep, of: str
) -> None:
    bus = SubscriptionBus(hub)
    heard: list[Any] = []
    bus.subscribe(heard.append)
    handler = ListenHandler(bus if of == "bus" else hub)
    served = serve(Server("by hand", on_subscriptions_listen=handler))
    listener = listen(served, keep, EVERYTHING)
    publish(served, bus)
    assert listener.next() == (TOOLS, {})
    assert heard == [ToolsListChanged()]


def test_the_bus_of_an_attached_server_tells_each_listener_once(
    hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    bus = SubscriptionBus(hub)
    server: MCPServer = MCPServer("test", log_level="CRITICAL", subscriptions=bus)
    tidings.mcp.attach(server, hub)
    served = serve(server)
    listener = listen(served, keep, EVERYTHING)
    publish(served, bus)
    assert listener.next() == (TOOLS, {})
    hub.notify("prompts")
    assert listener.next() == (PROMPTS, {})


def test_attach_takes_on_the_handler_that_is_there(hub: Hub, serve: Callable[..., Served], keep: Keep) -> None:
    handler = ListenHandler(hub)
    server = Server("by hand", on_list_tools=no_tools, on_subscriptions_listen=handler)
    attached = tidings.mcp.attach(server, hub)
    served = serve(server)
    listener = listen(served, keep, EVERYTHING, "x")
    assert listener.honoured == {"toolsListChanged": True}
    assert counts(tidings.mcp.notify(server, "tools")) == (1, 0, 0)
    assert listener.next() == (TOOLS, {})
    attached.end_listeners()
    assert listener.answer.rest()[-1].message["id"] == "x"


def test_a_listener_that_never_reads_fails_later_and_holds_up_nobody(
    hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    def server(**options: Any) -> Served:
        return serve(Server("by hand", on_subscriptions_listen=ListenHandler(hub, **options)))

    deaf = listen(server(deadline=2.0), keep, {"resourceSubscriptions": [f"x:/{number}" for number in range(1000)]})
    deaf.answer._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    # With the usual time: on a busy machine it is not to fail too.
    heard = listen(server(), keep, {"toolsListChanged": True})
    failed: list[Sink] = []

    def told_enough() -> bool:
        for number in range(1000):
            hub.notify(uri=f"x:/{number}")
        assert counts(hub.notify("tools")) == (1, total(hub) - 1, 0)
        assert heard.next() == (TOOLS, {})
        failed.extend(hub.failed_sinks())
        return bool(failed)

    until(told_enough)
    assert (len(failed), hub.failed_sinks(), total(hub)) == (1, [], 1)


def test_a_bad_argument_is_named(hub: Hub) -> None:
    with pytest.raises(TypeError, match="hub must be a Hub or a SubscriptionBus"):
        ListenHandler("memory:")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_listeners must be a count, 1 or more"):
        ListenHandler(hub, max_listeners=0)
    with pytest.raises(ValueError, match="deadline must be a finite number of seconds above 0"):
        ListenHandler(hub, deadline=float("nan"))

"""Fan-out through the SDKs: everybody who asked is told once, in the words of their version; nobody else is told."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tidings.mcp
from mcp_listen import PROMPTS, TOOLS, UPDATED, Keep, Listener, Stdio, add_eighty_tools, counts, told, total, until
from mcp_process import ServerProcess
from mcp_stage import KINDS
from mcp_wire import LEGACY, MODERN, Client, Served, in_loop
from tidings import Hub

Listen = Callable[..., Listener]


@pytest.fixture
def listen(keep: Keep) -> Callable[..., Listener]:
    """Opens a listener, which stays open until the test ends."""

    def one(*arguments: Any, **meta: Any) -> Listener:
        made = Listener(*arguments, **meta)
        keep(made.answer)
        return made

    return one


def test_one_publish_reaches_all_kinds_of_clients_once(
    plain: Any, hub: Hub, serve: Callable[..., Served], stdio: Callable[..., Stdio], keep: Keep, listen: Listen
) -> None:
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    new, old = Client(served.port, LEGACY), Client(served.port, "2025-06-18")
    assert new.initialized["result"]["capabilities"]["tools"]["listChanged"] is True
    streams = [keep(new.get()), keep(old.get())]
    one = listen(Client(served.port, MODERN), {"toolsListChanged": True}, "a")
    both = Client(served.port, MODERN)
    prompts = listen(both, {"promptsListChanged": True}, 1)
    tools = listen(both, {"toolsListChanged": True, "resourceSubscriptions": ["x:/y"]}, 0)
    pipe = stdio(served, plain)
    pipe.initialize()
    deaf = listen(Client(served.port, MODERN), {"toolsListChanged": True}, 1)
    deaf.answer._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    dead = Client(served.port, LEGACY)
    dead.get().cut()
    until(lambda: total(hub) == 8)
    gone = listen(Client(served.port, MODERN), {"toolsListChanged": True}, 1)
    gone.answer.cut()
    until(lambda: total(hub) == 8)

    # Two sessions, the dead one (whose event store keeps it), the pipe, three listeners; and not the one for prompts.
    assert counts(tidings.mcp.notify(plain, "tools")) == (7, 1, 0)
    assert [told(stream) for stream in streams] == [TOOLS, TOOLS]
    assert one.next() == (TOOLS, {})
    assert tools.next() == (TOOLS, {})
    assert pipe.next() == {"jsonrpc": "2.0", "method": TOOLS}
    # What comes next is the next publish: nobody was told twice, and who did not ask was told nothing.
    assert counts(tidings.mcp.notify(hub, "prompts")) == (5, 3, 0)
    assert [told(stream) for stream in streams] == [PROMPTS, PROMPTS]
    assert prompts.next() == (PROMPTS, {})
    assert pipe.next()["method"] == PROMPTS
    assert counts(tidings.mcp.notify(plain, uri="x:/y")) == (1, 7, 0)
    assert tools.next() == (UPDATED, {"uri": "x:/y"})
    assert counts(tidings.mcp.notify(plain, "tools", "prompts", "resources")) == (8, 0, 0)
    assert one.next() == (TOOLS, {})


def test_one_publish_reaches_the_clients_of_another_process(
    plain: Any, hub: Hub, serve: Callable[..., Served], tmp_path: Path, keep: Keep, listen: Listen
) -> None:
    tidings.mcp.attach(plain, hub)
    here = serve(plain)
    other = ServerProcess(tmp_path / "tidings.db", min(KINDS))
    try:
        sessions = [Client(here.port, LEGACY), Client(other.port, "2025-06-18")]
        streams = [keep(session.get()) for session in sessions]
        listeners = [
            listen(Client(port, MODERN), {"toolsListChanged": True}, id)
            for port, id in ((here.port, 1), (other.port, "1"))
        ]
        until(lambda: total(hub) == 2)
        assert counts(tidings.mcp.notify(plain, "tools")) == (2, 0, 0)
        assert [told(stream) for stream in streams] == [TOOLS, TOOLS]
        assert [listener.next() for listener in listeners] == [(TOOLS, {})] * 2
        assert other.notify("prompts") == 1
        assert [told(stream) for stream in streams] == [PROMPTS, PROMPTS]
        assert other.notify("tools") == 2
        assert [listener.next() for listener in listeners] == [(TOOLS, {})] * 2
    finally:
        other.close()


def test_eighty_registrations_are_one_notification_and_the_same_again_none(
    plain: Any, hub: Hub, serve: Callable[..., Served], listen: Listen
) -> None:
    """Field case B41."""
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    listener = listen(Client(served.port, MODERN), {"toolsListChanged": True, "promptsListChanged": True})

    in_loop(served, lambda: add_eighty_tools(plain))
    assert listener.next() == (TOOLS, {})
    in_loop(served, lambda: add_eighty_tools(plain))
    tidings.mcp.notify(plain, "prompts")
    assert listener.next() == (PROMPTS, {})

    def remove() -> None:
        server = getattr(plain, "_local_provider", plain)
        server.remove_tool("tool_1")

    in_loop(served, remove)
    assert listener.next() == (TOOLS, {})


def test_only_what_is_asked_for_and_advertised_is_honoured(
    plain: Any, hub: Hub, serve: Callable[..., Served], listen: Listen
) -> None:
    """Field case B43, as far as a client sees it."""
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, MODERN)
    asked = {"toolsListChanged": True, "promptsListChanged": False, "eventsListChanged": True, "x/y": 1}
    assert listen(client, asked, 0).honoured == {"toolsListChanged": True}
    empty = listen(client, {}, "")
    assert empty.honoured == {}
    assert counts(tidings.mcp.notify(plain, "tools", "prompts", "resources")) == (1, 1, 0)
    for bad in ({"toolsListChanged": 1}, {"resourceSubscriptions": "x:y"}, {"resourceSubscriptions": [1]}):
        error = client.request("subscriptions/listen", {"notifications": bad}).messages()[-1]["error"]
        assert error["code"] == -32602
    error = client.request("subscriptions/listen", {"notifications": {"taskIds": ["t"]}}).messages()[-1]["error"]
    assert error["code"] == -32021


def test_listeners_end_in_order(plain: Any, hub: Hub, serve: Callable[..., Served], listen: Listen) -> None:
    attached = tidings.mcp.attach(plain, hub)
    listener = listen(Client(serve(plain).port, MODERN), {"toolsListChanged": True}, "the end")
    tidings.mcp.notify(plain, "tools")
    attached.end_listeners()
    assert listener.next() == (TOOLS, {})
    [last] = listener.answer.rest()
    assert last.message["id"] == "the end"
    meta = last.message["result"]["_meta"]
    assert meta["io.modelcontextprotocol/subscriptionId"] == "the end"
    until(lambda: total(hub) == 0)


def test_a_listener_on_a_pipe_is_cancelled_by_its_id(
    plain: Any, hub: Hub, serve: Callable[..., Served], stdio: Callable[..., Stdio]
) -> None:
    tidings.mcp.attach(plain, hub)
    pipe = stdio(serve(plain), plain)
    for id in (7, "8"):
        pipe.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id)
        message = pipe.next()
        assert message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == id
    pipe.send({"method": "notifications/cancelled", "params": {"requestId": 7}})
    until(lambda: total(hub) == 1)
    tidings.mcp.notify(plain, "tools")
    messages = [pipe.next()]
    while messages[-1].get("method") != TOOLS:
        messages.append(pipe.next())
    assert messages[-1]["params"] == {"_meta": {"io.modelcontextprotocol/subscriptionId": "8"}}

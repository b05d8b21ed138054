"""Sessions (up to 2025-11-25) are told of changes, on every SDK: who asked, once, and nobody else."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp_listen import PROMPTS, RESOURCES, TOOLS, Keep, Stdio, add_eighty_tools, counts, told, total, until
from mcp_stage import KINDS, Stage, server_of
from mcp_wire import LEGACY, Client, Served, in_loop
from tidings import Hub


def test_sessions_over_http_and_a_pipe_are_told_once(
    plain: Any, hub: Hub, serve: Callable[..., Served], stdio: Callable[..., Stdio], keep: Keep
) -> None:
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    new, old = Client(served.port, LEGACY), Client(served.port, "2025-06-18")
    for capability in ("tools", "prompts", "resources"):
        assert new.initialized["result"]["capabilities"][capability]["listChanged"] is True
    streams = [keep(new.get()), keep(old.get())]
    pipe = stdio(served, plain)
    pipe.initialize()
    dead = Client(served.port, LEGACY)
    dead.get().cut()
    until(lambda: total(hub) == 4)
    # The event store keeps it for the dead one.
    assert counts(tidings.mcp.notify(plain, "tools")) == (4, 0, 0)
    assert [told(stream) for stream in streams] == [TOOLS, TOOLS]
    assert pipe.next() == {"jsonrpc": "2.0", "method": TOOLS}
    # What comes next is the next publish: nobody was told twice.
    assert counts(tidings.mcp.notify(hub, "prompts", "resources", "resource_templates")) == (4, 0, 0)
    for stream in streams:
        assert [told(stream), told(stream)] == [PROMPTS, RESOURCES]
    assert [pipe.next()["method"], pipe.next()["method"]] == [PROMPTS, RESOURCES]


def test_nothing_comes_before_the_handshake_is_complete_and_what_was_published_comes_then(
    plain: Any, hub: Hub, serve: Callable[..., Served], stdio: Callable[..., Stdio]
) -> None:
    tidings.mcp.attach(plain, hub)
    pipe = stdio(serve(plain), plain)
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    pipe.send({"id": 0, "method": "initialize", "params": params})
    assert pipe.next()["id"] == 0
    assert counts(tidings.mcp.notify(plain, "tools")) == (1, 0, 0)
    assert counts(tidings.mcp.notify(plain, "tools")) == (1, 0, 0)
    pipe.send({"id": 1, "method": "ping"})
    assert pipe.next()["id"] == 1
    pipe.send({"method": "notifications/initialized"})
    assert pipe.next()["method"] == TOOLS
    tidings.mcp.notify(plain, "prompts")
    assert pipe.next()["method"] == PROMPTS


def test_a_session_that_never_reads_holds_up_nobody(
    plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    deaf, heard = Client(served.port, LEGACY), Client(served.port, LEGACY)
    for client in (deaf, heard):
        assert client.request("resources/subscribe", {"uri": "x:/"}).messages()[-1]["result"] == {}
    keep(deaf.get())._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    stream = keep(heard.get())
    # More than all the buffers between a server and a client that reads nothing.
    for number in range(100):
        uri = f"x:/{number}/" + "y" * 60_000
        assert counts(tidings.mcp.notify(plain, uri=uri)) == (2, 0, 0)
        assert stream.take(1)[0].message["params"] == {"uri": uri}


def test_a_changed_component_is_told_by_itself(plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep) -> None:
    """Field case B41, as a session sees it: one notification for the burst, none for the same again."""
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    stream = keep(Client(served.port, LEGACY).get())

    in_loop(served, lambda: add_eighty_tools(plain))
    assert told(stream) == TOOLS
    in_loop(served, lambda: add_eighty_tools(plain))
    tidings.mcp.notify(plain, "prompts")
    assert told(stream) == PROMPTS


def test_a_request_without_a_session_is_no_peer(plain: Any, hub: Hub, serve: Callable[..., Served]) -> None:
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain, stateless_http=True).port, LEGACY)
    assert client.session is None
    assert total(hub) == 0
    client.call("steps", {"count": 1}).messages()
    assert total(hub) == 0


def test_the_dead_session_hears_it_when_it_comes_back(
    plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, LEGACY)
    stream = keep(client.get())
    tidings.mcp.notify(plain, "prompts")
    place = stream.take(1)[0].id
    stream.cut()
    assert counts(tidings.mcp.notify(plain, "tools")) == (1, 0, 0)
    assert told(keep(client.get(place))) == TOOLS


def test_without_an_event_store_only_an_open_stream_counts(
    plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    tidings.mcp.attach(plain, hub, event_store=False)
    client = Client(serve(plain).port, "2025-06-18")
    until(lambda: total(hub) == 1)
    assert counts(tidings.mcp.notify(plain, "tools")) == (0, 1, 0)
    stream = keep(client.get())
    # The SDK knows of the stream a moment after its headers are out.
    until(lambda: counts(tidings.mcp.notify(plain, "tools")) == (1, 0, 0))
    assert told(stream) == TOOLS


def test_a_session_that_is_deleted_is_forgotten(plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep) -> None:
    """Field case B45."""
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    gone, others = Client(served.port, LEGACY), [Client(served.port, LEGACY) for _ in range(3)]
    streams = [keep(client.get()) for client in others]
    gone.delete().messages()
    until(lambda: total(hub) == 3)
    assert counts(tidings.mcp.notify(plain, "tools")) == (3, 0, 0)
    assert [told(stream) for stream in streams] == [TOOLS] * 3


def test_nothing_is_opened_by_what_is_registered_before_serving(plain: Any, tmp_path: Any) -> None:
    hub = Hub(f"sqlite:{tmp_path / 'unused.db'}")
    tidings.mcp.attach(plain, hub)

    def late() -> str:
        return "done"

    plain.add_tool(late)
    assert not (tmp_path / "unused.db").exists()


def test_a_declared_false_is_kept(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    """Field case B42: the low-level server says to sessions what its author said."""
    if "Server" not in KINDS:
        pytest.skip("this SDK has no low-level server of its own")
    server = server_of("Server", stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    assert not client.initialized["result"]["capabilities"]["tools"].get("listChanged")
    assert counts(tidings.mcp.notify(server, "tools")) == (0, 1, 0)


def test_a_session_subscribes_to_a_resource_and_what_lies_below(
    plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, LEGACY)
    assert client.initialized["result"]["capabilities"]["resources"]["subscribe"] is True
    stream = keep(client.get())
    assert counts(tidings.mcp.notify(plain, uri="file:///a")) == (0, 1, 0)
    assert client.request("resources/subscribe", {"uri": "file:///a"}).messages()[-1]["result"] == {}
    assert counts(tidings.mcp.notify(plain, uri="file:///a/b")) == (1, 0, 0)
    assert stream.take(1)[0].message["params"] == {"uri": "file:///a/b"}
    assert client.request("resources/unsubscribe", {"uri": "file:///a"}, 2).messages()[-1]["result"] == {}
    assert counts(tidings.mcp.notify(plain, uri="file:///a")) == (0, 1, 0)


def test_an_audience_is_told_alone(plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep) -> None:
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    one, two = Client(served.port, LEGACY), Client(served.port, LEGACY)
    streams = [keep(one.get()), keep(two.get())]
    assert counts(tidings.mcp.notify(plain, "tools", audience=f"session:{one.session}")) == (1, 1, 0)
    assert told(streams[0]) == TOOLS
    tidings.mcp.notify(plain, "prompts")
    assert told(streams[1]) == PROMPTS


def test_what_is_no_attached_server_is_refused(hub: Hub, plain: Any) -> None:
    for thing in (object(), plain):
        with pytest.raises(TypeError, match="notify takes a Hub or a server that was attached"):
            tidings.mcp.notify(thing, "tools")

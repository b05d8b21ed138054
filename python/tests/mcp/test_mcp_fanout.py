"""Fan-out through the SDKs: everybody who asked is told once, in the words of their version; nobody else is told."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tidings.mcp
from mcp_listen import Listener, Stdio, told, until
from mcp_process import ServerProcess
from mcp_stage import KINDS, Stage, high_level_server
from mcp_wire import LEGACY, MODERN, Answer, Client, Served, in_loop
from tidings import Fanout, Hub
from tidings.mcp import _compat

Keep = Callable[[Answer], Answer]
Listen = Callable[..., Listener]

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"


def counts(fanout: Fanout) -> tuple[int, int, int]:
    return fanout.told, fanout.skipped, fanout.failed


def total(hub: Hub) -> int:
    """How many listeners there are."""
    fanout = hub.notify("events")
    return fanout.told + fanout.skipped


@pytest.fixture
def plain(stage: Stage) -> Any:
    """The server that people use."""
    return high_level_server(stage)


@pytest.fixture
def keep() -> Iterator[Callable[[Answer], Answer]]:
    """Keeps a stream open until the test ends, then closes it."""
    kept: list[Answer] = []

    def one(answer: Answer) -> Answer:
        kept.append(answer)
        return answer

    yield one
    for answer in kept:
        answer.close()


@pytest.fixture
def listen(keep: Callable[[Answer], Answer]) -> Callable[..., Listener]:
    """Opens a listener, which stays open until the test ends."""

    def one(*arguments: Any, **meta: Any) -> Listener:
        made = Listener(*arguments, **meta)
        keep(made.answer)
        return made

    return one


@pytest.fixture
def stdio() -> Iterator[Callable[..., Stdio]]:
    made: list[Stdio] = []

    def make(served: Served, server: Any) -> Stdio:
        low_level = _compat.low_level(server)
        assert low_level is not None
        made.append(Stdio(served, low_level))
        return made[-1]

    yield make
    for client in made:
        client.close()


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


def test_eighty_registrations_are_one_notification_and_the_same_again_none(
    plain: Any, hub: Hub, serve: Callable[..., Served], listen: Listen
) -> None:
    """Field case B41."""
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    listener = listen(Client(served.port, MODERN), {"toolsListChanged": True, "promptsListChanged": True})

    def register() -> None:
        for number in range(80):

            def tool() -> str:
                return "done"

            tool.__name__ = f"tool_{number}"
            try:
                plain.add_tool(tool)
            except ValueError:
                pass  # FastMCP: it is there already

    in_loop(served, register)
    assert listener.next() == (TOOLS, {})
    in_loop(served, register)
    tidings.mcp.notify(plain, "prompts")
    assert listener.next() == (PROMPTS, {})

    def remove() -> None:
        server = getattr(plain, "_local_provider", plain)
        server.remove_tool("tool_1")

    in_loop(served, remove)
    assert listener.next() == (TOOLS, {})


def test_nothing_is_opened_by_what_is_registered_before_serving(plain: Any, tmp_path: Any) -> None:
    hub = Hub(f"sqlite:{tmp_path / 'unused.db'}")
    tidings.mcp.attach(plain, hub)

    def late() -> str:
        return "done"

    plain.add_tool(late)
    assert not (tmp_path / "unused.db").exists()


def test_a_declared_false_is_kept(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    """Field case B42: the low-level server says to sessions what its author said."""
    if "Server" not in _kinds():
        pytest.skip("this SDK has no low-level server of its own")
    from mcp_stage_v2 import low_level_server

    server = low_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    assert not client.initialized["result"]["capabilities"]["tools"].get("listChanged")
    assert counts(tidings.mcp.notify(server, "tools")) == (0, 1, 0)


def _kinds() -> Any:
    from mcp_stage import KINDS

    return KINDS


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


def test_what_is_no_attached_server_is_refused(hub: Hub, plain: Any) -> None:
    for thing in (object(), plain):
        with pytest.raises(TypeError, match="notify takes a Hub or a server that was attached"):
            tidings.mcp.notify(thing, "tools")


def test_progress_rises_and_ends_with_its_request(
    plain: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    """Field cases B47 and B49: on the call's own stream, under the call's own token."""
    tidings.mcp.attach(plain, hub)
    served = serve(plain)
    for era in (LEGACY, "2025-06-18", MODERN):
        client = Client(served.port, era)
        plain_call = client.call("steps", {"count": 3}, id=4).messages()
        assert [message.get("method") for message in plain_call] == [None]
        for id, token in ((5, "abc"), (6, 6), (7, 0), (8, "")):
            answer = client.request("tools/call", {"name": "steps", "arguments": {"count": 3}}, id, progressToken=token)
            *reports, last = answer.messages()
            got = [(report["params"]["progressToken"], report["params"]["progress"]) for report in reports]
            assert got == [(token, 1), (token, 2), (token, 3)]
            assert last["id"] == id


def test_progress_stays_off_the_sessions_own_stream(
    plain: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    """Field case B49, with a GET open: the first that comes on it is what belongs there."""
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, LEGACY)
    standalone = client.get()
    reports = client.request("tools/call", {"name": "steps", "arguments": {"count": 3}}, 5, progressToken=1).messages()
    assert [report.get("method") for report in reports] == ["notifications/progress"] * 3 + [None]
    tidings.mcp.notify(plain, "tools")
    assert standalone.take(1)[0].message["method"] == "notifications/tools/list_changed"
    standalone.close()

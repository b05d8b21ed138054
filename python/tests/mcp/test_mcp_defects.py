"""The defects that the SDKs' own replay was proved to have, on the wire, with our store in: each cured.

One test for each, on every SDK that the adapter works on. The evidence of the defects is with the probes that found them:
a message lost between the end of the replay and the first live one; a resumed connection that stays open after the result;
a resume that leaves a mark in the log, so that the next one replays more; another session that gets the events; a store
that raises, upon which the session is dead; a slow store that holds up the tool; a client that does not read, upon which
every other call of its session hangs.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp_stage import Stage, high_level_server
from mcp_wire import LEGACY, WAIT, Client, Served, SseEvent
from tidings import Hub


def progress(events: list[SseEvent]) -> list[int]:
    return [int(event.message["params"]["progress"]) for event in events if "params" in event.message]


@pytest.fixture
def client(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> Client:
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    return Client(serve(server).port, LEGACY)


@pytest.fixture
def narrow(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> Client:
    """The same, of a server whose system keeps next to nothing of what is not read: else it takes megabytes to be felt."""
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    served = serve(server)
    # What is accepted from now on has it from the socket that listens.
    served.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return Client(served.port, LEGACY)


def test_nothing_is_lost_between_replay_and_live(client: Client) -> None:
    # The tool goes on at full speed while the client comes back, so that the join lies in the middle of its messages.
    for round in range(10):
        answer = client.call("steps", {"count": 400}, id=round, progress=True)
        seen = answer.take(1 + round * 20)
        answer.cut()
        assert progress([*seen, *client.get(seen[-1].id).rest()]) == list(range(1, 401))


def test_a_resumed_connection_is_closed_after_the_result(client: Client, stage: Stage) -> None:
    answer = client.call("steps", {"count": 2, "hold_at": 1}, progress=True)
    seen = answer.take(1)
    answer.cut()
    resumed = client.get(seen[0].id)
    stage.gate.open()
    *_, last = resumed.rest()  # ends, or fails after its time
    assert last.message["result"]["content"][0]["text"] == "done"


def test_a_second_resume_gets_the_same_as_the_first(client: Client) -> None:
    answer = client.call("steps", {"count": 5}, progress=True)
    primed, events = answer.priming(), answer.rest()
    for _ in range(3):
        assert client.get(primed.id).rest() == events
        assert client.get(events[1].id).rest() == events[2:]


def test_another_session_gets_nothing(client: Client) -> None:
    events = client.call("steps", {"count": 3}, id=7, progress=True).rest()
    other = Client(client.port, LEGACY)
    other.call("steps", {"count": 1}, id=7, progress=True).rest()
    for event in events:
        assert other.get(event.id).rest() == []


class Broken:
    """A hub whose store is gone from some message on."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hub, name)

    def new_writer(self, scope: str, name: str) -> Any:
        writer = self._hub.new_writer(scope, name)
        broken = self

        class Writer:
            def append(self, payload: bytes, **options: Any) -> str:
                if broken.broken:
                    raise OSError(28, "No space left on device")
                cursor: str = writer.append(payload, **options)
                return cursor

            def __getattr__(self, name: str) -> Any:
                return getattr(writer, name)

        return Writer()


def test_a_store_that_fails_does_not_end_the_session(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    server = high_level_server(stage)
    broken: Any = Broken(hub)
    tidings.mcp.attach(server, broken)
    client = Client(serve(server).port, LEGACY)
    answer = client.call("steps", {"count": 2, "hold_at": 1}, progress=True)
    seen = answer.take(1)
    broken.broken = True
    stage.gate.open()
    assert progress([*seen, *answer.rest()]) == [1, 2]
    assert progress(client.call("steps", {"count": 1}, id=2, progress=True).rest()) == [1]


def unread(client: Client, arguments: dict[str, Any], version: str = LEGACY) -> socket.socket:
    """A call whose response nobody reads."""
    import json

    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": "unread",
            "method": "tools/call",
            "params": {"name": "steps", "arguments": arguments, "_meta": {"progressToken": "t"}},
        }
    )
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", client.port))
    connection.sendall(
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{client.port}\r\naccept: application/json, text/event-stream\r\n"
        f"content-type: application/json\r\nmcp-session-id: {client.session}\r\nmcp-protocol-version: {version}\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}".encode()
    )
    return connection


def read_some(connection: socket.socket, until: bytes) -> bytes:
    connection.settimeout(WAIT)
    got = b""
    while until not in got:
        got += connection.recv(256)
    return got


def test_a_client_that_does_not_read_holds_up_no_other_call(narrow: Client, stage: Stage) -> None:
    client, count = narrow, 200
    connection = unread(client, {"count": count, "size": 10_000, "hold_at": 0})
    stage.reached.wait()
    # It reads the priming event, which is its way back, and no more.
    start = read_some(connection, b"\r\ndata:")
    primed = start.partition(b"\nid: ")[2].partition(b"\r\n")[0].decode()
    stage.gate.open()
    # In the same session, while the tool says its 2 MB, which nobody reads.
    calls = 0
    while calls == 0 or not stage.done.is_open:
        calls += 1
        assert client.call("announce", id=f"other {calls}").rest()[-1].message["id"] == f"other {calls}"
    # And the one that did not read has lost nothing.
    resumed = client.get(primed).rest()
    assert progress(resumed) == list(range(1, count + 1))
    assert resumed[-1].message["id"] == "unread"
    connection.close()


def test_a_standalone_stream_that_is_not_read_holds_up_no_call(narrow: Client) -> None:
    client = narrow
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", client.port))
    connection.sendall(
        f"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1:{client.port}\r\naccept: text/event-stream\r\n"
        f"mcp-session-id: {client.session}\r\nmcp-protocol-version: {LEGACY}\r\n\r\n".encode()
    )
    read_some(connection, b"\r\n\r\n")
    # Some 200 kB: more than all sockets and the server's own buffer (64 kB) hold.
    answer = client.call("announce", {"times": 2_000})
    assert answer.rest()[-1].message["result"]["content"][0]["text"] == "announced"
    connection.close()


def test_a_slow_disk_holds_up_no_tool(stage: Stage, hub: Hub, serve: Callable[..., Served], tmp_path: Any) -> None:
    import sqlite3

    server = high_level_server(stage)
    tidings.mcp.attach(server, hub)
    client = Client(serve(server).port, LEGACY)
    client.call("steps", {"count": 1}, progress=True).rest()
    # Somebody else has the file for himself: nothing can be committed.
    blocker = sqlite3.connect(tmp_path / "tidings.db", isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    answer = client.call("steps", {"count": 200}, id=2, progress=True)
    primed, events = answer.priming(), answer.rest()
    assert progress(events) == list(range(1, 201))
    blocker.execute("ROLLBACK")
    blocker.close()
    assert client.get(primed.id).rest() == events

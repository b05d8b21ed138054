"""A session of a Python process and one of a Node.js process, each resumed at the other: live, and after kill -9."""

from __future__ import annotations

from collections.abc import Callable

from mcp_process import Process, ServerProcess
from mcp_wire import LEGACY, Client


def at(client: Client, process: Process) -> Client:
    """The same client, talking to another process."""
    other = object.__new__(Client)
    other.__dict__.update(client.__dict__, port=process.port)
    return other


def test_a_node_session_is_resumed_in_python(python: ServerProcess, start_node: Callable[[], Process]) -> None:
    node = start_node()
    client = Client(node.port, LEGACY)
    answer = client.call("say", {"before": 3, "after": 1}, id="x")
    first = answer.take(1)[0]
    assert first.message["params"]["data"] == 0
    node.reached()
    answer.cut()
    resumed = at(client, python).get(first.id)
    assert resumed.status == 200
    missed = resumed.take(2)
    node.go()
    *live, result = resumed.rest()
    assert [event.message["params"]["data"] for event in [*missed, *live]] == [1, 2, 3]
    assert result.message["id"] == "x"
    node.kill()
    assert at(client, python).get(first.id).rest()[-1].message == result.message


def test_a_python_session_is_resumed_in_node(python: ServerProcess, start_node: Callable[[], Process]) -> None:
    node = start_node()
    client = Client(python.port, LEGACY)
    answer = client.call("steps", {"count": 6, "hold_at": 4}, id="x", progress=True)
    seen = answer.take(2)
    python.reached()
    answer.cut()
    resumed = at(client, node).get(seen[-1].id)
    assert resumed.status == 200
    missed = resumed.take(2)
    python.go()
    *live, result = resumed.rest()
    assert [event.message["params"]["progress"] for event in [*seen, *missed, *live]] == [1, 2, 3, 4, 5, 6]
    assert result.message["id"] == "x"
    python.kill()
    assert at(client, node).get(live[-1].id).rest()[-1].message == result.message
    gone = at(client, node).call("steps", id=2)
    assert gone.status == 404
    gone.close()

"""A Python process and a Node.js process on one file: what one publishes reaches the peers of both, of both eras."""

from __future__ import annotations

from collections.abc import Callable

from mcp_listen import Listener, told
from mcp_process import Process, ServerProcess
from mcp_wire import LEGACY, MODERN, Client

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"


def test_a_publish_reaches_the_peers_of_both(python: ServerProcess, start_node: Callable[[], Process]) -> None:
    node = start_node()
    streams = []
    listeners = []
    for process in (python, node):
        streams.append(Client(process.port, LEGACY).get())
        listeners.append(
            Listener(Client(process.port, MODERN), {"toolsListChanged": True, "promptsListChanged": True}, 1)
        )
    for process, method, kind in ((python, TOOLS, "tools"), (node, PROMPTS, "prompts")):
        # Each process counts its own: a session and a listener.
        assert process.notify(kind) == 2
        assert [told(stream) for stream in streams] == [method, method]
        assert [listener.next() for listener in listeners] == [(method, {}), (method, {})]
    for stream in [*streams, *(listener.answer for listener in listeners)]:
        stream.close()

"""Fan-out on mcp 1.x, where it is done in a way of its own; what holds on every SDK is in `test_mcp_fanout_sessions`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tidings.mcp
from mcp_listen import PROMPTS, TOOLS, UPDATED, Keep, counts, told, total, until
from mcp_process import ServerProcess
from mcp_stage import KINDS
from mcp_wire import LEGACY, Client, Served
from tidings import Hub


def test_sessions_of_another_process_are_told(
    plain: Any, hub: Hub, serve: Callable[..., Served], tmp_path: Path, keep: Keep
) -> None:
    tidings.mcp.attach(plain, hub)
    here = serve(plain)
    other = ServerProcess(tmp_path / "tidings.db", min(KINDS))
    try:
        streams = [keep(Client(port, LEGACY).get()) for port in (here.port, other.port)]
        until(lambda: total(hub) == 1)
        assert counts(tidings.mcp.notify(plain, "tools")) == (1, 0, 0)
        assert [told(stream) for stream in streams] == [TOOLS, TOOLS]
        assert other.notify("prompts") == 1
        assert [told(stream) for stream in streams] == [PROMPTS, PROMPTS]
    finally:
        other.close()


def test_a_uri_is_the_one_that_clients_were_shown(
    plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    """mcp 1.x spells URIs anew (`AnyUrl`) before it shows them to anybody."""
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, LEGACY)
    stream = keep(client.get())
    assert client.request("resources/subscribe", {"uri": "http://Example.com"}).messages()[-1]["result"] == {}
    assert counts(tidings.mcp.notify(plain, uri="http://Example.com")) == (1, 0, 0)
    message = stream.take(1)[0].message
    assert (message["method"], message["params"]) == (UPDATED, {"uri": "http://example.com/"})


def test_a_handler_of_the_authors_own_still_hears_of_subscriptions(
    plain: Any, hub: Hub, serve: Callable[..., Served]
) -> None:
    heard: list[str] = []
    server = plain._mcp_server

    @server.subscribe_resource()
    async def subscribed(uri: Any) -> None:
        heard.append(f"+{uri}")

    @server.unsubscribe_resource()
    async def unsubscribed(uri: Any) -> None:
        heard.append(f"-{uri}")

    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, LEGACY)
    for method in ("resources/subscribe", "resources/unsubscribe"):
        assert client.request(method, {"uri": "x:/y"}).messages()[-1]["result"] == {}
        assert counts(tidings.mcp.notify(plain, uri="x:/y"))[0] == (method == "resources/subscribe")
    assert heard == ["+x:/y", "-x:/y"]

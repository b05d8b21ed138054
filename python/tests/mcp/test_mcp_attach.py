"""What `attach` takes and refuses, and what it relies on in the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
import uvicorn
from mcp.server.streamable_http import EventMessage, StreamableHTTPServerTransport
from mcp_stage import Stage
from mcp_stage_v2 import high_level_server, low_level_server
from mcp_types import JSONRPCNotification, JSONRPCResponse
from mcp_wire import LEGACY, Client, Served
from tidings import Hub
from tidings.mcp import EventStore, _compat, _host2, _scoping, _transports


class Plain:
    pass


@pytest.mark.parametrize(
    "thing", [None, Plain(), "server", high_level_server], ids=["none", "object", "text", "function"]
)
def test_it_takes_only_servers_of_mcp_2(thing: object, hub: Hub) -> None:
    with pytest.raises(TypeError, match=r"MCPServer or a low-level Server of mcp 2\.x"):
        tidings.mcp.attach(thing, hub)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"routes": ["pager"]}, ValueError, "routes: 'pager'"),
        ({"routes": "webhook"}, TypeError, "routes must be a list"),
        ({"routes": None}, TypeError, "routes must be a list"),
        ({"tasks": "sometimes"}, ValueError, "tasks must be"),
        ({"tasks_stream": True}, ValueError, "tasks_stream needs tasks"),
        ({"timeout": 0}, ValueError, "timeout must be"),
        ({"timeout": float("inf")}, ValueError, "timeout must be"),
        ({"timeout": True}, ValueError, "timeout must be"),
        ({"timeout": {"steps": -1}}, ValueError, r"timeout\['steps'\] must be"),
        ({"max_detached": -1}, ValueError, "max_detached must be"),
        ({"detached_limit": "1h"}, ValueError, "detached_limit must be"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_done(
    options: dict[str, Any], error: type[Exception], said: str, stage: Stage, hub: Hub
) -> None:
    server = low_level_server(stage)
    before = list(server.middleware), server.lifespan
    with pytest.raises(error, match=said):
        tidings.mcp.attach(server, hub, **options)
    assert (list(server.middleware), server.lifespan) == before
    tidings.mcp.attach(server, hub)


def test_a_server_is_attached_once(server: Any, hub: Hub) -> None:
    tidings.mcp.attach(server, hub)
    with pytest.raises(RuntimeError, match="attached already"):
        tidings.mcp.attach(server, hub)


def test_the_installed_sdk_has_every_private_name() -> None:
    assert _compat.missing() == []


def test_a_moved_private_name_is_named(monkeypatch: pytest.MonkeyPatch, stage: Stage, hub: Hub) -> None:
    monkeypatch.setattr(_host2, "missing", lambda: ["mcp.somewhere._gone"])
    with pytest.raises(RuntimeError, match=r"mcp .* lacks what tidings.mcp needs: mcp.somewhere._gone"):
        tidings.mcp.attach(high_level_server(stage), hub)


def test_wrapping_the_transport_twice_does_nothing() -> None:
    _scoping.install()
    once = StreamableHTTPServerTransport.__init__
    _scoping.install()
    assert StreamableHTTPServerTransport.__init__ is once


def test_each_transport_gets_a_store_of_its_own_session(hub: Hub) -> None:
    store = EventStore(hub)
    made = [StreamableHTTPServerTransport(session, event_store=store) for session in ("a", "b", None, None)]
    scoped = [_transports.store_of(transport) for transport in made]
    assert all(isinstance(each, tidings.mcp.SessionEventStore) for each in scoped)
    assert len({each._scope for each in scoped if isinstance(each, tidings.mcp.SessionEventStore)}) == 4
    # Other stores, and none, are left as they are.
    assert _transports.store_of(StreamableHTTPServerTransport("c")) is None


def test_the_default_store_yields_to_one_that_is_given(server: Any, hub: Hub) -> None:
    attached = tidings.mcp.attach(server, hub)
    server.streamable_http_app()
    assert server.session_manager.event_store is attached.event_store
    other = EventStore(hub)
    server.streamable_http_app(event_store=other)
    assert server.session_manager.event_store is other


def test_run_uses_the_store_too(stage: Stage, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(self: uvicorn.Server, sockets: Any = None) -> None:
        pass

    monkeypatch.setattr(uvicorn.Server, "serve", serve)
    server = high_level_server(stage)
    attached = tidings.mcp.attach(server, hub)
    server.run("streamable-http")
    assert server.session_manager.event_store is attached.event_store


def test_an_app_made_before_gets_the_store_too(server: Any, hub: Hub) -> None:
    server.streamable_http_app()
    attached = tidings.mcp.attach(server, hub)
    assert server.session_manager.event_store is attached.event_store


def test_the_store_can_be_left_out(server: Any, hub: Hub) -> None:
    assert tidings.mcp.attach(server, hub, event_store=False).event_store is None
    server.streamable_http_app()
    assert server.session_manager.event_store is None


def test_the_store_passed_by_hand_needs_no_attach(stage: Stage, hub: Hub, serve: Callable[..., Served]) -> None:
    client = Client(serve(high_level_server(stage), event_store=EventStore(hub)).port, LEGACY)
    answer = client.call("steps", {"count": 3}, progress=True)
    primed, events = answer.priming(), answer.rest()
    assert primed.id is not None
    assert client.get(primed.id).rest() == events


# -- a store that nobody told the session


def note(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"level": "info", "data": text})


def final(id: int) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=id, result={})


async def replayed(store: EventStore, after: str) -> tuple[list[str], str | None]:
    got: list[str] = []

    async def send(event: EventMessage) -> None:
        got.append(event.message.model_dump_json(by_alias=True, exclude_unset=True))

    return got, await store.replay_events_after(after, send)


def texts(*messages: Any) -> list[str]:
    return [message.model_dump_json(by_alias=True, exclude_unset=True) for message in messages]


def test_without_a_session_the_plain_contract_holds(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = EventStore(hub)
        primed = await store.store_event("7", None)
        first = await store.store_event("7", note("one"))
        await store.store_event("7", note("two"))
        assert await replayed(store, primed) == (texts(note("one"), note("two")), "7")
        await store.store_event("7", None)  # the SDK marks a stream it resumed
        assert await replayed(store, first) == (texts(note("two")), "7")
        await store.store_event("7", None)
        await store.store_event("7", final(7))
        assert await replayed(store, first) == (texts(note("two"), final(7)), None)
        assert await replayed(store, "nope") == ([], None)
        assert store.failures == 0

    asyncio.run(main())
    assert len([line for line in caplog.messages if "without a session" in line]) == 1


@pytest.mark.parametrize("kind", ["standalone", "primed by two", "never primed"])
def test_without_a_session_what_may_be_another_ones_is_not_replayed(kind: str, hub: Hub) -> None:
    async def main() -> None:
        store = EventStore(hub)
        name = "_GET_stream" if kind == "standalone" else "7"
        if kind == "never primed":
            position = await store.store_event(name, note("one"))
        else:
            position = await store.store_event(name, None)
            if kind == "primed by two":
                await store.store_event(name, None)
            await store.store_event(name, note("one"))
        await store.store_event(name, note("two"))
        assert await replayed(store, position) == ([], None)

    asyncio.run(main())

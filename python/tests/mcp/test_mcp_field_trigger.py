"""Faults that others reported in public, of section "trigger", on the SDK that is installed; each under its own name.

What needs no connection is in `core/hub/tests/field_trigger.rs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp_stage import ERAS, Stage, high_level_server
from mcp_wire import LEGACY, MODERN, Client, Receiver, Served
from tidings import Hub

OUTCOMES = ("completed", "failed", "timeout", "cancelled")
EVERY = (*OUTCOMES, "io.tidings/disconnected")
needs_modern = pytest.mark.skipif(MODERN not in ERAS, reason="this SDK does not speak 2026-07-28")


@pytest.mark.parametrize("tool", ["steps", "stubborn"])
def test_b34_a_cancelled_call_is_cancelled_whatever_its_handler_answers(
    tool: str, server: Any, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    # `stubborn` answers from its abort path, `steps` does not.
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, LEGACY)
    answer = client.call(tool, {"hold_at": 0}, id=3, notificationConfig=receiver.config(*EVERY))
    stage.reached.wait()
    client.cancel(3)
    stage.cancelled.wait()
    answer.messages()
    assert receiver.next()["data"]["outcome"]["status"] == "cancelled"
    assert client.call("steps", id=4).messages()[-1]["result"], "and the session goes on"
    assert receiver.deliveries.empty()


def test_b35_a_resumable_call_outlives_its_connection(
    server: Any, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, LEGACY)
    answer = client.call("steps", {"hold_at": 0}, notificationConfig=receiver.config(*OUTCOMES))
    place = answer.priming().id
    stage.reached.wait()
    answer.cut()
    stage.gate.open()
    assert receiver.next()["data"]["outcome"]["status"] == "completed"
    assert not stage.cancelled.is_open
    replayed = [event.message for event in client.get(place).rest()]
    assert replayed[-1]["result"]["content"][0]["text"] == "done"


@needs_modern
def test_b35_a_modern_call_without_routes_is_cancelled_with_its_connection(
    server: Any, stage: Stage, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, MODERN)
    answer = client.call("steps", {"count": 2, "hold_at": 1}, progress=True)
    answer.take(1)
    stage.reached.wait()
    answer.cut()
    stage.cancelled.wait()


@needs_modern
def test_b35_a_modern_call_with_routes_outlives_its_connection(
    server: Any, stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server).port, MODERN)
    answer = client.call("steps", {"count": 2, "hold_at": 1}, progress=True, notificationConfig=receiver.config(*EVERY))
    answer.take(2)
    stage.reached.wait()
    answer.cut()
    assert receiver.next()["name"] == "tool_call.disconnected"
    stage.gate.open()
    assert receiver.next()["data"]["outcome"]["status"] == "completed"
    assert not stage.cancelled.is_open


def test_b35_a_legacy_stateless_call_is_not_cancelled_by_its_connection(
    stage: Stage, receiver: Receiver, hub: Hub, serve: Callable[..., Served]
) -> None:
    # The documented choice: the text of 2025-11-25 says that a disconnection is no cancel, with a session or without.
    server = high_level_server(stage)
    tidings.mcp.attach(server, hub, routes=["webhook"])
    client = Client(serve(server, stateless_http=True).port, LEGACY)
    assert client.session is None
    answer = client.call("steps", {"hold_at": 0}, notificationConfig=receiver.config(*OUTCOMES))
    stage.reached.wait()
    answer.cut()
    # Whether the server sees the cut before the tool ends is chance, so nothing here asks to be told of it.
    stage.gate.open()
    assert receiver.next()["data"]["outcome"]["status"] == "completed"
    assert not stage.cancelled.is_open

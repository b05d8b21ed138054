"""A disk that is slow, or that does not answer at all: no tool and no client waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from faults.faulty import DATABASE, Victim, progress, result_text, until
from mcp_wire import LEGACY, WAIT, Client, Receiver
from tidings import Gap, Hub

STEPS = 40


def test_a_tool_does_not_wait_for_a_slow_disk(victim: Victim) -> None:
    client = Client(victim.port, LEGACY)
    before = victim.faults.written
    victim.faults.slow(500)
    answer = client.call("steps", {"count": STEPS}, progress=True)
    primed = answer.priming()
    events = answer.rest()
    # Had each step waited for its own write, there would be as many.
    assert victim.faults.written - before < STEPS
    victim.faults.end()
    assert progress(events) == list(range(1, STEPS + 1))
    assert client.get(primed.id).rest() == events
    assert victim.lines() == []


def test_a_call_ends_while_the_disk_does_not_answer(victim: Victim) -> None:
    client = Client(victim.port, LEGACY)
    victim.faults.hold()
    # Something has to be written first, or nothing is held up.
    assert client.call("steps", id=0).messages()[-1]["result"]["content"][0]["text"] == "done"
    until(lambda: victim.faults.waiting, "a write that is held up")
    # Counted now, for the session's own group may still have got through while the disk was told to hold.
    stored = victim.count("events")
    answer = client.call("steps", {"count": STEPS}, id=1, progress=True)
    primed = answer.priming()
    events = answer.rest()
    assert progress(events) == list(range(1, STEPS + 1))
    assert result_text(events[-1]) == "done"
    assert client.call("steps", id=2).messages()[-1]["result"]["content"][0]["text"] == "done"
    assert victim.faults.waiting
    assert victim.count("events") == stored
    victim.faults.end()
    assert client.get(primed.id).rest() == events
    assert victim.lines() == []


def test_a_full_buffer_of_a_disk_that_does_not_answer_becomes_a_gap(make_victim: Callable[..., Victim]) -> None:
    patience = {"tidings.mcp._event_store._CATCH_UP": 0.05}
    victim = make_victim(buffer_bytes=16 << 10, patience=patience).start()
    client = Client(victim.port, LEGACY)
    steps = 400
    victim.faults.hold()
    # Something has to be written first, or nothing is held up.
    assert client.call("steps", id=0).messages()[-1]["result"]["content"][0]["text"] == "done"
    until(lambda: victim.faults.waiting, "a write that is held up")
    answer = client.call("steps", {"count": steps}, id=1, progress=True)
    primed = answer.priming()
    events = answer.rest()
    assert progress(events) == list(range(1, steps + 1))
    assert result_text(events[-1]) == "done"
    victim.faults.end()
    resumed = client.get(primed.id).rest()
    at = [event.message.get("method") for event in resumed].index("notifications/io.tidings/gap")
    after = resumed[at + 1 :]
    assert resumed[:at] == events[:at]
    assert after == events[-len(after) :]
    assert result_text(after[-1]) == "done"
    # The opening is event 0, step n is event n, the result is the last. What is given up may begin with the opening.
    earliest = steps + 2 - len(after)
    assert resumed[at].message["params"] == {"reason": "lost", "earliestSeq": earliest, "headSeq": steps + 1}
    assert 0 < victim.count("lost") in (earliest - (1 + at), *([earliest] if at == 0 else []))
    [line] = victim.lines()
    assert line.startswith("ERROR tidings."), line
    assert "given up" in line


def test_a_config_is_refused_when_the_disk_does_not_answer(
    make_victim: Callable[..., Victim], receiver: Receiver
) -> None:
    victim = make_victim(patience={"tidings.mcp._calls.ACCEPT_WITHIN": 0.2}).start()
    client = Client(victim.port, LEGACY)
    victim.faults.hold()
    refused = client.call("steps", id=1, notificationConfig=receiver.config("completed", "failed"))
    assert refused.messages()[-1]["error"]["data"] == {"reason": "unavailable", "retryable": True}
    assert victim.count("tools") == 0
    victim.faults.end()
    victim.ask("patient")
    accepted = client.call("steps", id=2, notificationConfig=receiver.config("completed", "failed")).messages()[-1]
    delivered = receiver.next()["data"]["callId"]
    assert delivered == accepted["result"]["_meta"]["io.tidings/acknowledged"]["callId"]
    assert receiver.deliveries.empty()


def test_a_server_that_stops_leaves_nothing_behind_on_a_slow_disk(make_victim: Callable[..., Victim]) -> None:
    victim = make_victim().start()
    client = Client(victim.port, LEGACY)
    victim.faults.hold()
    answer = client.call("steps", {"count": STEPS}, progress=True)
    primed = answer.priming()
    events = answer.rest()
    # All of it is left to be written, by a server that takes two seconds for that and no more.
    victim.faults.slow(5)
    victim.stop()
    assert primed.id is not None

    async def stored(cursor: str) -> list[tuple[str, str]]:
        async with Hub(f"sqlite:{victim.data / DATABASE}") as hub:
            tail = hub.resume(f"session:{client.session}", cursor)
            return [(item.cursor, item.payload.decode()) async for item in tail if not isinstance(item, Gap)]

    found = asyncio.run(asyncio.wait_for(stored(primed.id), WAIT))
    assert found == [(event.id, event.data) for event in events]
    assert victim.lines() == []

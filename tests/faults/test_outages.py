"""A store that fails in the middle of a call: nobody notices but the log, and what was buffered is there afterwards."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from faults.faulty import (
    ALL,
    CREATE,
    SIZE,
    SYNC,
    WRITE,
    Victim,
    assert_one_outage,
    progress,
    result_text,
    until,
)
from mcp_wire import LEGACY, Client, SseEvent

STEPS = 20
HALF = 10

GAP = "notifications/io.tidings/gap"

# What each state of a disk lets through: a full one still opens and removes files, one that fails still opens them.
DISKS = [
    pytest.param(errno.EROFS, ALL, id="EROFS"),
    pytest.param(errno.ENOSPC, CREATE | WRITE | SYNC | SIZE, id="ENOSPC"),
    pytest.param(errno.EIO, WRITE | SYNC | SIZE, id="EIO"),
]


def with_ids(events: list[SseEvent]) -> list[str]:
    """The ids, each of which must be there and be another."""
    ids = [event.id for event in events if event.id]
    assert len(set(ids)) == len(events), events
    return ids


@pytest.mark.parametrize(("error", "kinds"), DISKS)
def test_a_call_goes_on_and_is_stored_afterwards(error: int, kinds: int, victim: Victim) -> None:
    client = Client(victim.port, LEGACY)
    before = victim.ask("counts")
    failed = victim.faults.failed
    answer = client.call("steps", {"count": STEPS, "hold_at": HALF}, id=1, progress=True)
    primed = answer.priming()
    first = answer.take(HALF)
    victim.ask("reached")
    with victim.outage(error, kinds):
        victim.ask("release")
        rest = answer.rest()
        assert progress(first + rest) == list(range(1, STEPS + 1))
        assert result_text(rest[-1]) == "done"
        # The session lives on: a stream that the store has never heard of, and the one that belongs to no request.
        second = client.call("steps", {"count": 3}, id=2, progress=True)
        second_primed = second.priming()
        second_rest = second.rest()
        assert progress(second_rest) == [1, 2, 3]
        assert result_text(second_rest[-1]) == "done"
        assert client.request("tools/list", {}, 3).messages()[-1]["result"]["tools"]
        until(lambda: victim.faults.failed > failed, "a fault")
    with_ids([primed, *first, *rest])
    with_ids([second_primed, *second_rest])

    # Everything that was buffered, exactly: the same ids, the same bytes.
    assert primed.id is not None
    assert second_primed.id is not None
    assert client.get(primed.id).rest() == first + rest
    assert client.get(first[4].id).rest() == first[5:] + rest
    assert client.get(rest[4].id).rest() == rest[5:]
    assert client.get(second_primed.id).rest() == second_rest
    after = victim.ask("counts")
    assert {name: after[name] - before[name] for name in ("lost", "refused", "swallowed")} == dict.fromkeys(
        ("lost", "refused", "swallowed"), 0
    )
    assert_one_outage(victim.lines())


def test_a_client_that_resumes_during_an_outage_gets_the_rest_after_it(victim: Victim) -> None:
    client = Client(victim.port, LEGACY)
    answer = client.call("steps", {"count": STEPS, "hold_at": HALF}, progress=True)
    first = answer.take(HALF)
    victim.ask("reached")
    until(
        lambda: progress(replayed(client, first[0].id, HALF - 1)) == list(range(2, HALF + 1)), "the first half's commit"
    )
    with victim.outage(errno.EIO):
        answer.cut()
        resumed = client.get(first[4].id)
        victim.ask("release")
        # What is committed comes at once; for the rest the connection waits.
        assert resumed.take(HALF - 5) == first[5:]
    rest = resumed.rest()
    assert progress(rest) == list(range(HALF + 1, STEPS + 1))
    assert result_text(rest[-1]) == "done"
    assert_one_outage(victim.lines())


def replayed(client: Client, cursor: str | None, count: int) -> list[SseEvent]:
    """The next `count` events after a cursor, on a connection of their own."""
    answer = client.get(cursor)
    events = answer.take(count)
    answer.cut()
    return events


def test_a_client_that_resumes_a_stream_the_store_does_not_know_gets_it_after_the_outage(victim: Victim) -> None:
    client = Client(victim.port, LEGACY)
    with victim.outage(errno.ENOSPC):
        until(lambda: victim.count("failing"), "the store's failing")
        answer = client.call("steps", {"count": 6, "hold_at": 3}, progress=True)
        primed = answer.priming()
        assert progress(answer.take(3)) == [1, 2, 3]
        answer.cut()
        resumed = client.get(primed.id)
        victim.ask("release")
    rest = resumed.rest()
    assert progress(rest) == [1, 2, 3, 4, 5, 6]
    assert result_text(rest[-1]) == "done"


def test_what_had_to_be_given_up_is_told_as_a_gap(make_victim: Callable[..., Victim]) -> None:
    steps = 400
    victim = make_victim(buffer_bytes=16 << 10).start()
    client = Client(victim.port, LEGACY)
    for outage in (1, 2):
        victim.ask("reset")
        victim.mark()
        lost_before = victim.count("lost")
        answer = client.call("steps", {"count": steps, "hold_at": HALF}, id=outage, progress=True)
        first = answer.take(HALF)
        victim.ask("reached")
        # The client may have an event before the store does: what is given up would then begin with that one.
        victim.ask("flush")
        with victim.outage(errno.ENOSPC):
            victim.ask("release")
            rest = answer.rest()
            # The client that stayed missed nothing.
            assert progress(first + rest) == list(range(1, steps + 1))
        resumed = client.get(first[4].id).rest()
        at = [event.message.get("method") for event in resumed].index(GAP)
        gap, after = resumed[at].message, resumed[at + 1 :]
        assert resumed[:at] == [*first, *rest][5 : 5 + at]
        assert after == [*first, *rest][-len(after) :]
        assert result_text(after[-1]) == "done"
        # The opening is event 0, step n is event n, the result is the last: the numbers of what is left follow from its
        # count.
        earliest = steps + 2 - len(after)
        assert gap["params"] == {"reason": "lost", "earliestSeq": earliest, "headSeq": steps + 1}
        lost = victim.count("lost") - lost_before
        assert lost == earliest - (6 + at) > 0
        # The gap has an id of its own: who resumes after it is not told again.
        assert client.get(resumed[at].id).rest() == after
        assert_one_outage(victim.lines(), "given up")
    assert (victim.count("refused"), victim.count("swallowed")) == (0, 0)


def test_a_server_stops_although_its_disk_fails(make_victim: Callable[..., Victim]) -> None:
    victim = make_victim().start()
    client = Client(victim.port, LEGACY)
    victim.faults.fail(errno.EIO)
    assert progress(client.call("steps", {"count": 3}, progress=True).rest()) == [1, 2, 3]
    until(lambda: victim.count("failing"), "the store's failing")
    victim.stop()
    # It says what that costs, and nothing breaks.
    start, end = victim.lines()
    assert "the store fails" in start
    assert end.startswith("ERROR tidings.")
    assert "lost" in end

"""What was said to be on disk is there after kill -9, and after a loss of power that leaves only what was synced."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from faults.faulty import SYNC, Victim, until
from mcp_wire import LEGACY, Client, Receiver


def test_an_acknowledgement_outlives_failed_syncs_a_kill_and_a_loss_of_power(
    make_victim: Callable[..., Victim], receiver: Receiver
) -> None:
    victim = make_victim().start()
    client = Client(victim.port, LEGACY)
    config = receiver.config("completed", "failed")

    def accept(number: int, **arguments: Any) -> Any:
        return client.call("steps", arguments, id=number, progress=True, notificationConfig=config)

    # One is acknowledged and runs on.
    running = accept(1, count=2, hold_at=1)
    victim.ask("reached")
    acknowledged = {running.take(1)[0].message["params"]["callId"]: "failed"}
    # A sync fails under another: its pages may be in the log, but nobody was told that they are.
    with victim.outage(errno.EIO, SYNC):
        assert accept(2).messages()[-1]["error"]["data"]["reason"] == "unavailable"
    # A sync that works after one that failed must not be taken for the one that did not happen.
    done = accept(3).messages()[-1]["result"]["_meta"]
    assert "io.tidings/undelivered" not in done
    acknowledged[done["io.tidings/acknowledged"]["callId"]] = "completed"
    victim.kill()
    running.cut()
    victim.lose_power()

    victim.start()
    told: dict[str, set[str]] = {}
    ids: dict[str, str] = {}
    while told.keys() != acknowledged.keys():
        event = receiver.next()
        told.setdefault(event["data"]["callId"], set()).add(event["data"]["outcome"]["status"])
        # A delivery whose record was lost with the power comes again, as the same one.
        assert ids.setdefault(event["data"]["callId"], event["eventId"]) == event["eventId"]
    assert told == {call: {status} for call, status in acknowledged.items()}
    # The one that was refused is not there: the next event is the next call's.
    client = Client(victim.port, LEGACY)
    later = accept(4).messages()[-1]["result"]["_meta"]["io.tidings/acknowledged"]["callId"]
    while (event := receiver.next())["data"]["callId"] != later:
        assert ids[event["data"]["callId"]] == event["eventId"]


def test_a_config_that_was_refused_for_a_failed_sync_does_not_come_back(
    make_victim: Callable[..., Victim], receiver: Receiver
) -> None:
    victim = make_victim().start()
    client = Client(victim.port, LEGACY)
    config = receiver.config("completed", "failed", "cancelled")
    victim.faults.fail(errno.EIO, SYNC)
    refused = client.call("steps", notificationConfig=config).messages()[-1]
    assert refused["error"]["data"]["reason"] == "unavailable"
    # Its pages stand in the log as if it had been committed, until the next try has put others in their place.
    failures = victim.count("failures")
    until(lambda: victim.count("failures") > failures, "another try")
    victim.kill()
    victim.faults.end()

    victim.start()
    client = Client(victim.port, LEGACY)
    victim.mark()
    accepted = client.call("steps", {"hold_at": 0}, id=2, progress=True, notificationConfig=config)
    running = accepted.take(1)[0].message["params"]["callId"]
    victim.ask("reached")
    victim.kill()
    accepted.cut()
    victim.start()
    # What is lost is looked for in the order it began: the refused one would be first.
    assert receiver.next()["data"]["callId"] == running
    assert receiver.deliveries.empty()

"""The time of day jumps while calls run: nothing ends early, nothing fires twice, and nothing waits for it to come back."""

from __future__ import annotations

import time
from typing import Any

import pytest
from faults.faulty import Victim, progress, until
from mcp_wire import LEGACY, WAIT, Client, Receiver

HOUR = 3600


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_the_time_of_day_jumps_while_a_call_runs(skew: int, victim: Victim, receiver: Receiver) -> None:
    def event() -> Any:
        delivery = receiver.deliveries.get(timeout=WAIT)
        off = int(delivery.headers["webhook-timestamp"]) - time.time()
        # To the receiver, whose clock is right, the signature is too old or too new.
        if abs(off) > HOUR / 2:
            receiver.unverified.clear()
        assert not receiver.unverified, receiver.unverified
        return delivery.event, round(off / HOUR)

    client = Client(victim.port, LEGACY)
    config = receiver.config("completed", "failed", "timeout", "cancelled")
    # Half an hour of the call's own time, which a jump is not.
    config["routes"][0]["triggers"].append({"elapsedMs": HOUR * 500})
    running = client.call("steps", {"count": 2, "hold_at": 1}, progress=True, notificationConfig=config)
    victim.ask("reached")
    victim.faults.skew(skew)
    # A call that begins and ends by the new time goes the whole way: whatever was due has been looked at.
    other = client.call("steps", id=2, notificationConfig=config).messages()[-1]
    event_of_other, off = event()
    assert off == skew // HOUR, "the server's clock did not jump"
    assert event_of_other["name"] == "tool_call.completed"
    victim.ask("release")
    events = running.rest()
    assert progress(events) == [1, 2]
    event_of_running, _ = event()
    assert event_of_running["name"] == "tool_call.completed"
    ids = [event_of_running["data"]["callId"], event_of_other["data"]["callId"]]
    assert other["result"]["_meta"]["io.tidings/acknowledged"]["callId"] == ids[1]
    # Each attempt was the first and the last, and its record is there.
    for call_id in ids:
        until(lambda call_id=call_id: [call_id, "delivered", 1] in victim.ask("deliveries"), "the delivery's record")
    victim.faults.skew(0)
    later = client.call("steps", id=3, notificationConfig=config).messages()[-1]
    event_of_later, off = event()
    assert (event_of_later["data"]["callId"], off) == (later["result"]["_meta"]["io.tidings/acknowledged"]["callId"], 0)
    assert receiver.deliveries.empty()

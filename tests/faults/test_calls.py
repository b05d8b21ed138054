"""Watched calls while the store fails: refused whole, or their result says what could not be delivered yet."""

from __future__ import annotations

import errno

import pytest
from faults.faulty import SYNC, Victim, assert_one_outage, name_of, until
from mcp_wire import LEGACY, MODERN, Client, Receiver

ERRORS = [errno.EROFS, errno.ENOSPC, errno.EIO]


def call_id(message: dict[str, object]) -> str:
    """The id a result acknowledges the call by."""
    found: str = message["result"]["_meta"]["io.tidings/acknowledged"]["callId"]  # type: ignore[index]
    return found


@pytest.mark.parametrize(("era", "error"), [(LEGACY, errno.EROFS), (MODERN, errno.ENOSPC), (LEGACY, errno.EIO)])
def test_a_result_says_that_its_outcome_is_not_stored(era: str, error: int, victim: Victim, receiver: Receiver) -> None:
    client = Client(victim.port, era)
    config = receiver.config("completed")
    answer = client.call("steps", {"count": 2, "hold_at": 1}, progress=True, notificationConfig=config)
    victim.ask("reached")
    with victim.outage(error):
        victim.ask("release")
        result = answer.messages()[-1]
        assert result["result"]["content"][0]["text"] == "done"
        undelivered = [{"trigger": "completed", "routes": ["primary"], "reason": "store_unavailable"}]
        assert result["result"]["_meta"]["io.tidings/undelivered"] == undelivered
        assert receiver.deliveries.empty()
    # It is kept in memory and tried again.
    event = receiver.next()
    assert event["name"] == "tool_call.completed"
    assert event["data"]["callId"] == call_id(result)
    # Once: what came after it is the next call's.
    later = client.call("steps", id=2, notificationConfig=config).messages()[-1]
    assert "io.tidings/undelivered" not in later["result"]["_meta"]
    assert receiver.next()["data"]["callId"] == call_id(later)
    assert receiver.deliveries.empty()
    assert_one_outage(victim.lines())
    for call in (result, later):
        until(lambda call=call: [call_id(call), "delivered", 1] in victim.ask("deliveries"), "the delivery's record")


@pytest.mark.parametrize("error", ERRORS, ids=name_of)
def test_a_config_that_cannot_be_stored_is_refused_and_its_tool_does_not_run(
    error: int, victim: Victim, receiver: Receiver
) -> None:
    client = Client(victim.port, LEGACY)
    with victim.outage(error):
        for number in (1, 2):
            refused = client.call("steps", id=number, notificationConfig=receiver.config("completed", "failed"))
            told = refused.messages()[-1]["error"]
            assert told["code"] == -32603
            assert told["data"] == {"reason": "unavailable", "retryable": True}
        assert victim.count("tools") == 0
        # Without a config the same tool runs.
        assert client.call("steps", id=3).messages()[-1]["result"]["content"][0]["text"] == "done"
    assert victim.count("tools") == 1
    accepted = client.call("steps", id=4, notificationConfig=receiver.config("completed", "failed")).messages()[-1]
    # Nothing of those that were refused is left to fire: this is the only event.
    assert receiver.next()["data"]["callId"] == call_id(accepted)
    assert receiver.deliveries.empty()
    assert_one_outage(victim.lines())


def test_a_sync_that_fails_refuses_the_config(victim: Victim, receiver: Receiver) -> None:
    client = Client(victim.port, LEGACY)
    with victim.outage(errno.EIO, SYNC):
        refused = client.call("steps", id=1, notificationConfig=receiver.config("completed"))
        assert refused.messages()[-1]["error"]["data"]["reason"] == "unavailable"
        assert victim.count("tools") == 0
    accepted = client.call("steps", id=2, notificationConfig=receiver.config("completed")).messages()[-1]
    assert receiver.next()["data"]["callId"] == call_id(accepted)

"""A server that starts where no store can be made: it serves without one, says so once, and gets one when it can."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from faults.faulty import Victim, name_of, progress, result_text, until
from mcp_wire import LEGACY, Client, Receiver


@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC], ids=name_of)
def test_a_server_without_a_store_serves(error: int, make_victim: Callable[..., Victim], receiver: Receiver) -> None:
    victim = make_victim()
    victim.faults.fail(error)
    victim.start()
    client = Client(victim.port, LEGACY)
    for number in (1, 2):
        answer = client.call("steps", {"count": 5}, id=number, progress=True)
        events = answer.rest()
        assert progress(events) == [1, 2, 3, 4, 5]
        assert result_text(events[-1]) == "done"
        # Nothing can be resumed, and nothing pretends that it could.
        assert [event.id for event in events] == [None] * 6
    tools = victim.count("tools")
    refused = client.call("steps", id=3, notificationConfig=receiver.config("completed")).messages()[-1]
    assert refused["error"]["data"] == {"reason": "unavailable", "retryable": True}
    assert victim.count("tools") == tools
    lines = victim.lines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("ERROR tidings."), lines

    # Marked first: the store may be opened as soon as it can be, before anybody asks for it.
    victim.mark()
    victim.faults.end()

    def resumable() -> bool:
        return bool(client.call("steps", {"count": 1}, id="again", progress=True).rest()[0].id)

    until(resumable, "the store's opening")
    answer = client.call("steps", {"count": 5}, id=4, progress=True)
    primed = answer.priming()
    events = answer.rest()
    assert client.get(primed.id).rest() == events
    accepted = client.call("steps", id=5, notificationConfig=receiver.config("completed")).messages()[-1]
    assert receiver.next()["data"]["requestId"] == accepted["id"]
    lines = victim.lines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("WARNING tidings."), lines

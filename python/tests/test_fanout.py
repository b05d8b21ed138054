"""Fan-out below the SDK adapters: what a host of its own would build on."""

from __future__ import annotations

import json
import math

import pytest
from tidings import ClosedError, Fanout, Hub, InvalidArgument
from tidings._native import Progress, log_passes
from tidings.fanout import Notice, Profile

SERVER = json.dumps({"tools": {"listChanged": True}, "resources": {"subscribe": True}})


def counts(fanout: Fanout) -> tuple[int, int, int]:
    return fanout.told, fanout.skipped, fanout.failed


def legacy() -> Profile:
    return Profile("2025-11-25", SERVER, "{}")


def modern() -> Profile:
    return Profile("2026-07-28", SERVER, "{}")


def test_a_publish_is_counted_and_comes_out_once() -> None:
    hub = Hub("memory:")

    async def scene() -> None:
        outbox = hub.outbox()
        old, new = outbox.add_sink("alice"), outbox.add_sink(deadline=5.0)
        attending = outbox.attend(old, legacy())
        asked = '{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:/y"]}'
        assert modern().listens
        assert not legacy().listens
        assert json.loads(modern().honoured(asked)) == {"toolsListChanged": True, "resourceSubscriptions": ["x:/y"]}
        listening = outbox.listen(new, modern(), "7", asked)
        assert counts(hub.notify("tools")) == (2, 0, 0)
        tag = {"io.modelcontextprotocol/subscriptionId": "7"}
        await outbox.ready()
        [first] = outbox.take()
        assert (first.sink, first.listener) == (new, listening)
        assert first.method == "notifications/subscriptions/acknowledged"
        assert json.loads(first.params or "")["_meta"] == tag
        outbox.open(attending)
        assert outbox.written(new)
        outbox.subscribe(attending, legacy(), "x:/")
        hub.notify(uri="x:/y")
        got = [(n.sink, n.method, json.loads(n.params) if n.params else None) for n in outbox.take()]
        assert sorted(got, key=str) == sorted(
            [
                (old, "notifications/tools/list_changed", None),
                (old, "notifications/resources/updated", {"uri": "x:/y"}),
                (new, "notifications/tools/list_changed", {"_meta": tag}),
                (new, "notifications/resources/updated", {"_meta": tag, "uri": "x:/y"}),
            ],
            key=str,
        )
        outbox.written(new, 2)
        outbox.end_all()
        assert outbox.take() == [Notice(new, listening, None, None)]
        assert counts(hub.notify("tools", audience="alice")) == (1, 0, 0)
        outbox.unsubscribe(attending, legacy(), "x:/")
        assert counts(hub.notify(uri="x:/y")) == (0, 1, 0)
        assert outbox.drop_sink(old) == 1
        assert len(outbox) == 0
        await hub.close()

    hub.run(scene())


def test_a_failed_connection_is_told_of_once_under_its_own_handle() -> None:
    hub = Hub("memory:")

    async def scene() -> None:
        outbox = hub.outbox()
        sinks = [outbox.add_sink() for _ in range(3)]
        listeners = [outbox.listen(sink, modern(), 1, '{"toolsListChanged":true}') for sink in sinks]
        outbox.listen(sinks[0], modern(), 2, '{"toolsListChanged":true}')
        assert (len(set(sinks)), len(set(listeners)), len(outbox)) == (3, 3, 4)
        assert hub.failed_sinks() == []
        assert outbox.broke(sinks[0]) == 2, "both of its listeners went"
        assert outbox.broke(sinks[0]) == 0
        assert outbox.drop_sink(sinks[1]) == 1, "it went in order"
        assert not outbox.cancel(listeners[1])
        assert hub.failed_sinks() == [sinks[0]]
        assert hub.failed_sinks() == []
        with pytest.raises(InvalidArgument, match=r"^sink: is gone or has failed"):
            outbox.listen(sinks[0], modern(), 3, "{}")
        assert counts(hub.notify("tools")) == (1, 0, 0)
        await hub.close()

    hub.run(scene())


def test_a_late_connection_fails_by_itself() -> None:
    hub = Hub("memory:")

    async def scene() -> None:
        outbox = hub.outbox()
        sink = outbox.add_sink(deadline=0.01)
        outbox.listen(sink, modern(), 1, '{"toolsListChanged":true}')
        await outbox.ready()
        assert len(outbox.take()) == 1
        # Nobody says that it was written: the next thing there is to hear of is that it was not.
        await outbox.ready()
        assert hub.failed_sinks() == [sink]
        assert (outbox.take(), len(outbox), outbox.written(sink)) == ([], 0, False)
        await hub.close()

    hub.run(scene())


def test_handles_say_nothing_and_are_of_one_outbox() -> None:
    hub = Hub("memory:")
    one, two = hub.outbox(), hub.outbox()
    sink = one.add_sink()
    listener = one.attend(sink, legacy())
    assert sink != two.add_sink()
    with pytest.raises(ValueError, match="sink: is of another outbox"):
        two.drop_sink(sink)
    with pytest.raises(ValueError, match="listener: is of another outbox"):
        two.open(listener)
    hub.run(hub.close())
    with pytest.raises(ClosedError):
        one.add_sink()


def test_what_is_wrong_is_named() -> None:
    hub = Hub("memory:")
    with pytest.raises(InvalidArgument, match=r'^kinds: "tool" is none; there are tools, prompts'):
        hub.notify("tool")
    with pytest.raises(InvalidArgument, match=r"^kinds: must name one at least"):
        hub.notify()
    with pytest.raises(InvalidArgument, match=r'^version: "2024-10-07" is not known'):
        Profile("2024-10-07", "{}", "{}")
    with pytest.raises(InvalidArgument, match=r"^notifications.toolsListChanged: must be a boolean"):
        Profile("2026-07-28", "{}", "{}").honoured('{"toolsListChanged":1}')
    hub.run(hub.close())


def test_progress_and_log_rules_reach_python() -> None:
    progress = Progress("0", 0.0)
    report = lambda value: progress.report(value, None, None, 0.0)
    assert report(1.0) == ('{"progressToken":"0","progress":1}', None)
    assert report(1.0) == (None, "not_increasing")
    assert report(math.nan) == (None, "not_finite")
    progress.end()
    assert report(2.0) == (None, "ended")
    assert Progress(None, 0.0).report(1.0, None, None, 0.0) == (None, "no_token")
    assert log_passes(False, None, "debug")
    assert not log_passes(True, None, "emergency")
    assert log_passes(True, "warning", "error")
    assert not log_passes(False, "warning", "info")
    with pytest.raises(InvalidArgument, match=r"^level: must be one of debug, info"):
        log_passes(False, "loud", "debug")

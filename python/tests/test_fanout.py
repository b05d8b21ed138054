"""Fan-out below the SDK adapters: what a host of its own would build on."""

from __future__ import annotations

import json
import math

import pytest
from tidings import Hub, InvalidArgument
from tidings._native import Profile, Progress, log_passes
from tidings._port import wait

SERVER = json.dumps({"tools": {"listChanged": True}, "resources": {"subscribe": True}})


def legacy() -> Profile:
    return Profile("2025-11-25", SERVER, "{}")


def test_a_publish_is_counted_and_comes_out_once() -> None:
    hub = Hub("memory:")

    async def scene() -> None:
        outbox = hub._native.outbox()
        old, new = outbox.add_sink("alice", None), outbox.add_sink(None, 5.0)
        attending = outbox.attend(old, legacy())
        modern = Profile("2026-07-28", SERVER, "{}")
        asked = '{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:/y"]}'
        assert modern.listens
        assert not legacy().listens
        assert json.loads(modern.honoured(asked)) == {"toolsListChanged": True, "resourceSubscriptions": ["x:/y"]}
        listening = outbox.listen(new, modern, "7", asked)
        told = hub.notify("tools")
        assert (told.told, told.skipped, told.failed) == (2, 0, 0)
        tag = {"io.modelcontextprotocol/subscriptionId": "7"}
        await wait(outbox.ready())
        [(sink, listener, method, params)] = outbox.take(100)
        assert (sink, listener, method) == (new, listening, "notifications/subscriptions/acknowledged")
        assert json.loads(params or "")["_meta"] == tag
        outbox.open(attending)
        outbox.written(new, 1)
        outbox.subscribe(attending, legacy(), "x:/")
        hub.notify(uri="x:/y")
        got = [(sink, method, json.loads(params) if params else None) for sink, _, method, params in outbox.take(100)]
        assert sorted(got, key=str) == sorted(
            [
                (old, "notifications/tools/list_changed", None),
                (old, "notifications/resources/updated", {"uri": "x:/y"}),
                (new, "notifications/tools/list_changed", {"_meta": tag}),
                (new, "notifications/resources/updated", {"_meta": tag, "uri": "x:/y"}),
            ],
            key=str,
        )
        assert outbox.broke(old) == 1
        assert hub._native.failed_sinks() == [(outbox.number, old)]
        outbox.written(new, 2)
        outbox.end_all()
        assert outbox.take(100) == [(new, listening, None, None)]
        assert len(outbox) == 0
        assert hub.notify("tools", audience="alice").told == 0
        await hub.close()

    hub.run(scene())


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

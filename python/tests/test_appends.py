"""Appends that are made once, several events at once, identities, flush, and export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tidings
from support import run_script


async def payloads(stream: tidings.Stream) -> list[bytes]:
    return [event.payload for event in (await stream.read()).events]


async def test_an_append_with_a_key_is_made_once(hub: tidings.Hub) -> None:
    stream = hub.stream("s", "n")
    assert await stream.append(["0", "1"], key="a") == 0
    assert await stream.append("2", key="b") == 2
    assert await stream.append("other", key="a") == 0
    assert await stream.append("3", key="end", close=True, durability="disk") == 3
    assert await stream.append("3", key="end", close=True) == 3
    assert await payloads(stream) == [b"0", b"1", b"2", b"3"]
    with pytest.raises(tidings.ClosedError):
        await stream.append("4", key="new")
    for key in ("", "k" * 256):
        with pytest.raises(tidings.InvalidArgument, match="key: 1 to 255 bytes"):
            await stream.append("5", key=key)


def test_a_key_outlives_its_process(tmp_path: Path) -> None:
    code = """
        import os, signal, tidings
        hub = tidings.Hub("sqlite:t.db")
        print(hub.run(hub.stream("s", "n").append("1", key="charge 17")), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    for _ in range(2):
        with pytest.raises(AssertionError):
            run_script(code, tmp_path)
    hub = tidings.Hub(f"sqlite:{tmp_path / 't.db'}")
    assert hub.run(hub.stream("s", "n").append("2", key="charge 17")) == 0
    page = hub.run(hub.stream("s", "n").read())
    assert [event.payload for event in page.events] == [b"1"]
    hub.run(hub.close())


async def test_several_events_and_the_close_are_one(hub: tidings.Hub) -> None:
    stream = hub.stream("s", "shared")
    assert await stream.append(["0", "1"], close=True) == 0
    assert (await stream.read()).ended
    with pytest.raises(tidings.ClosedError):
        await stream.append("2")

    writer = hub.new_writer("s", "owned")
    cursors = writer.append_many(["0", "1", "2"], close=True)
    assert writer.closed
    assert len(cursors) == 3
    await writer.flush()
    page = await hub.stream("s", "owned").read()
    assert ([event.cursor for event in page.events], page.ended) == (cursors, True)
    with pytest.raises(tidings.ClosedError):
        writer.append_many(["3"])


async def test_identities_come_back(hub: tidings.Hub) -> None:
    whole = tidings.Identity(task="t", session="s", turn="1", toolCall="c", sourceType="agent")
    writer = hub.new_writer("s", "n")
    writer.append("0", identity=whole)
    writer.append_many(["1", "2"], identity={"turn": '"2"'})
    writer.append("3", identity={})
    writer.append("4", identity=None, close=True)
    await writer.flush()
    events = (await hub.stream("s", "n").read()).events
    told = [None if event.identity is None else json.loads(event.identity) for event in events]
    assert told == [whole, {"turn": '"2"'}, {"turn": '"2"'}, None, None]

    stream = hub.stream("s", "shared")
    await stream.append("0", identity={"toolCall": "c"})
    [event] = (await stream.read()).events
    assert event.identity == b'{"toolCall":"c"}'

    with pytest.raises(tidings.InvalidArgument, match=r'identity: has no member "tool_call"; its members are task, .*'):
        await stream.append("1", identity={"tool_call": "c"})
    for bad in ("task", [("task", "t")], {"task": 1}, {1: "t"}):
        with pytest.raises(TypeError, match="identity: "):
            await stream.append("1", identity=bad)  # type: ignore[arg-type]
    assert len((await stream.read()).events) == 1


async def test_a_flush_of_the_hub(hub: tidings.Hub) -> None:
    await hub.flush()
    writers = [hub.new_writer("s", str(n)) for n in range(3)]
    for writer in writers:
        writer.append("0")
    await hub.flush("disk")
    assert hub.stats().events == 3
    with pytest.raises(tidings.InvalidArgument, match="durability"):
        await hub.flush("paper")  # type: ignore[arg-type]


async def test_a_stream_is_exported_as_json_lines(hub: tidings.Hub) -> None:
    stream = hub.stream("s", "n")
    assert [line async for line in stream.export()] == []
    writer = await stream.claim()
    writer.append('{"n": 1.0}', type="com.example.step", identity={"task": "t"})
    writer.append("[\n 1\n]")
    writer.append(b"\xff")
    await writer.flush()
    lines = [line async for line in stream.export()]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    events = (await stream.read()).events
    for line, event in zip(lines, events, strict=True):
        told = json.loads(line)
        assert (told["seq"], told["type"]) == (event.seq, event.type)
        assert told["time"] == round(event.time * 1000)
    assert lines[0].endswith(b',"identity":{"task":"t"},"payload":{"n": 1.0}}\n')
    assert lines[1].endswith(b',"payload":[  1 ]}\n')
    assert lines[2].endswith(b',"payloadBytes":"/w=="}\n')
    assert [line async for line in stream.export(0)] == lines[1:]
    assert [line async for line in stream.export(events[1].cursor)] == lines[2:]
    with pytest.raises(tidings.AheadError):
        _ = [line async for line in stream.export(3)]

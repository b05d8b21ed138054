"""replay: what a client that lost its connection for a moment costs a Python server, out of a stream of many events.

Each side has stored the same messages of one stream, and replays the last 98 of them. Ours on a hub on a SQLite file and in
memory; the SDK example's store and FastMCP's, both in memory, with a bound that lets them keep so many.

- events: until the 98th is there. `Stream.read` gives them as bytes; the stores hand messages to the SDK's callback
- to SSE bytes: the callback does what the SDK's transport does then: the message's JSON text, and the event encoded. Ours
  also as the resume front does it, which answers for sessions of other processes: whole batches, no message in between

FastMCP's store writes the list of all ids of a stream anew with each event, so that filling it by `store_event` would take
hours: its list is put in place at once, by its own adapters, and replayed by its own method.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import _machine
import tidings.mcp
from _stores import BYTES, ExampleStore, progress, text
from fastmcp.server.event_store import EventEntry, StreamEventList
from fastmcp.server.event_store import EventStore as FastMcpStore
from mcp.server.streamable_http import EventMessage
from sse_starlette import ServerSentEvent
from tidings import Hub, Retention
from tidings.mcp import _resume, _sessions

MISSED = 98
STREAM = "1"
KEEP = Retention(max_events=None, max_bytes=None, max_age=None, after_close=None, max_total_bytes=None)

Replay = Callable[[Callable[[EventMessage], Awaitable[None]]], Awaitable[Any]]


class _Enough(Exception):
    """All are there: a stream of ours that is not closed would go on live."""


def _sse(event: EventMessage) -> bytes:
    data = event.message.model_dump_json(by_alias=True, exclude_unset=True)
    return ServerSentEvent(data, event="message", id=event.event_id).encode()


async def _once(replay: Replay, encode: bool) -> float:
    """Microseconds until the last of the missed is there."""
    got: list[Any] = []

    async def take(event: EventMessage) -> None:
        got.append(_sse(event) if encode else event)
        if len(got) == MISSED:
            raise _Enough

    begun = time.perf_counter()
    try:
        await replay(take)
    except _Enough:
        pass
    took = (time.perf_counter() - begun) * 1e6
    assert len(got) == MISSED
    return took


async def _times(replay: Replay, encode: bool, times: int) -> list[float]:
    await _once(replay, encode)
    return [await _once(replay, encode) for _ in range(times)]


async def example(retained: int) -> Replay:
    store = ExampleStore(keep=retained)
    ids = [await store.store_event(STREAM, progress(n)) for n in range(retained)]
    return lambda take: store.replay_events_after(ids[-MISSED - 1], take)


async def fastmcp(retained: int) -> Replay:
    store = FastMcpStore(max_events_per_stream=retained)
    ids = []
    for n in range(retained):
        ids.append(f"{n:08x}-0000-4000-8000-000000000000")  # as long as the ids it draws
        dumped = progress(n).model_dump(mode="json", by_alias=True)
        entry = EventEntry(event_id=ids[-1], stream_id=STREAM, message=dumped)
        await store._event_store.put(key=ids[-1], value=entry, ttl=3600)
    await store._stream_store.put(key=STREAM, value=StreamEventList(event_ids=ids), ttl=3600)
    return lambda take: store.replay_events_after(ids[-MISSED - 1], take)


@asynccontextmanager
async def ours(
    url: str, retained: int
) -> AsyncIterator[tuple[Replay, Callable[[], Awaitable[float]], Callable[[], float]]]:
    """Our store's replay, the read that lies under it, and the resume front's."""
    async with Hub(url, retention=KEEP, buffer_bytes=1 << 30) as hub:
        store = tidings.mcp.EventStore(hub).scoped("bench")
        ids = [await store.store_event(STREAM, progress(n)) for n in range(retained)]
        await hub.flush()
        after = ids[-MISSED - 1]
        writer = hub.new_writer("bench", "plain")
        for first in range(0, retained, 1_000):
            writer.append_many([text(progress(n)) for n in range(first, min(first + 1_000, retained))])
            await writer.flush()
        stream = hub.stream("bench", "plain")

        async def read() -> float:
            begun = time.perf_counter()
            page = await stream.read(retained - MISSED - 1)
            took = (time.perf_counter() - begun) * 1e6
            assert len(page.events) == MISSED
            return took

        async def replay(take: Callable[[EventMessage], Awaitable[None]]) -> None:
            # `replay_events_after` keeps what its callback raises to itself, but for the end of a connection.
            full = asyncio.Event()

            async def until_full(event: EventMessage) -> None:
                try:
                    await take(event)
                except _Enough:
                    full.set()

            following = asyncio.ensure_future(store.replay_events_after(after, until_full))
            await full.wait()
            following.cancel()
            await asyncio.wait([following])

        def front() -> float:
            begun = time.perf_counter()
            found = _resume._start(hub.resume(_sessions.scope_of("bench"), after), session_lives=True)
            assert found is not None
            assert found.first is not None
            sent = b"".join(_resume._chunks(found.first))
            took = (time.perf_counter() - begun) * 1e6
            assert sent.count(b"\ndata: ") == MISSED
            found.tail.close()
            return took

        yield replay, read, front


def _spread(values: list[float]) -> str:
    return f"{median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


async def measure(rounds: int, times: int, retained: int, directory: Path) -> None:
    took: dict[tuple[str, bool], list[float]] = {}
    ratios: dict[tuple[str, bool, str], list[float]] = {}
    for _ in range(rounds):
        one: dict[tuple[str, bool], float] = {}
        for name, made in (("the SDK example's store", example), ("FastMCP's EventStore", fastmcp)):
            replay = await made(retained)
            for encode in (False, True):
                one[name, encode] = median(await _times(replay, encode, times))
            del replay
        with tempfile.TemporaryDirectory(dir=directory) as place:
            for kind, url in (("memory:", "memory:"), ("sqlite:", f"sqlite:{place}/bench.db")):
                async with ours(url, retained) as (replay, read, front):
                    await read(), front()
                    one[f"tidings `{kind}`, resume front", True] = median([front() for _ in range(times)])
                    one[f"tidings `{kind}`, Stream.read", False] = median([await read() for _ in range(times)])
                    for encode in (False, True):
                        one[f"tidings `{kind}`, EventStore", encode] = median(await _times(replay, encode, times))
        for key, value in one.items():
            took.setdefault(key, []).append(value)
            for peer in ("the SDK example's store", "FastMCP's EventStore"):
                ratios.setdefault((*key, peer), []).append(one[peer, key[1]] / value)
    print(f"\n{MISSED} events of {BYTES} bytes out of {retained:,}, medians of {rounds} rounds of {times}:\n")
    print("| | | µs | times the example | times FastMCP |\n|---|---|---|---|---|")
    for (name, encode), values in sorted(took.items(), key=lambda item: item[0][1]):
        times_of = [_times_of(ratios[name, encode, p]) for p in ("the SDK example's store", "FastMCP's EventStore")]
        what = "to SSE bytes" if encode else "events"
        print(f"| {name} | {what} | {_spread(values)} | {times_of[0]} | {times_of[1]} |", flush=True)


def _times_of(ratios: list[float]) -> str:
    return f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="replaying a few events out of many")
    parser.add_argument("--quick", action="store_true", help="2 small rounds: to see that it runs")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each side (default 5)")
    parser.add_argument("--retained", type=int, default=50_000, help="events of the stream (default 50,000)")
    parser.add_argument("--dir", type=Path, default=Path("target/bench"), help="where the databases stand")
    given = parser.parse_args()
    given.dir.mkdir(parents=True, exist_ok=True)
    print("Replaying what a client has missed, beside the event stores that others keep in memory.\n")
    for line in _machine.describe(["tidings", "mcp", "fastmcp", "sse-starlette"]):
        print(f"- {line}")
    print(f"- load at the start: {_machine.load()}", flush=True)
    retained = 1_000 if given.quick else given.retained
    asyncio.run(measure(2 if given.quick else given.rounds, 5 if given.quick else 50, retained, given.dir))
    print(f"- load at the end: {_machine.load()}")
    print("- times X: round by round, against the same column of X; in brackets the range over rounds")


if __name__ == "__main__":
    main()

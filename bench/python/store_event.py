"""store_event: what one event costs a Python server, on a SQLite file, beside the stores that others keep in memory.

Three sides, one after the other in each round, in one process and on one event loop:

- ours: `tidings.mcp.EventStore` on a hub on a SQLite file, with default options. With the message given it dumps the model;
  with the bytes ready it does not: once through `store_event` with a message whose dump is there already, once as
  `Writer.append` and `Writer.append_many` of bytes, which is what lies under it.
- the SDK example's store (memory, last 100 events of a stream), which keeps the object and dumps nothing
- FastMCP's `EventStore` with its own `MemoryStore`

A burst is timed to the return of the last `store_event`, and again to the end of the flush that follows: only then is it
on the SQLite file, safe from the end of the process. A sustained run counts what is flushed at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import _machine
import tidings
import tidings.mcp
from _stores import BYTES, ExampleStore, Ready, progress, text
from fastmcp.server.event_store import EventStore as FastMcpStore

STREAM = "1"
"""The stream of one request: the SDK names it by the request's id."""
BATCH = 500
"""A sustained run looks at the clock, and lets the loop turn, after so many events."""
DISTINCT = 1_000
"""Messages that differ, taken in turns."""

Store = Callable[[str, Any], Awaitable[str]]


@dataclass
class Run:
    """One run: microseconds for each event."""

    events: int
    handed_over: float
    """Until `store_event` of the last one returned."""
    committed: float
    """Until the flush after it was done; as `handed_over` where there is nothing to flush."""
    thread: float
    """Processor time of the calling thread until then: what a server's event loop pays, whatever else the machine does."""
    cpu: float
    """Processor time of the whole process, other threads included, until the commit."""
    floor: _machine.Floor


@dataclass
class Side:
    """One store, one way to use it."""

    name: str
    run: Callable[[Side, Options, float | None], Awaitable[Run]]
    messages: list[Any]
    burst: int


@dataclass
class Options:
    directory: Path
    rounds: int
    seconds: float
    sustained_rounds: int


class Clock:
    """Times one run from its making on."""

    def __init__(self, floor: _machine.Floor) -> None:
        self._floor = floor
        gc.collect()
        self._cpu, self._thread, self._wall = time.process_time(), time.thread_time(), time.perf_counter()
        self._handed_over = self._handed_over_thread = 0.0

    def handed_over(self) -> None:
        """The last event was."""
        self._handed_over = time.perf_counter() - self._wall
        self._handed_over_thread = time.thread_time() - self._thread

    def committed(self, events: int) -> Run:
        """All are committed."""
        committed, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        took = (self._handed_over, committed, self._handed_over_thread, cpu)
        return Run(events, *(seconds * 1e6 / events for seconds in took), floor=self._floor)


@contextmanager
def hub_in(directory: Path) -> Iterator[tidings.Hub]:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        yield tidings.Hub(f"sqlite:{place}/bench.db")


async def feed(store: Store, messages: list[Any], burst: int, seconds: float | None) -> int:
    """Stores a burst, or for so many seconds as much as it can; how many."""
    if seconds is None:
        for _ in range(burst // len(messages)):
            for message in messages:
                await store(STREAM, message)
        return burst
    batches = [messages[at : at + BATCH] for at in range(0, len(messages), BATCH)]
    events, end = 0, time.perf_counter() + seconds
    for batch in cycle(batches):
        for message in batch:
            await store(STREAM, message)
        events += len(batch)
        await asyncio.sleep(0)
        if time.perf_counter() >= end:
            break
    return events


async def run_peer(store: Store, side: Side, options: Options, seconds: float | None) -> Run:
    floor = _machine.floor(options.directory)
    await feed(store, side.messages, DISTINCT, None)
    clock = Clock(floor)
    events = await feed(store, side.messages, side.burst, seconds)
    clock.handed_over()
    return clock.committed(events)


async def run_example(side: Side, options: Options, seconds: float | None) -> Run:
    return await run_peer(ExampleStore().store_event, side, options, seconds)


async def run_fastmcp(side: Side, options: Options, seconds: float | None) -> Run:
    return await run_peer(FastMcpStore().store_event, side, options, seconds)


async def run_store(side: Side, options: Options, seconds: float | None) -> Run:
    """`EventStore.store_event`, as the SDK's transport calls it."""
    floor = _machine.floor(options.directory)
    with hub_in(options.directory) as hub:
        shared = tidings.mcp.EventStore(hub)
        store = shared.scoped("bench")
        await feed(store.store_event, side.messages, DISTINCT, None)
        writer = store._writers[STREAM]
        await writer.flush()
        clock = Clock(floor)
        events = await feed(store.store_event, side.messages, side.burst, seconds)
        clock.handed_over()
        await writer.flush()
        run = clock.committed(events)
        lost = await check(hub, events + DISTINCT)
        if shared.failures or lost:
            sys.exit(f"store_event: {shared.failures} calls failed, {lost} events are not in the store")
    return run


async def run_writer(side: Side, options: Options, seconds: float | None, many: int = 0) -> Run:
    """`Writer.append` of bytes, or `append_many` of so many at a time."""
    floor = _machine.floor(options.directory)
    with hub_in(options.directory) as hub:
        writer = hub.new_writer("session:bench", STREAM)
        writer.append_many(side.messages)
        await writer.flush()
        append, append_many = writer.append, writer.append_many
        batches = [side.messages[at : at + many] for at in range(0, len(side.messages), many)] if many else []
        clock = Clock(floor)
        if many:
            events = 0
            for batch in islice(cycle(batches), side.burst // many):
                append_many(batch)
                events += len(batch)
        else:
            events = side.burst
            for _ in range(events // DISTINCT):
                for message in side.messages:
                    append(message)
        clock.handed_over()
        await writer.flush()
        run = clock.committed(events)
        if lost := await check(hub, events + DISTINCT):
            sys.exit(f"store_event: {lost} events are not in the store")
    return run


async def run_writer_many(side: Side, options: Options, seconds: float | None) -> Run:
    return await run_writer(side, options, seconds, many=50)


async def check(hub: tidings.Hub, events: int) -> int:
    """Closes the hub; how many of the events did not get to the store."""
    stats = hub.stats()
    await hub.close()
    return events - stats.events


def short(value: float) -> str:
    """Three significant digits and, from a thousand on, `k` or `M`."""
    for limit, unit in ((999_500.0, " M"), (999.5, " k")):
        if value >= limit:
            return f"{value / (1e6 if unit == ' M' else 1e3):.3g}{unit}"
    return f"{value:.3g}"


def spread(values: list[float]) -> str:
    return f"{short(median(values))} ({short(min(values))} to {short(max(values))})"


def table(title: str, sides: list[Side], runs: dict[str, list[Run]], peers: dict[str, str]) -> None:
    print(f"\n{title}\n")
    times = " | ".join(f"times {name}" for name in peers)
    costs = "µs to the return | µs to the commit | committed/s | CPU µs: calling thread | CPU µs: process"
    print(f"| one event | {costs} | {times} | floor µs: extend, rewrite |")
    print("|---" * (7 + len(peers)) + "|")
    for side in sides:
        done = runs[side.name]
        cells = [
            spread([run.handed_over for run in done]),
            spread([run.committed for run in done]),
            short(1e6 / median(run.committed for run in done)),
            spread([run.thread for run in done]),
            spread([run.cpu for run in done]),
            *(ratio(done, runs[peer]) for peer in peers.values()),
            ", ".join(spread([getattr(run.floor, kind) for run in done]) for kind in ("extending", "rewriting")),
        ]
        print(f"| {side.name} | {' | '.join(cells)} |")


def ratio(ours: list[Run], theirs: list[Run]) -> str:
    """How many times as fast, round by round. The peers do not touch the disk: only our own floor matters, in our row."""
    if ours is theirs:
        return "1"
    kinds = {"handed_over": "return", "committed": "commit", "thread": "CPU of the calling thread"}
    told = []
    for kind, name in kinds.items():
        values = [getattr(peer, kind) / getattr(run, kind) for run, peer in zip(ours, theirs, strict=True)]
        told.append(f"{name} {spread(values)}")
    return "; ".join(told)


async def measure(options: Options) -> None:
    given = [progress(n) for n in range(DISTINCT)]
    ready = [text(message) for message in given]
    if {len(payload) for payload in ready} != {BYTES}:
        sys.exit("store_event: the messages do not have their size")
    ducks = [Ready(payload) for payload in ready]

    example = Side("SDK example's memory store", run_example, given, 100_000)
    fastmcp = Side("FastMCP's EventStore on its MemoryStore", run_fastmcp, given, 2_000)
    ours = Side("tidings EventStore, message given (dump included)", run_store, given, 100_000)
    duck = Side("tidings EventStore, bytes ready", run_store, ducks, 100_000)
    writer = Side("tidings Writer.append, bytes", run_writer, ready, 100_000)
    many = Side("tidings Writer.append_many, bytes, 50 at a time", run_writer_many, ready, 100_000)
    peers = {"example": example.name, "FastMCP": fastmcp.name}

    async def rounds(sides: list[Side], count: int, seconds: float | None) -> dict[str, list[Run]]:
        runs: dict[str, list[Run]] = {side.name: [] for side in sides}
        for n in range(count):
            for side in sides if n % 2 == 0 else reversed(sides):
                runs[side.name].append(await side.run(side, options, seconds))
        return runs

    sides = [example, fastmcp, ours, duck, writer, many]
    table(
        f"Burst of {ours.burst:,} events on one stream ({fastmcp.burst:,} for FastMCP), medians of {options.rounds} rounds:",
        sides,
        await rounds(sides, options.rounds, None),
        peers,
    )
    sides = [example, fastmcp, ours, duck]
    table(
        f"Sustained for {options.seconds:g} s on one stream, then flushed, medians of {options.sustained_rounds} rounds:",
        sides,
        await rounds(sides, options.sustained_rounds, options.seconds),
        peers,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="store_event of our event store beside others'")
    parser.add_argument("--quick", action="store_true", help="2 rounds, sustained for 1 s: to see that it runs")
    parser.add_argument("--rounds", type=int, help="bursts of each side (default 5)")
    parser.add_argument("--seconds", type=float, help="of a sustained run (default 10)")
    parser.add_argument("--dir", type=Path, default=Path("target/bench"), help="where the databases stand")
    given = parser.parse_args()
    given.dir.mkdir(parents=True, exist_ok=True)
    options = Options(
        directory=given.dir,
        rounds=given.rounds or (2 if given.quick else 5),
        seconds=given.seconds or (1 if given.quick else 10),
        sustained_rounds=1 if given.quick else 2,
    )
    print(f"What one event of {BYTES} bytes costs a Python server: ours on a SQLite file, the others in memory.\n")
    for line in _machine.describe(["tidings", "mcp", "fastmcp", "py-key-value-aio", "pydantic"]):
        print(f"- {line}")
    print(f"- load at the start: {_machine.load()}", flush=True)
    asyncio.run(measure(options))
    print(f"\n- load at the end: {_machine.load()}")
    print("- µs: median over the rounds and range")
    print(
        "- times X: how many times as fast as X, round by round: to the return, to the commit (which X does not do), and in"
    )
    print("  processor time of the calling thread, which other work on the machine changes least")


if __name__ == "__main__":
    main()

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
BATCH = 512
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
    """Until the flush after it was done; the same as `handed_over` where there is nothing to flush."""
    cpu: float
    """Processor time of the whole process, other threads included."""
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
    """Wall and processor time from its making on."""

    def __init__(self) -> None:
        gc.collect()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def wall(self) -> float:
        return time.perf_counter() - self._wall

    def cpu(self) -> float:
        return time.process_time() - self._cpu


@contextmanager
def hub_in(directory: Path) -> Iterator[tidings.Hub]:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        yield tidings.Hub(f"sqlite:{place}/bench.db")


async def feed(store: Store, messages: list[Any], burst: int, seconds: float | None) -> int:
    """Stores a burst, or for so many seconds as much as it can; how many."""
    if seconds is None:
        for message in islice(cycle(messages), burst):
            await store(STREAM, message)
        return burst
    events, ahead, end = 0, cycle(messages), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for message in islice(ahead, BATCH):
            await store(STREAM, message)
        events += BATCH
        await asyncio.sleep(0)
    return events


async def run_peer(store: Store, side: Side, options: Options, seconds: float | None) -> Run:
    floor = _machine.floor(options.directory)
    await feed(store, side.messages, 200, None)
    clock = Clock()
    events = await feed(store, side.messages, side.burst, seconds)
    took, cpu = clock.wall(), clock.cpu()
    return Run(events, took * 1e6 / events, took * 1e6 / events, cpu * 1e6 / events, floor)


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
        await feed(store.store_event, side.messages, 200, None)
        writer = store._writers[STREAM]
        await writer.flush()
        clock = Clock()
        events = await feed(store.store_event, side.messages, side.burst, seconds)
        handed_over = clock.wall()
        await writer.flush()
        took, cpu = clock.wall(), clock.cpu()
        lost = await check(hub, events + 200)
        if shared.failures or lost:
            sys.exit(f"store_event: {shared.failures} calls failed, {lost} events are not in the store")
    return Run(events, handed_over * 1e6 / events, took * 1e6 / events, cpu * 1e6 / events, floor)


async def run_writer(side: Side, options: Options, seconds: float | None, many: int = 0) -> Run:
    """`Writer.append` of bytes, or `append_many` of so many at a time."""
    floor = _machine.floor(options.directory)
    with hub_in(options.directory) as hub:
        writer = hub.new_writer("session:bench", STREAM)
        writer.append_many(side.messages[:200])
        await writer.flush()
        append, append_many = writer.append, writer.append_many
        batches = [side.messages[at : at + many] for at in range(0, len(side.messages), many)] if many else []
        clock = Clock()
        if many:
            events = 0
            for batch in islice(cycle(batches), side.burst // many):
                append_many(batch)
                events += len(batch)
        else:
            events = side.burst
            for message in islice(cycle(side.messages), events):
                append(message)
        handed_over = clock.wall()
        await writer.flush()
        took, cpu = clock.wall(), clock.cpu()
        if lost := await check(hub, events + 200):
            sys.exit(f"store_event: {lost} events are not in the store")
    return Run(events, handed_over * 1e6 / events, took * 1e6 / events, cpu * 1e6 / events, floor)


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
    costs = "µs/event to the return | µs/event to the commit | committed/s | CPU µs/event"
    print(f"| | {costs} | {times} | floor µs: extend, rewrite |")
    print("|---" * (6 + len(peers)) + "|")
    for side in sides:
        done = runs[side.name]
        ratios = [ratio(done, runs[peer]) for peer in peers.values()]
        print(
            f"| {side.name} | {spread([run.handed_over for run in done])} | {spread([run.committed for run in done])} "
            f"| {short(1e6 / median(run.committed for run in done))} | {spread([run.cpu for run in done])} | {' | '.join(ratios)} "
            f"| {spread([run.floor.extending for run in done])}, {spread([run.floor.rewriting for run in done])} |"
        )


def ratio(ours: list[Run], theirs: list[Run]) -> str:
    """How many times as fast, round by round: to the return, and to the commit where that takes longer."""
    if ours is theirs:
        return "1"
    returned = [peer.handed_over / run.handed_over for run, peer in zip(ours, theirs, strict=True)]
    told = spread(returned)
    if any(run.committed > run.handed_over for run in ours):
        # The peers do not touch the disk, so only our own floor matters, and it stands in the row.
        told += "; committed " + spread(
            [peer.committed / run.committed for run, peer in zip(ours, theirs, strict=True)]
        )
    return told


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
        "- times X: how many times as fast as X, round by round: to the return; to the commit, where that takes longer"
    )


if __name__ == "__main__":
    main()

"""read: live tails into Python beside anyio's memory streams, and the replay of a few events out of many."""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

import _machine
import anyio
from tidings import Hub, Retention

BYTES = 200
PAYLOAD = b'{"n":"' + b"x" * (BYTES - 8) + b'"}'
#: What a client that lost its connection for a moment has missed.
MISSED = 98
KEEP = Retention(max_events=None, max_bytes=None, max_age=None, after_close=None, max_total_bytes=None)


def spread(values: list[float], digits: int = 1) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


async def live_anyio(count: int) -> float:
    """Events a second from one task to another, as the MCP SDK hands them on."""
    send, receive = anyio.create_memory_object_stream[bytes](1_000)

    async def produce() -> None:
        async with send:
            for _ in range(count):
                await send.send(PAYLOAD)

    begun = time.perf_counter()
    async with anyio.create_task_group() as tasks, receive:
        tasks.start_soon(produce)
        async for _ in receive:
            pass
    return count / (time.perf_counter() - begun)


async def live_tail(url: str, count: int) -> tuple[float, float]:
    """Events a second from the writer's first append to the tail's last batch, and to the last commit alone."""
    async with Hub(url, retention=KEEP, buffer_bytes=1 << 30) as hub:
        writer = hub.new_writer("bench", "live")
        writer.append(PAYLOAD)
        await writer.flush()
        tail = hub.stream("bench", "live").tail(0)
        seen = 0

        async def read() -> None:
            nonlocal seen
            async for batch in tail.batches():
                seen += len(batch)

        begun = time.perf_counter()
        reader = asyncio.create_task(read())
        for n in range(0, count, 500):
            writer.append_many([PAYLOAD] * 500, close=n + 500 >= count)
            await asyncio.sleep(0)
        await writer.flush()
        committed = time.perf_counter() - begun
        await reader
        took = time.perf_counter() - begun
        assert seen == count
        return count / took, count / committed


async def latency_anyio(count: int) -> list[float]:
    """Microseconds from the call that sends until a task that waits has the event."""
    send, receive = anyio.create_memory_object_stream[bytes](1_000)
    took: list[float] = []
    async with send, receive:
        for _ in range(count):
            waiting = asyncio.ensure_future(receive.receive())
            await asyncio.sleep(0)
            begun = time.perf_counter()
            await send.send(PAYLOAD)
            await waiting
            took.append((time.perf_counter() - begun) * 1e6)
    return took


async def latency(url: str, count: int) -> tuple[list[float], list[float]]:
    """Microseconds until a tail that waits has the event: from the call that appends, so that the commit itself is in it; and
    from the commit, which on a file is the last write to the log.

    The latter is empty where there is no file, and where its times are coarse (Linux before 6.13).
    """
    log = Path(f"{url.removeprefix('sqlite:')}-wal") if url.startswith("sqlite:") else None
    from_append: list[float] = []
    from_commit: list[float] = []
    async with Hub(url, retention=KEEP) as hub:
        writer = hub.new_writer("bench", "live")
        writer.append(PAYLOAD)
        await writer.flush()
        tail = hub.stream("bench", "live").tail(0)
        for _ in range(count):
            waiting = asyncio.ensure_future(tail.__anext__())
            await asyncio.sleep(0)
            if log is not None:
                log.stat()  # what was asked for has a fine time at its next change
            begun, wall = time.perf_counter(), time.time_ns()
            writer.append(PAYLOAD)
            await waiting
            took = time.perf_counter() - begun
            from_append.append(took * 1e6)
            if log is not None and (written := log.stat().st_mtime_ns - wall) > 0:
                from_commit.append(took * 1e6 - written / 1e3)
    return from_append, from_commit if len(from_commit) > count * 9 // 10 else []


async def replay(url: str, retained: int, times: int) -> list[float]:
    """Microseconds for the last events of a stream of so many."""
    async with Hub(url, retention=KEEP, buffer_bytes=1 << 30) as hub:
        writer = hub.new_writer("bench", "long")
        for n in range(0, retained, 1_000):
            writer.append_many([PAYLOAD] * 1_000)
            if n % 100_000 == 0:
                await writer.flush()
        await writer.flush()
        stream = hub.stream("bench", "long")
        took = []
        for _ in range(times):
            begun = time.perf_counter()
            page = await stream.read(retained - MISSED - 1)
            took.append((time.perf_counter() - begun) * 1e6)
            assert len(page.events) == MISSED
        return took


async def idle(streams: int) -> float:
    """Bytes of memory for each stream of `memory:` that has had one event and lost it to retention."""
    keep = Retention(max_events=0, max_bytes=None, max_age=None, after_close=None)
    async with Hub("memory:", retention=keep) as hub:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for n in range(streams):
            writer = hub.new_writer("bench", str(n))
            writer.append(b"1")
            if n % 10_000 == 0:
                await writer.flush()
        await hub.flush()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / streams


async def measure(rounds: int, count: int, sizes: list[int], directory: Path) -> None:
    print(f"\nLive, events of {BYTES} bytes, {count:,} in a round:\n")
    print(
        "| | M events/s | of the commit rate | µs from the append, p50 | µs from the commit, p50 |\n|---|---|---|---|---|"
    )
    peer = [await live_anyio(count // 10) / 1e6 for _ in range(rounds)]
    waits = [median(await latency_anyio(500)) for _ in range(rounds)]
    print(f"| anyio memory stream | {spread(peer, 2)} | | {spread(waits)} | |")
    for name in ("memory", "sqlite"):
        rates, shares, waits, after = [], [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(dir=directory) as place:
                urls = [f"sqlite:{place}/{n}.db" if name == "sqlite" else "memory:" for n in range(2)]
                rate, commits = await live_tail(urls[0], count)
                rates.append(rate / 1e6)
                shares.append(100 * rate / commits)
                from_append, from_commit = await latency(urls[1], 500)
                waits.append(median(from_append))
                after.extend([median(from_commit)] if from_commit else [])
        last = spread(after) if after else "not told"
        row = (f"`{name}:`, in batches", spread(rates, 2), f"{spread(shares, 0)} %", spread(waits), last)
        print(f"| {' | '.join(row)} |", flush=True)

    print(f"\nReplay of {MISSED} events:\n\n| retained | `memory:` µs | `sqlite:` µs |\n|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=directory) as place:
            ours = [await replay(url, size, 50) for url in ("memory:", f"sqlite:{place}/t.db")]
        print(f"| {size:,} | {spread(ours[0])} | {spread(ours[1])} |", flush=True)
    print(f"\n- an idle stream of `memory:`: {await idle(count):.0f} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="reading: live and replay")
    parser.add_argument("--quick", action="store_true", help="2 small rounds: to see that it runs")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each side (default 5)")
    parser.add_argument("--most", action="store_true", help="replays from a stream of 10,000,000 events too")
    parser.add_argument("--dir", type=Path, default=Path("target/bench"), help="where the databases stand")
    given = parser.parse_args()
    given.dir.mkdir(parents=True, exist_ok=True)
    sizes = [1_000, 10_000] if given.quick else [1_000, 10_000, 100_000, 1_000_000]
    if given.most:
        sizes.append(10_000_000)
    print("Reading events into Python, beside what the MCP SDK hands them on with.\n")
    for line in _machine.describe(["tidings", "anyio"]):
        print(f"- {line}")
    print(f"- load at the start: {_machine.load()}", flush=True)
    asyncio.run(measure(2 if given.quick else given.rounds, 20_000 if given.quick else 1_000_000, sizes, given.dir))
    print(f"- load at the end: {_machine.load()}")
    print(
        "- of the commit rate: the tail's last batch against the writer's last commit; in brackets the range over rounds"
    )


if __name__ == "__main__":
    main()

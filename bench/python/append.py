"""append: durable appends from Python, by one task and by 64 at a time, beside aiosqlite.

Each append is on disk when it returns: ours by `Stream.append(…, durability="disk")`, theirs by an INSERT and a commit of its own
on a connection of its own thread, in WAL mode with `synchronous=FULL`, behind a lock, as one connection has one transaction at a
time. The floor is the disk's: a write of 4 KiB and an fdatasync.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import _machine
import aiosqlite
from tidings import Hub

PAYLOAD = b'{"n":"' + b"x" * 248 + b'"}'
TASKS = (1, 64)

Append = Callable[[], Awaitable[object]]


async def timed(append: Append, tasks: int, count: int) -> float:
    """Appends a second, when so many tasks share `count` of them."""

    async def work() -> None:
        for _ in range(count // tasks):
            await append()

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return count // tasks * tasks / (time.perf_counter() - begun)


async def ours(folder: Path, tasks: int, count: int) -> float:
    async with Hub(f"sqlite:{folder / 'ours.db'}") as hub:
        stream = hub.stream("bench", "append")
        await stream.append(PAYLOAD, durability="disk")
        return await timed(lambda: stream.append(PAYLOAD, durability="disk"), tasks, count)


async def theirs(folder: Path, tasks: int, count: int) -> float:
    async with aiosqlite.connect(folder / "theirs.db") as connection:
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA synchronous = FULL")
        await connection.execute(
            "CREATE TABLE events (stream INTEGER, seq INTEGER, payload BLOB, PRIMARY KEY (stream, seq))"
        )
        await connection.commit()
        lock, seq = asyncio.Lock(), 0

        async def append() -> None:
            nonlocal seq
            async with lock:
                seq += 1
                await connection.execute("INSERT INTO events VALUES (1, ?, ?)", (seq, PAYLOAD))
                await connection.commit()

        return await timed(append, tasks, count)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true")
    quick = arguments.parse_args().quick
    rounds = 2 if quick else 5
    for line in _machine.describe(["tidings", "aiosqlite"]):
        print(f"- {line}")
    found: dict[tuple[str, int], list[float]] = {}
    floors = []
    for _ in range(rounds):
        for tasks in TASKS:
            count = (256 if quick else 1_024) * (1 if tasks == 1 else 8)
            for name, side in (("tidings", ours), ("aiosqlite", theirs)):
                with tempfile.TemporaryDirectory() as folder:
                    floors.append(_machine.floor(Path(folder)).extending)
                    found.setdefault((name, tasks), []).append(asyncio.run(side(Path(folder), tasks, count)))
    print(
        f"- floor: {median(floors):.0f} µs for a write of 4 KiB and fdatasync, {1e6 / median(floors):,.0f} a second\n"
    )
    print("| durable appends a second, 256 bytes | 1 task | 64 tasks |")
    print("|---|---|---|")
    for name in ("tidings", "aiosqlite"):
        print(f"| {name} | " + " | ".join(f"{median(found[name, tasks]):,.0f}" for tasks in TASKS) + " |")
    ratios = [median(found["tidings", tasks]) / median(found["aiosqlite", tasks]) for tasks in TASKS]
    print("| ratio | " + " | ".join(f"{ratio:.1f} times" for ratio in ratios) + " |")


if __name__ == "__main__":
    main()

"""fanout: what one publish to many listeners costs a Python server, beside a loop over `asyncio.Queue.put_nowait`.

Both sides tell as many listeners as there are, on one event loop, and both are timed twice: until the publish returned, and
until every listener had it. The peer has a waiting task for each listener, as servers that keep a queue for each session
do; ours marks them in the core, and the loop takes the frames in batches.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Callable
from statistics import median

import _machine
import tidings
from tidings._native import Profile
from tidings._port import wait

LISTENERS = (10, 1_000, 10_000)
FRAME = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
SERVER = '{"tools":{"listChanged":true}}'


async def ours(listeners: int, publishes: int) -> tuple[float, float]:
    hub = tidings.Hub("memory:")
    outbox = hub._native.outbox()
    profile = Profile("2025-11-25", SERVER, "{}")
    for _ in range(listeners):
        sink = outbox.add_sink(None, None)
        outbox.open(outbox.attend(sink, profile))
    in_call = in_all = 0.0
    gc.collect()
    for _ in range(publishes):
        begun = time.perf_counter()
        hub.notify("tools")
        in_call += time.perf_counter() - begun
        told = 0
        while told < listeners:
            await wait(outbox.ready())
            tasks = outbox.take(1_024)
            told += len(tasks)
            for sink, *_ in tasks:
                outbox.written(sink, 1)
        in_all += time.perf_counter() - begun
    await hub.close()
    return in_call, in_all


async def queues(listeners: int, publishes: int) -> tuple[float, float]:
    told = 0
    everybody = asyncio.Event()

    async def listen(queue: asyncio.Queue[object]) -> None:
        nonlocal told
        while True:
            await queue.get()
            told += 1
            if told == listeners:
                everybody.set()

    all_queues: list[asyncio.Queue[object]] = [asyncio.Queue(128) for _ in range(listeners)]
    tasks = [asyncio.ensure_future(listen(queue)) for queue in all_queues]
    await asyncio.sleep(0)
    in_call = in_all = 0.0
    gc.collect()
    for _ in range(publishes):
        told = 0
        everybody.clear()
        begun = time.perf_counter()
        for queue in all_queues:
            queue.put_nowait(FRAME)
        in_call += time.perf_counter() - begun
        await everybody.wait()
        in_all += time.perf_counter() - begun
    for task in tasks:
        task.cancel()
    return in_call, in_all


def spread(values: list[float], form: str = "{:.0f}") -> str:
    return f"{form.format(median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds of few publishes, to see that it runs")
    options = parser.parse_args()
    rounds, told = (3, 50_000) if options.quick else (9, 300_000)

    print("One publish, in nanoseconds for each listener: `call` until it returned, `drained` until each had it.")
    print(f"Medians over {rounds} rounds and their range.\n")
    for line in _machine.describe(["tidings"]):
        print(f"- {line}")
    print(f"- load at the start: {_machine.load()}\n")
    print("| listeners | | call | drained |\n|---|---|---|---|")
    for listeners in LISTENERS:
        publishes = max(1, told // listeners)
        sides: dict[str, Callable[[int, int], object]] = {"ours": ours, "asyncio.Queue": queues}
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for _ in range(rounds):
            for name, side in sides.items():
                call, drained = asyncio.run(side(listeners, publishes))  # type: ignore[arg-type]
                each = 1e9 / (listeners * publishes)
                took[name].append((call * each, drained * each))
        for name, runs in took.items():
            print(f"| {listeners} | {name} | {spread([run[0] for run in runs])} | {spread([run[1] for run in runs])} |")
        pairs = list(zip(took["asyncio.Queue"], took["ours"], strict=True))
        calls, drains = [peer[0] / own[0] for peer, own in pairs], [peer[1] / own[1] for peer, own in pairs]
        print(f"| | **asyncio.Queue/ours** | **{spread(calls, '{:.1f}')}** | **{spread(drains, '{:.1f}')}** |")
    print(f"\n- load at the end: {_machine.load()}")


if __name__ == "__main__":
    main()

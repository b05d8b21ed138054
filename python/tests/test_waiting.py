"""Waiting in event loops: none of them is needed before, and nothing is left behind."""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tidings
import trio
import uvloop
from tidings import _port, _port_asyncio


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def unraisable() -> Iterator[list[object]]:
    """What Python could not raise; must stay empty."""
    gc.collect()  # what earlier tests left is theirs
    seen: list[object] = []
    before = sys.unraisablehook
    sys.unraisablehook = seen.append
    yield seen
    gc.collect()
    sys.unraisablehook = before
    assert seen == []


def started(hub: tidings.Hub, name: str = "n") -> tuple[tidings.Writer, tidings.Stream]:
    """A stream with one event, 0."""
    writer = hub.new_writer("s", name)
    writer.append(b"0")
    hub.run(writer.flush())
    return writer, hub.stream("s", name)


def test_what_is_ready_needs_no_loop(hub: tidings.Hub) -> None:
    """A coroutine whose operations are done at once ends at its first step."""
    _, stream = started(hub)
    for coroutine in (stream.read(), stream.tail().__anext__()):
        with pytest.raises(StopIteration) as done:
            coroutine.send(None)
        assert done.value.value is not None


def test_without_a_loop_a_wait_says_so(hub: tidings.Hub) -> None:
    _, stream = started(hub)
    waiting = stream.tail(0).__anext__()
    with pytest.raises(RuntimeError, match="nothing runs here"):
        waiting.send(None)


def test_cancelled_waits_leave_nothing_behind(hub: tidings.Hub, unraisable: list[object]) -> None:
    """Field report B71: a late result after the loop has closed."""
    writer, stream = started(hub)
    seen = 0

    async def once() -> None:
        nonlocal seen
        tail = hub.resume("s", writer.cursor())
        waiting = asyncio.ensure_future(tail.__anext__())
        await asyncio.sleep(0)
        # The event is on its way while the wait is cancelled and the loop closes.
        seen += 1
        writer.append(str(seen))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(once())
    before = descriptors()
    for _ in range(500):
        asyncio.run(once())
    assert descriptors() < before + A_FEW
    hub.run(writer.flush())
    page = hub.run(stream.read())
    assert [event.payload for event in page.events] == [str(n).encode() for n in range(502)]


def test_a_value_that_arrived_is_not_lost_by_a_cancel(hub: tidings.Hub) -> None:
    writer, stream = started(hub)

    async def main() -> None:
        tail = stream.tail(0)
        waiting = asyncio.ensure_future(tail.__anext__())
        await asyncio.sleep(0)
        writer.append(b"1")
        # Another thread waits for the commit, so that the wake has come; then the loop hears of it.
        flushed = threading.Thread(target=lambda: hub.run(writer.flush()))
        flushed.start()
        flushed.join()
        port = _port_asyncio.current()
        assert port is not None
        port._drain()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        item = await tail.__anext__()
        assert isinstance(item, tidings.Event)
        assert item.payload == b"1"

    asyncio.run(main())


# Reads that overlap have the store open another connection, of three files. A port that stayed would be one for each loop.
A_FEW = 10


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_loop_takes_its_port_along(hub: tidings.Hub, new_loop: object) -> None:
    writer, stream = started(hub)

    def once() -> None:
        loop = new_loop()  # type: ignore[operator]
        n = hub.run(stream.read()).head_seq
        waiting = loop.create_task(stream.tail(n).__anext__())
        loop.call_soon(lambda: writer.append(b"next"))
        loop.run_until_complete(waiting)
        loop.close()

    once()
    before = descriptors()
    for _ in range(50):
        once()
    assert descriptors() < before + A_FEW


def test_a_loop_that_is_dropped_while_somebody_waits(hub: tidings.Hub, unraisable: list[object]) -> None:
    """The waiting task is never cancelled: it goes with its loop."""
    writer, stream = started(hub)
    before = descriptors()
    for _ in range(20):
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending"
        waiting = loop.create_task(stream.tail(0).__anext__())
        loop.run_until_complete(asyncio.sleep(0))
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        del waiting, loop
        gc.collect()
    hub.run(hub.stream("s", "other").append(b"x"))
    writer.append(b"1")
    hub.run(writer.flush())
    assert descriptors() < before + A_FEW


def test_a_tail_moves_between_loops(hub: tidings.Hub) -> None:
    writer, stream = started(hub)
    tail = stream.tail()
    seen = []
    for run in (asyncio.run, trio_run, asyncio.run, hub.run):

        async def step() -> None:
            item = await tail.__anext__()
            assert isinstance(item, tidings.Event)
            seen.append(item.seq)
            writer.append(b"more")

        run(step())
    assert seen == [0, 1, 2, 3]


def trio_run(coroutine: object) -> None:
    async def main() -> None:
        await coroutine  # type: ignore[misc]

    trio.run(main)


def test_several_loops_at_once(hub: tidings.Hub) -> None:
    """Each in a thread of its own, each waiting for what another writes."""
    count, rounds = 4, 50
    writers = [started(hub, str(n))[0] for n in range(count)]
    failures: list[BaseException] = []
    loops = [asyncio.run, trio_run, uvloop.run, hub.run]

    async def relay(me: int) -> None:
        async with hub.stream("s", str(me)).tail(0) as tail:
            for n in range(rounds):
                if me == 0:
                    writers[1].append(str(n))
                item = await tail.__anext__()
                assert isinstance(item, tidings.Event)
                assert item.payload == str(n).encode()
                if me != 0:
                    writers[(me + 1) % count].append(item.payload)

    def work(me: int) -> None:
        try:
            loops[me](relay(me))
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_many_waits_in_one_loop(hub: tidings.Hub) -> None:
    writers = [started(hub, str(n))[0] for n in range(50)]

    async def main() -> None:
        tails = [hub.stream("s", str(n)).tail(0) for n in range(50)]
        waiting = [asyncio.ensure_future(tail.__anext__()) for tail in tails]
        await asyncio.sleep(0)
        for n, writer in enumerate(writers):
            writer.append(str(n))
        items = await asyncio.gather(*waiting)
        assert [item.payload for item in items if isinstance(item, tidings.Event)] == [
            str(n).encode() for n in range(50)
        ]

    asyncio.run(main())


def test_run_is_for_threads_without_a_loop(hub: tidings.Hub) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="await instead"):
            hub.run(hub.stream("s", "n").read())

    asyncio.run(main())
    trio.run(main)


def test_run_runs_this_library_only(hub: tidings.Hub) -> None:
    with pytest.raises(RuntimeError, match=r"use asyncio\.run\(\)"):
        hub.run(asyncio.sleep(0))


def test_run_returns_what_the_function_returns(hub: tidings.Hub) -> None:
    async def main() -> tuple[int, int]:
        stream = hub.stream("s", "n")
        return await stream.append(b"1"), await stream.append(b"2")

    assert hub.run(main()) == (0, 1)

    async def fails() -> None:
        await hub.stream("s", "n").append(b"3")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        hub.run(fails())
    assert _port._thread.port is None


def test_a_waiting_thread_lets_others_run(hub: tidings.Hub) -> None:
    """The wait holds no GIL: the thread that ends it is Python too."""
    writer, stream = started(hub)
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.append(hub.run(stream.tail(0).__anext__())))
    reader.start()
    writer.append(b"1")
    reader.join()
    (item,) = got
    assert isinstance(item, tidings.Event)
    assert item.payload == b"1"


def test_closing_the_hub_ends_waits(url: str) -> None:
    hub = tidings.Hub(url)
    _, stream = started(hub)

    async def main() -> None:
        waiting = asyncio.ensure_future(stream.tail(0).__anext__())
        await asyncio.sleep(0)
        await hub.close()
        with pytest.raises((tidings.ClosedError, StopAsyncIteration)):
            await asyncio.wait_for(waiting, 60)

    asyncio.run(main())


def test_warnings_of_the_core_reach_logging(hub: tidings.Hub, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def main() -> None:
        stream = hub.stream("s", "n")
        first, _ = await stream.claim(), await stream.claim()
        first.append(b"refused")
        with pytest.raises(tidings.FencedError):
            await first.flush()

    with caplog.at_level("WARNING", logger="tidings"):
        asyncio.run(main())
        hub.run(hub.close())
    (record,) = [record for record in caplog.records if "refused" in record.getMessage()]
    assert record.name.startswith("tidings.")
    assert record.levelname == "WARNING"

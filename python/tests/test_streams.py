"""Streams: what is appended comes back, byte for byte, once and in order."""

import sys
import time

import anyio
import pytest
import tidings
from support import AWKWARD

pytestmark = pytest.mark.anyio


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("trio", {}), id="trio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


async def collect(tail: tidings.Tail) -> list[tidings.Event | tidings.Gap]:
    return [item async for item in tail]


def payloads(items: list[tidings.Event | tidings.Gap]) -> list[bytes]:
    return [item.payload for item in items if isinstance(item, tidings.Event)]


async def test_bytes_come_back_as_they_were_given(hub: tidings.Hub) -> None:
    writer = hub.new_writer("session", "owned")
    for payload in AWKWARD:
        writer.append(payload)
    await writer.flush()
    stream = hub.stream("session", "owned")
    assert payloads(list((await stream.read()).events)) == AWKWARD

    shared = hub.stream("session", "shared")
    assert await shared.append(AWKWARD) == 0
    assert await shared.append(AWKWARD[0].decode()) == len(AWKWARD)
    tail = shared.tail()
    await shared.close()
    assert payloads(await collect(tail)) == [*AWKWARD, AWKWARD[0]]


async def test_text_is_its_utf8(hub: tidings.Hub) -> None:
    writer = hub.new_writer("s", "n")
    writer.append('"ä\u2028😀"')
    with pytest.raises(tidings.InvalidArgument, match="payload: must have a UTF-8 form"):
        writer.append('"\ud800"')
    await writer.flush()
    page = await hub.stream("s", "n").read()
    assert [event.payload for event in page.events] == [b'"\xc3\xa4\xe2\x80\xa8\xf0\x9f\x98\x80"']


async def test_events_carry_number_type_time_and_cursor(hub: tidings.Hub) -> None:
    before = time.time()
    writer = hub.new_writer("s", "n")
    cursors = [writer.append(b"1"), writer.append(b"2", type="io.tidings.progress"), *writer.append_many([b"3", "4"])]
    assert writer.cursor() == cursors[-1]
    await writer.flush("disk")
    page = await hub.stream("s", "n").read()
    assert [event.seq for event in page.events] == [0, 1, 2, 3]
    assert [event.cursor for event in page.events] == cursors
    assert [event.type for event in page.events] == ["message", "io.tidings.progress", "message", "message"]
    assert all(before - 1 <= event.time <= time.time() + 1 for event in page.events)
    assert all(event.identity is None for event in page.events)
    assert (page.cursor, page.head_seq, page.ended, page.gap) == (cursors[-1], 3, False, None)
    assert repr(page.events[1]) == "Event(seq=1, type='io.tidings.progress', 1 bytes)"


async def test_a_resumed_reader_gets_each_later_event_once(hub: tidings.Hub) -> None:
    writer = hub.new_writer("session", "call")
    cursors = [writer.append(str(n)) for n in range(50)]
    writer.close()
    await writer.flush()
    with pytest.raises(tidings.ClosedError):
        writer.append(b"51")
    assert writer.closed
    for cut, cursor in enumerate(cursors):
        tail = hub.resume("session", cursor)
        assert tail.stream == writer.stream
        assert payloads(await collect(tail)) == [str(n).encode() for n in range(cut + 1, 50)]
        assert tail.cursor == cursors[-1]


async def test_a_tail_replays_and_goes_on_live(hub: tidings.Hub) -> None:
    writer = hub.new_writer("s", "n")
    writer.append(b"0")
    await writer.flush()
    tail = hub.stream("s", "n").tail()
    got: list[tidings.Event | tidings.Gap] = []

    async def read() -> None:
        async for item in tail:
            got.append(item)
            # Each event is appended when the one before it has arrived.
            if not writer.closed:
                writer.append(str(len(got)), close=len(got) == 20)

    with anyio.fail_after(60):
        await read()
    assert payloads(got) == [str(n).encode() for n in range(21)]


async def test_a_reader_in_another_task(hub: tidings.Hub) -> None:
    writer = hub.new_writer("s", "n")
    writer.append(b"0")
    await writer.flush()
    got: list[list[tidings.Event | tidings.Gap]] = []

    async def read() -> None:
        async for batch in hub.stream("s", "n").tail().batches():
            assert batch
            got.append(batch)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(read)
        for n in range(1, 500):
            writer.append(str(n))
            if n % 100 == 0:
                await writer.flush()
        writer.append(b"500", close=True)
    flat = [item for batch in got for item in batch]
    assert sorted(payloads(flat)) == sorted(3 * [str(n).encode() for n in range(501)])


async def test_close_ends_a_waiting_reader(hub: tidings.Hub) -> None:
    writer = hub.new_writer("s", "n")
    writer.append(b"0")
    await writer.flush()
    tail = hub.stream("s", "n").tail()
    first = await tail.__anext__()

    async def read() -> None:
        assert await collect(tail) == []
        with pytest.raises(StopAsyncIteration):
            await tail.__anext__()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        tail.close()
    assert isinstance(first, tidings.Event)
    assert tail.cursor == first.cursor


async def test_a_tail_has_one_reader_at_a_time(hub: tidings.Hub) -> None:
    writer = hub.new_writer("s", "n")
    writer.append(b"0")
    await writer.flush()
    async with hub.stream("s", "n").tail(0) as tail, anyio.create_task_group() as tasks:
        tasks.start_soon(collect, tail)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(tidings.InvalidArgument, match="tail: somebody else waits"):
            await tail.__anext__()
        writer.close()


async def test_a_cancelled_wait_loses_nothing(hub: tidings.Hub) -> None:
    writer = hub.new_writer("s", "n")
    writer.append(b"0")
    await writer.flush()
    tail = hub.stream("s", "n").tail(0)
    for n in range(1, 100):
        # The wait is cancelled while the event is on its way, so now and then before and after it has arrived.
        with anyio.move_on_after(0.001):
            writer.append(str(n))
            await tail.__anext__()
    await writer.flush()
    writer.close()
    rest = payloads(await collect(tail))
    last = int(tail.cursor.rsplit(".", 1)[1])
    assert last == 100
    assert rest == [str(n).encode() for n in range(100 - len(rest), 100)]


async def test_what_is_there_is_taken_without_waiting(hub: tidings.Hub) -> None:
    writer = hub.new_writer("session", "taken")
    start = writer.cursor()
    writer.append("1")
    writer.append("2")
    await writer.flush()
    tail = hub.resume("session", start)
    assert payloads([await anext(tail)]) == [b"1"]
    # What a batch left over comes first, then what was committed since, then nothing for now.
    assert payloads(tail.take() or []) == [b"2"]
    assert tail.take() == []
    place = tail.cursor
    writer.append("3", close=True)
    await writer.flush()
    assert payloads(tail.take() or []) == [b"3"]
    assert tail.cursor != place
    assert tail.take() is None
    tail.close()
    assert tail.take() is None


async def test_a_stream_whose_writer_lives_is_not_abandoned(hub: tidings.Hub) -> None:
    writer = hub.new_writer("session", "living")
    start = writer.cursor()
    assert not hub.resume("session", start).abandoned()  # not even before its first commit
    writer.append("1")
    await writer.flush()
    tail = hub.resume("session", start)
    assert not tail.abandoned()
    writer.close()
    await writer.flush()
    assert not tail.abandoned()
    await hub.stream("session", "shared").append("1")
    assert not hub.stream("session", "shared").tail().abandoned()


async def test_a_stream_whose_writer_was_killed_is_abandoned(hub: tidings.Hub, url: str) -> None:
    code = f"""
import os, signal
from tidings import Hub
hub = Hub({url!r})
async def main():
    writer = hub.new_writer("session", "left")
    print(writer.cursor(), flush=True)
    writer.append("1")
    await writer.flush()
    os.kill(os.getpid(), signal.SIGKILL)
hub.run(main())
"""
    left = await anyio.run_process([sys.executable, "-c", code], check=False)
    assert left.returncode == -9
    tail = hub.resume("session", left.stdout.decode().strip())
    assert tail.abandoned()
    assert payloads(tail.take() or []) == [b"1"]
    assert tail.take() == []
    # Somebody else goes on with it.
    writer = await hub.stream("session", "left").claim()
    assert not tail.abandoned()
    writer.append("2", close=True)
    assert payloads(await collect(tail)) == [b"2"]


async def test_where_a_read_begins(hub: tidings.Hub) -> None:
    stream = hub.stream("s", "n")
    empty = await stream.read()
    assert (list(empty.events), empty.head_seq, empty.ended) == ([], None, False)
    await stream.append([b"0", b"1", b"2", b"3"])
    assert payloads(list((await stream.read(1)).events)) == [b"2", b"3"]
    page = await stream.read(limit=2)
    assert payloads(list(page.events)) == [b"0", b"1"]
    assert payloads(list((await stream.read(page.cursor)).events)) == [b"2", b"3"]
    assert payloads(list((await stream.read(3)).events)) == []
    with pytest.raises(tidings.AheadError):
        await stream.read(4)
    await stream.close()
    assert (await stream.read(page.cursor)).ended
    assert not (await stream.read(page.cursor, limit=1)).ended


async def test_cursors_open_nothing_but_their_own_scope(hub: tidings.Hub) -> None:
    writer = hub.new_writer("mine", "n")
    cursor = writer.append(b"0")
    await writer.flush()
    for scope, text in [("other", cursor), ("mine", "nonsense"), ("mine", ""), ("mine", "0" * 26 + ".1.1.1")]:
        with pytest.raises(tidings.CursorError) as caught:
            hub.resume(scope, text)
        assert (caught.value.code, caught.value.retryable) == ("unknown_cursor", False)
    with pytest.raises(tidings.CursorError):
        await hub.stream("mine", "other").read(cursor)


async def test_an_evicted_place_is_a_gap(url: str) -> None:
    async with tidings.Hub(url, retention=tidings.Retention(max_events=10)) as hub:
        writer = hub.new_writer("s", "n")
        cursors = writer.append_many([str(n) for n in range(100)])
        writer.close()
        await writer_done(hub)
        # Retention runs beside; it is done once the first events are gone.
        with anyio.fail_after(60):
            while (await hub.stream("s", "n").read()).events[0].seq == 0:  # noqa: ASYNC110 - retention tells nobody
                await anyio.sleep(0.01)
        tail = hub.resume("s", cursors[5])
        gap = await tail.__anext__()
        assert isinstance(gap, tidings.Gap)
        assert (gap.reason, gap.earliest_seq, gap.head_seq) == ("evicted", 90, 99)
        assert tail.cursor == gap.cursor == cursors[89]
        assert payloads(await collect(tail)) == [str(n).encode() for n in range(90, 100)]
        # The cursor behind a gap is a place like any other.
        assert payloads(await collect(hub.resume("s", gap.cursor))) == [str(n).encode() for n in range(90, 100)]


async def writer_done(hub: tidings.Hub) -> None:
    other = hub.new_writer("s", "other")
    other.append(b"0")
    await other.flush()


async def test_a_claim_fences_the_writer_before(hub: tidings.Hub) -> None:
    stream = hub.stream("s", "n")
    first = await stream.claim()
    first.append(b"0")
    await first.flush()
    second = await stream.claim()
    second.append(b"1")
    await second.flush()
    first.append(b"lost")
    with pytest.raises(tidings.FencedError):
        await first.flush()
    assert first.closed
    with pytest.raises(tidings.FencedError):
        first.append(b"lost too")
    assert payloads(list((await stream.read()).events)) == [b"0", b"1"]
    await hub.flush()  # by then it is counted
    assert hub.stats().refused == 1


async def test_closing_twice(hub: tidings.Hub) -> None:
    writer = hub.new_writer("s", "n")
    assert not writer.closed
    writer.append(b"0", close=True)
    assert writer.closed
    with pytest.raises(tidings.ClosedError) as caught:
        writer.close()
    assert caught.value.code == "closed"


def fill(writer: tidings.Writer) -> None:
    for _ in range(1_000_000):
        writer.append(b"x" * 9_000)


async def test_a_full_buffer_is_told_and_can_be_waited_for(url: str) -> None:
    async with tidings.Hub(url, buffer_bytes=10_000) as hub:
        writer = hub.new_writer("s", "n")
        assert not writer.congested
        with pytest.raises(tidings.CongestedError) as caught:
            fill(writer)
        assert caught.value.retryable
        await writer.flush()
        assert not writer.congested
        writer.append(b"fits")

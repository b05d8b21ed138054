"""What users of other bindings reported of theirs, section "python binding" of the collected field reports, on ours.

B05, B06 and B09 are about parsers of event streams in clients, which these packages have none of: the clients are the SDKs'. What of it
touches a sender is in `mcp/test_mcp_front.py`.

B70 is `test_process.py` and `mcp/test_mcp_gunicorn.py`, B71 `test_waiting.py`, B72 `test_process.py`, each where its kind is.
"""

import asyncio
import gc
import json
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest
import tidings

WAIT = 60.0


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


async def fire(hub: tidings.Hub, name: str) -> tidings.Call:
    """A call that has ended, told to the callback of that name."""
    route = {"id": "r", "type": "callback", "endpoint": name, "triggers": ["completed"]}
    call = await hub.begin_call(
        config=json.dumps({"routes": [route]}),
        route_types=["callback"],
        principal="p",
        open=("audit", "closes"),
        request_id=1,
        tool="t",
    )
    await call.complete(b"{}")
    return call


async def fire_until_served(hub: tidings.Hub, name: str) -> None:
    """The same, from a thread without an event loop; until the server's thread has come so far, nobody offers the route."""
    while not hub.deliveries((await fire(hub, name)).id):
        pass


def test_b69_a_callback_uses_and_closes_its_hub_while_others_run_python(
    hub: tidings.Hub, unraisable: list[object]
) -> None:
    """Field report B69: nothing that blocks holds the GIL, and no lock of the core is held while Python is called."""
    told, closed, busy = threading.Event(), threading.Event(), threading.Event()
    attempts: list[int] = []

    def audit(delivery: tidings.HostDelivery) -> None:
        attempts.append(delivery.attempt)
        # Everything that may block, from within.
        hub.run(hub.stream("s", "n").append("1"))
        writer = hub.new_writer("s", f"own {delivery.attempt}")
        writer.append("0")
        hub.run(writer.flush("disk"))
        assert hub.deliveries(delivery.call_id)[0].state == "leased"
        with pytest.raises(tidings.InvalidArgument, match="is registered already"):
            hub.register_callback("audit", audit)
        if delivery.attempt == 1:
            raise ValueError("it comes again")
        told.set()

    def closes(delivery: tidings.HostDelivery) -> None:
        hub.run(hub.close(0.1))
        closed.set()

    def spin() -> None:
        while not busy.is_set():
            sum(range(1000))

    hub.register_callback("audit", audit)
    hub.register_callback("closes", closes)
    others = [threading.Thread(target=spin) for _ in range(2)]
    server = threading.Thread(target=lambda: hub.run(hub.serve_routes()))
    for thread in (*others, server):
        thread.start()
    try:
        hub.run(fire_until_served(hub, "audit"))
        assert told.wait(WAIT)
        assert attempts == [1, 2]
        hub.run(fire(hub, "closes"))
        assert closed.wait(WAIT)
        server.join(WAIT)
        assert not server.is_alive()
    finally:
        busy.set()
        for thread in others:
            thread.join(WAIT)
    with pytest.raises(tidings.ClosedError):
        hub.run(hub.stream("s", "n").read())


def test_b69_an_error_crosses_threads_as_data(hub: tidings.Hub) -> None:
    """Field report B69: the exception is made where it is raised, of what was said elsewhere."""
    hub.run(hub.stream("s", "n").append("0"))
    first = hub.run(hub.stream("s", "n").claim())
    second = hub.run(hub.stream("s", "n").claim())
    second.append("1")
    hub.run(second.flush())
    errors: list[tidings.TidingsError] = []

    def use() -> None:
        with pytest.raises(tidings.TidingsError) as raised:
            hub.run(first.flush())
        errors.append(raised.value)

    first.append("2")
    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert [error.code for error in errors] == ["fenced"] * 4
    assert len({id(error) for error in errors}) == 4


class Holder:
    """Has a hub, which has a callback that is a method of this."""

    def __init__(self, url: str, opened: bool) -> None:
        self.hub = tidings.Hub(url)
        self.hub.register_callback("audit", self.handle)
        self.hub.register_sink("dash", self.handle)
        if opened:
            self.hub.open()

    told: asyncio.Event

    def handle(self, delivery: tidings.HostDelivery) -> object:
        raise AssertionError("nobody is told")


@pytest.mark.parametrize(("opened", "count"), [(False, 10_000), (True, 50)], ids=["never opened", "open"])
def test_b73_a_callback_that_refers_to_its_hub_is_no_leak(opened: bool, count: int) -> None:
    """Field report B73: both go once nobody else has them."""
    held = [weakref.ref(Holder("memory:", opened)) for _ in range(count)]
    gc.collect()
    assert [ref for ref in held if ref() is not None] == []


def test_b73_a_callback_that_was_served_is_no_leak(unraisable: list[object]) -> None:
    """Field report B73, for one that the core has handed deliveries to."""

    class Served(Holder):
        async def handle(self, delivery: tidings.HostDelivery) -> None:
            self.told.set()

    async def live() -> "weakref.ref[Served]":
        holder = Served("memory:", True)
        holder.told = asyncio.Event()
        serving = asyncio.ensure_future(holder.hub.serve_routes())
        await asyncio.sleep(0)
        await fire_until_served(holder.hub, "audit")
        await holder.told.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return weakref.ref(holder)

    ref = asyncio.run(live())
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("kind", ["a function", "async"])
@pytest.mark.parametrize("error", [ValueError("not today"), SystemExit(3)], ids=["ValueError", "SystemExit"])
def test_b73_what_a_callback_raises_is_its_own_failure(
    hub: tidings.Hub, unraisable: list[object], caplog: pytest.LogCaptureFixture, kind: str, error: BaseException
) -> None:
    """Field report B73: counted and said once, and others are served, also by the same."""
    told: list[tuple[str, int]] = []

    def audit(delivery: tidings.HostDelivery) -> object:
        told.append(("audit", delivery.attempt))
        if delivery.attempt == 1:
            raise error
        return "no bool, which confirms"

    async def audit_async(delivery: tidings.HostDelivery) -> object:
        return audit(delivery)

    hub.register_callback("audit", audit if kind == "a function" else audit_async)

    async def main() -> None:
        done = asyncio.Event()

        async def closes(delivery: tidings.HostDelivery) -> None:
            told.append(("closes", delivery.attempt))
            done.set()

        hub.register_callback("closes", closes)
        serving = asyncio.ensure_future(hub.serve_routes())
        await asyncio.sleep(0)
        await fire_until_served(hub, "audit")
        await fire_until_served(hub, "closes")
        await done.wait()
        while not hub.deliveries(state="delivered") or ("audit", 2) not in told:
            await hub.stream("s", "n").append("0")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(main())
    assert sorted(told) == [("audit", 1), ("audit", 2), ("closes", 1)]
    assert caplog.text.count("a handler failed") == 1

"""What an operator does by hand, and a trace that goes on in webhooks."""

import anyio
import pytest
import tidings
from support import Receiver
from test_calls import config, delivered

pytestmark = pytest.mark.anyio

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def fire(hub: tidings.Hub, receiver: Receiver, traceparent: str | None = None) -> tidings.Call:
    call = await hub.begin_call(
        config=config(receiver, "completed"), principal="p", request_id=1, tool="t", traceparent=traceparent
    )
    await call.complete(b'{"content":[1.0]}')
    return call


async def test_what_was_sent_can_be_looked_up_and_forgotten(hub: tidings.Hub, receiver: Receiver) -> None:
    delivery = await delivered(hub, await fire(hub, receiver))
    post = receiver.next()
    assert hub.attempts(delivery.id) == [None]
    assert hub.delivery_body(delivery.id) == post.body
    with pytest.raises(tidings.InvalidArgument, match="dead or expired"):
        hub.send_again(delivery.id)
    with pytest.raises(tidings.InvalidArgument, match=r"^id: "):
        hub.attempts("nonsense")
    with pytest.raises(tidings.InvalidArgument, match="final"):
        hub.purge(state="leased")
    assert hub.purge(principal="nobody") == 0
    assert hub.purge(state="delivered") == 1
    assert hub.deliveries() == []


async def test_an_endpoint_is_seen_disabled_and_enabled(hub: tidings.Hub, receiver: Receiver) -> None:
    await delivered(hub, await fire(hub, receiver))
    (endpoint,) = hub.endpoints("p")
    assert (endpoint.principal, endpoint.host, endpoint.state) == ("p", "127.0.0.1", "verified")
    assert (endpoint.proof, endpoint.failures, endpoint.tripped, endpoint.last_error) == ("allow_list", 0, False, None)
    assert receiver.url not in repr(endpoint)
    hub.disable_endpoint(endpoint.key)
    assert hub.endpoints()[0].disabled == "operator"
    hub.enable_endpoint(endpoint.key)
    assert hub.endpoints()[0].disabled is None
    with pytest.raises(tidings.InvalidArgument, match=r"^key: "):
        hub.enable_endpoint("ab")


async def test_a_pause_holds_deliveries_back(hub: tidings.Hub, receiver: Receiver) -> None:
    hub.pause()
    assert await hub.drain(60.0)
    call = await fire(hub, receiver, TRACE)
    assert [delivery.state for delivery in hub.deliveries(call.id)] == ["pending"]
    hub.unpause()
    await delivered(hub, call)
    assert receiver.next().headers["traceparent"] == TRACE
    with anyio.fail_after(60):
        while hub.stats().delivered == 0:  # noqa: ASYNC110 - a counter tells nobody
            await anyio.sleep(0.01)
    assert 'tidings_deliveries_total{state="delivered"} 1' in hub.prometheus().splitlines()


async def test_receipts_are_on_the_stream_of_the_principal(hub: tidings.Hub, receiver: Receiver) -> None:
    delivery = await delivered(hub, await fire(hub, receiver))
    async for event in hub.stream("p", "deliveries").tail():
        assert event.type == "io.tidings.delivered"
        assert delivery.event_id in bytes(event.payload).decode()
        break


async def test_a_principal_sees_its_own_deliveries(hub: tidings.Hub, receiver: Receiver) -> None:
    """What a server shows a client: by the client's principal, whatever else the client asks for."""
    calls = {}
    for principal in ("ann", "bob"):
        call = await hub.begin_call(config=config(receiver, "completed"), principal=principal, request_id=1, tool="t")
        await call.complete(b'{"content":[1.0]}')
        await delivered(hub, call)
        calls[principal] = call
    for principal, other in (("ann", "bob"), ("bob", "ann")):
        (mine,) = hub.deliveries(principal=principal)
        assert (mine.principal, mine.call_id, mine.state) == (principal, calls[principal].id, "delivered")
        assert [one.id for one in hub.deliveries(mine.call_id, "delivered", principal=principal)] == [mine.id]
        assert hub.deliveries(calls[other].id, principal=principal) == []
        async for event in hub.stream(principal, "deliveries").tail():
            text = bytes(event.payload).decode()
            assert calls[principal].id in text
            assert calls[other].id not in text
            break
    assert hub.deliveries(principal="eve") == []
    assert len(hub.deliveries()) == 2, "the operator's"


def test_settings_that_cannot_be(url: str) -> None:
    for name, wrong in {"verify": "never", "previous_secret": "whsec_x", "max_pending": -1, "host_rate": 2**40}.items():
        with pytest.raises(tidings.InvalidArgument, match=f"^{name}: "):
            tidings.Hub(url, **{name: wrong})  # type: ignore[arg-type]

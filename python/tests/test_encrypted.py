"""Bodies that only their receiver can read: from a hub to the receiver kit, and to and from another JOSE library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import tidings
from joserfc import jwe
from joserfc.jwk import ECKey, OKPKey
from support import Receiver
from tidings.webhook import DecryptionKeys, Incoming
from tidings.webhook import Receiver as Kit

pytestmark = pytest.mark.anyio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ALGORITHMS = ["ECDH-ES", "A256GCM"]
# RFC 7518 appendix C.
PUBLIC = {
    "kty": "EC",
    "crv": "P-256",
    "x": "weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ",
    "y": "e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck",
}
Keys = tuple[dict[str, Any], "ECKey | OKPKey"]


def p256() -> Keys:
    key = ECKey.generate_key("P-256", {"kid": "k1", "use": "enc"})
    return dict(key.as_dict(private=True)), key


def x25519() -> Keys:
    key = OKPKey.generate_key("X25519")
    return dict(key.as_dict(private=True)), key


def config(url: str, public_key: object, **more: object) -> str:
    route = {"id": "r", "type": "webhook", "endpoint": url, "triggers": ["completed"], "secret": SECRET}
    return json.dumps({"routes": [{**route, "publicKey": public_key, **more}]})


async def complete(hub: tidings.Hub, text: str, result: str) -> None:
    call = await hub.begin_call(config=text, principal="p", request_id=1, tool="t")
    await call.complete(result)


def public(key: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in key.items() if name != "d"}


@pytest.mark.parametrize("make", [p256, x25519])
async def test_another_library_reads_what_a_hub_sends(hub: tidings.Hub, receiver: Receiver, make: Any) -> None:
    private, key = make()
    await complete(hub, config(receiver.url, public(private), redact=["token"]), '{"n":1.0,"token":"hunter2"}')
    post = receiver.next()
    headers = {name.lower(): value for name, value in post.headers.items()}
    assert headers["content-type"] == "application/jose"
    tidings.Webhook(SECRET).verify(post.body, headers)
    opened = jwe.decrypt_compact(post.body, key, algorithms=ALGORITHMS)
    assert opened.plaintext is not None
    assert b'"result":{"n":1.0,"token":"[redacted]"}' in opened.plaintext
    assert opened.headers().get("kid") == private.get("kid")
    assert opened.headers()["cty"] == "json"
    assert DecryptionKeys(private).decrypt(post.body) == opened.plaintext
    assert opened.plaintext == hub.delivery_body(hub.deliveries()[0].id)


async def test_the_kit_gives_its_handler_the_plain_body(hub: tidings.Hub, receiver: Receiver) -> None:
    (old, _), (new, _) = p256(), x25519()
    batch = {"maxEvents": 2, "maxDelayMs": 60_000}
    text = config(receiver.url, public(new), batch=batch)
    for n in range(2):
        await complete(hub, text, f'{{"n":{n}.0}}')
    post = receiver.next()
    got: list[Incoming] = []
    kit = Kit(SECRET, handler=got.append, keys=[old, json.dumps(new)])
    assert (await kit.receive(post.body, post.headers)).status == 204
    assert [event["data"]["outcome"]["result"] for event in got[0].events()] == [{"n": 0.0}, {"n": 1.0}]
    # A body in the clear and a challenge are as before.
    plain = b'{"eventId":"evt_1"}'
    assert (await kit.receive(plain, tidings.Webhook(SECRET).sign(plain, id="evt_1"))).status == 204
    assert got[1].body == plain
    challenge = b'{"type":"verification","challenge":"nonce"}'
    answer = await kit.receive(challenge, tidings.Webhook(SECRET).sign(challenge, id="c"))
    assert json.loads(answer.body) == {"challenge": "nonce"}


async def test_a_body_for_another_key_comes_again(hub: tidings.Hub, receiver: Receiver) -> None:
    (mine, _), (other, _) = x25519(), x25519()
    await complete(hub, config(receiver.url, public(mine)), "{}")
    post = receiver.next()
    got: list[Incoming] = []
    assert (await Kit(SECRET, handler=got.append, keys=[other]).receive(post.body, post.headers)).status == 500
    assert (await Kit(SECRET, handler=got.append, keys=[other, mine]).receive(post.body, post.headers)).status == 204
    assert len(got) == 1


@pytest.mark.parametrize("make", [p256, x25519])
def test_we_read_what_another_library_encrypts(make: Any) -> None:
    private, key = make()
    header = {"alg": "ECDH-ES", "enc": "A256GCM", "apu": "QWxpY2U", "apv": "Qm9i"}
    body = jwe.encrypt_compact(header, "é😀".encode(), key, algorithms=ALGORITHMS)
    keys = DecryptionKeys(private)
    assert keys.decrypt(body.encode()) == "é😀".encode()
    with pytest.raises(tidings.WebhookError) as refused:
        # The last character but one, of which every bit counts: it becomes another.
        keys.decrypt((body[:-2] + ("B" if body[-2] == "A" else "A") + body[-1]).encode())
    assert refused.value.code == "jwe_no_key"


def test_keys_are_checked_and_not_shown() -> None:
    private, _ = p256()
    assert private["d"] not in repr(DecryptionKeys(private))
    for bad in ({**private, "crv": "P-384"}, public(private), {}):
        with pytest.raises(tidings.InvalidArgument) as refused:
            DecryptionKeys(bad)
        assert private["d"] not in str(refused.value)
    with pytest.raises(tidings.InvalidArgument):
        DecryptionKeys()


@pytest.mark.parametrize(
    ("key", "member", "rule"),
    [
        ({**PUBLIC, "d": PUBLIC["x"]}, "/d", "key_private"),
        ({**PUBLIC, "crv": "P-384"}, "/crv", "key_curve"),
        ({**PUBLIC, "x": PUBLIC["y"]}, "", "key_point"),
        ({"kty": "oct", "crv": "", "k": "AAAA"}, "/kty", "key_type"),
        ("text", "", "wrong_type"),
    ],
)
async def test_a_bad_key_is_refused_with_its_config(hub: tidings.Hub, key: object, member: str, rule: str) -> None:
    with pytest.raises(tidings.ConfigError) as refused:
        await complete(hub, config("https://example.com/h", key), "{}")
    assert [(fault.path, fault.rule) for fault in refused.value.faults] == [(f"/routes/0/publicKey{member}", rule)]

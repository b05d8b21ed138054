"""Encrypted bodies: made by PyPI's cryptography (OpenSSL), which comes with the SDK; without it the files stay as they are."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from _files import TEXT, RuleFile, array, error, obj, one_of

try:
    from cryptography.hazmat.primitives.asymmetric import ec, x25519
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:  # pragma: no cover - depends on the environment
    AESGCM = None  # type: ignore[assignment, misc]

SELF = "derive/jwe.py"
RFC = "RFC 7516 section 7.1 with RFC 7518 sections 4.6 and 5.3"
RFC_X = "RFC 7516 section 7.1 with RFC 8037 section 3.2"
OWN = "own decision: a message that names a key is for keys of that name"

# RFC 7518 appendix C, and RFC 7748 section 6.1 (RFC 8037 appendix A.6 has the same).
BOB: dict[str, str] = {
    "kty": "EC", "crv": "P-256",
    "x": "weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ", "y": "e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck",
    "d": "VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw",
}  # fmt: skip
ALICE: dict[str, str] = {
    "kty": "EC", "crv": "P-256",
    "x": "gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0", "y": "SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps",
    "d": "0_NxaRPUMQoAJt50Gz8YiTr8gRTwyEaCumd-MToTmIo",
}  # fmt: skip
BOB_X: dict[str, str] = {
    "kty": "OKP", "crv": "X25519", "x": "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08",
    "d": "XasIfmJKikt54X-Lg4AO5m87sSkmGLb9HC-LJ_-I4Os",
}  # fmt: skip
ALICE_X: dict[str, str] = {
    "kty": "OKP", "crv": "X25519", "x": "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo",
    "d": "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo",
}  # fmt: skip
PLAIN = '{"eventId":"evt_1","data":{"n":1.0,"text":"é😀"}}'
NONCE = bytes(range(12))


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def public(key: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in key.items() if name != "d"}


def shared(own: dict[str, str], other: dict[str, str]) -> bytes:
    if own["kty"] == "OKP":
        return x25519.X25519PrivateKey.from_private_bytes(decode(own["d"])).exchange(
            x25519.X25519PublicKey.from_public_bytes(decode(other["x"]))
        )
    x, y = (int.from_bytes(decode(other[name]), "big") for name in ("x", "y"))
    point = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    return ec.derive_private_key(int.from_bytes(decode(own["d"]), "big"), ec.SECP256R1()).exchange(ec.ECDH(), point)


def kdf(z: bytes, algorithm: str, apu: bytes, apv: bytes, bits: int) -> bytes:
    """RFC 7518 section 4.6.2, one round."""
    parts = b"".join(len(part).to_bytes(4, "big") + part for part in (algorithm.encode(), apu, apv))
    digest = hashlib.sha256(b"\0\0\0\1" + z + parts + bits.to_bytes(4, "big")).digest()
    return digest[: bits // 8]


def message(
    to: dict[str, str], by: dict[str, str], plain: str = PLAIN, *, first: Any = None, epk: Any = None, **more: Any
) -> str:
    header = {**(first or {}), "alg": "ECDH-ES", "enc": "A256GCM", **more, "epk": epk or public(by)}
    text = encode(json.dumps(header, separators=(",", ":")).encode())
    apu, apv = (decode(more.get(name, "")) for name in ("apu", "apv"))
    sealed = AESGCM(kdf(shared(by, to), "A256GCM", apu, apv, 256)).encrypt(NONCE, plain.encode(), text.encode())
    return ".".join([text, "", encode(NONCE), encode(sealed[:-16]), encode(sealed[-16:])])


def messages() -> RuleFile:
    file = RuleFile(
        "jwe.decrypt",
        "encryption",
        "What a receiver reads of a body that is encrypted to one of its keys: JWE in its compact form, ECDH-ES with A256GCM.",
        obj({"keys": array(TEXT), "body": TEXT}),
        one_of(obj({"text": TEXT}), error("jwe_malformed", "jwe_unsupported", "jwe_no_key", "invalid_argument")),
        SELF,
    )
    bob, bob_x, alice = json.dumps(BOB), json.dumps(BOB_X), json.dumps(ALICE)
    named = json.dumps({**BOB, "kid": "b1", "use": "enc", "alg": "ECDH-ES", "key_ops": ["deriveBits"]})
    whole = message(BOB, ALICE)
    header, _, nonce, sealed, tag = whole.split(".")
    no_epk = encode(b'{"alg":"ECDH-ES","enc":"A256GCM"}')
    off_curve = {**public(ALICE), "x": public(BOB)["x"]}
    for name, source, keys, body in [
        ("P-256", RFC, [bob], whole),
        ("X25519", RFC_X, [bob_x], message(BOB_X, ALICE_X)),
        ("an empty body", RFC, [bob], message(BOB, ALICE, "")),
        ("one of several keys, on any curve", RFC, [alice, bob_x, bob], whole),
        ("named, and the key has the name", RFC, [alice, named], message(BOB, ALICE, kid="b1")),
        ("named, and the key has none", OWN, [bob], message(BOB, ALICE, kid="b1")),
        ("a name that needs escapes", RFC, [json.dumps({**BOB, "kid": 'k"é'})], message(BOB, ALICE, kid='k"é')),
        ("parties in the header", "RFC 7518 section 4.6.2, PartyUInfo and PartyVInfo", [bob],
         message(BOB, ALICE, apu="QWxpY2U", apv="Qm9i")),
        ("members that are not known", "RFC 7516 section 4: all that is not understood is ignored", [bob],
         message(BOB, ALICE, first={"typ": "JOSE", "x": [1, {"y": None}]}, cty="json")),
    ]:  # fmt: skip
        plain = "" if name == "an empty body" else PLAIN
        file.add(name, source, {"keys": keys, "body": body}, {"text": plain})
    changed = sealed[:-1] + ("A" if sealed[-1] != "A" else "Q")
    for name, source, keys, body, code in [
        ("for another key", RFC, [alice], whole, "jwe_no_key"),
        ("for another curve's key", RFC, [bob_x], whole, "jwe_no_key"),
        ("for a key of another name", OWN, [named], message(BOB, ALICE, kid="b2"), "jwe_no_key"),
        ("changed", RFC, [bob], f"{header}..{nonce}.{changed}.{tag}", "jwe_no_key"),
        ("under another header", "RFC 7516 section 5.2: the header is authenticated", [bob],
         ".".join([encode(decode(header)[:-1] + b',"x":1}'), "", nonce, sealed, tag]), "jwe_no_key"),
        ("a wrapped key", RFC, [bob], message(BOB, ALICE).replace(header, encode(
            json.dumps({"alg": "ECDH-ES+A256KW", "enc": "A256GCM", "epk": public(ALICE)}).encode())), "jwe_unsupported"),
        ("another cipher", RFC, [bob], message(BOB, ALICE).replace(header, encode(
            json.dumps({"alg": "ECDH-ES", "enc": "A128GCM", "epk": public(ALICE)}).encode())), "jwe_unsupported"),
        ("compressed", "RFC 7516 section 4.1.3; own decision: never", [bob], message(BOB, ALICE, zip="DEF"),
         "jwe_unsupported"),
        ("an extension that has to be understood", "RFC 7516 section 4.1.13", [bob],
         message(BOB, ALICE, crit=["exp"], exp=1), "jwe_unsupported"),
        ("no JWE", RFC, [bob], PLAIN, "jwe_malformed"),
        ("nothing", RFC, [bob], "", "jwe_malformed"),
        ("a JWS", "RFC 7516 section 9: five parts", [bob], f"{header}.{sealed}.{tag}", "jwe_malformed"),
        ("six parts", "RFC 7516 section 9", [bob], f"{whole}.", "jwe_malformed"),
        ("padded", "RFC 7515 section 2: base64url without padding", [bob], f"{whole}==", "jwe_malformed"),
        ("a key where there is none to be", "RFC 7518 section 4.5: empty for direct agreement", [bob],
         f"{header}.QUJD.{nonce}.{sealed}.{tag}", "jwe_malformed"),
        ("a nonce of another length", "RFC 7518 section 5.3: 96 bits", [bob],
         f"{header}..AAAA.{sealed}.{tag}", "jwe_malformed"),
        ("a short tag", "RFC 7518 section 5.3: 128 bits", [bob], ".".join([header, "", nonce, sealed, tag[:16]]),
         "jwe_malformed"),
        ("no ephemeral key", "RFC 7518 section 4.6.1.1", [bob], whole.replace(header, no_epk), "jwe_malformed"),
        ("an ephemeral key off the curve", "RFC 7518 section 4.6: an invalid curve attack", [bob],
         message(BOB, ALICE, epk=off_curve), "jwe_malformed"),
        ("an ephemeral key of small order", "RFC 7748 section 6.1", [bob_x],
         message(BOB_X, ALICE_X, epk={**public(ALICE_X), "x": "A" * 43}), "jwe_malformed"),
        ("no private key", "RFC 7518 section 6.2.2", [json.dumps(public(BOB))], whole, "invalid_argument"),
        ("a private key of another public one", "RFC 7518 section 6.2.2", [json.dumps({**BOB, "d": ALICE["d"]})], whole,
         "invalid_argument"),
        ("a key of another type", "RFC 7518 section 6.1", ['{"kty":"oct","k":"AAAA"}'], whole, "invalid_argument"),
        ("no key at all", "own decision: a receiver without keys is misconfigured", [], whole, "invalid_argument"),
    ]:  # fmt: skip
        file.add(name, source, {"keys": keys, "body": body}, {"error": code})
    return file


def files() -> list[RuleFile]:
    return [] if AESGCM is None else [messages()]

"""Signatures and their verification: HMAC by the Python library, checked against PyPI's standardwebhooks where installed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime, timezone
from typing import Any

from _files import BOOL, BYTES, INT, OK, TEXT, RuleFile, array, enum, error, obj, one_of

try:
    from standardwebhooks import Webhook
except ImportError:  # the values are the same without the second opinion
    Webhook = None

SELF = "derive/webhooks.py"
SW = "Standard Webhooks 1.0.0, Signature scheme"
B62 = "field report B62"


def secret_of(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


def raw(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


def as_json(body: str | bytes) -> Any:
    return body if isinstance(body, str) else {"hex": body.hex()}


def signature(key: bytes, message_id: str, timestamp: int | str, body: bytes) -> str:
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def second_opinion(secret: str, message_id: str, timestamp: int, body: bytes, ours: str) -> None:
    if Webhook is None or timestamp < 0:
        return
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return  # it signs text only
    theirs = Webhook(secret).sign(message_id, datetime.fromtimestamp(timestamp, timezone.utc), text)
    assert theirs == ours, (theirs, ours)


PUBLIC = (
    "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
    1649367553,
    '{"email":"test@example.com","username":"test_user"}',
)
PUBLIC_SIGNATURE = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
FIELD = (secret_of(bytes(range(32))), "evt_1", 1767225600, '{"p":1.0}')
FIELD_SIGNATURE = "v1,2MMOzszGbkbmaR4/zB0aW3wW7gxYYNblaCZMOvwIh5w="
K24, K32, K64 = bytes(range(100, 124)), hashlib.sha256(b"new").digest(), hashlib.sha512(b"long").digest()


def sign() -> RuleFile:
    file = RuleFile(
        "webhook.sign",
        "webhook",
        "The webhook-signature header over the bytes of the body, one entry for each secret in order; `timestamp` is in seconds.",
        obj({"secrets": array(TEXT), "id": TEXT, "timestamp": INT, "body": BYTES}),
        obj({"signature": TEXT}),
        SELF,
    )

    def add(name: str, source: str, keys: list[bytes], message_id: str, timestamp: int, body: str | bytes) -> str:
        entries = [signature(key, message_id, timestamp, raw(body)) for key in keys]
        for key, entry in zip(keys, entries, strict=True):
            second_opinion(secret_of(key), message_id, timestamp, raw(body), entry)
        out = " ".join(entries)
        given = {
            "secrets": [secret_of(key) for key in keys],
            "id": message_id,
            "timestamp": timestamp,
            "body": as_json(body),
        }
        file.add(name, source, given, {"signature": out})
        return out

    key = base64.b64decode(PUBLIC[0].removeprefix("whsec_"))
    assert add("the public vector", "Standard Webhooks libraries' own test", [key], *PUBLIC[1:]) == PUBLIC_SIGNATURE
    assert add("the field report's", B62, [bytes(range(32))], *FIELD[1:]) == FIELD_SIGNATURE
    add("a secret of 24 bytes", SW, [K24], "evt_a", 1, "{}")
    add(
        "a secret of 64 bytes, the block of SHA-256",
        "RFC 2104 2: a key of the block's length is used as it is",
        [K64],
        "evt_a",
        1,
        "{}",
    )
    add(
        "two secrets during a rotation, the new one first",
        SW + "; " + B62,
        [K32, K24],
        "evt_a",
        1_767_225_600,
        '{"a":1}',
    )
    add("the same two, the old one first", SW, [K24, K32], "evt_a", 1_767_225_600, '{"a":1}')
    add("three secrets", SW, [K24, K32, K64], "evt_a", 1_767_225_600, '{"a":1}')
    add("an empty body", SW, [K32], "evt_a", 1_767_225_600, "")
    add("a body that is not UTF-8", "Standard Webhooks: the raw body", [K32], "evt_a", 1_767_225_600, b"\xff\x00\xfe{}")
    add(
        "numbers stay as written (field report B61)",
        "field report B61",
        [K32],
        "evt_a",
        1_767_225_600,
        '{"n":[1.0,9007199254740993,1E2,-0]}',
    )
    add(
        "U+2028 and a lone surrogate's escape",
        "field report B61; raw bytes",
        [K32],
        "evt_a",
        1_767_225_600,
        '{"t":"\u2028","s":"\\ud800"}',
    )
    add("a body with dots", SW, [K32], "evt_a", 1_767_225_600, "1.2.3")
    add(
        "another time, another signature",
        SW + ": each attempt has its own timestamp",
        [K32],
        "evt_a",
        1_767_225_601,
        '{"a":1}',
    )
    add("the last second of the year 9999", SW, [K32], "evt_a", 253_402_300_799, "{}")
    add(
        "a trailing line break is a byte of the body",
        "Standard Webhooks: the raw body",
        [K32],
        "evt_a",
        1_767_225_600,
        '{"a":1}\n',
    )
    return file


def verify() -> RuleFile:
    file = RuleFile(
        "webhook.verify",
        "webhook",
        "What a receiver says of a request: any v1 signature may match any secret. `now` and `tolerance` are in seconds; "
        "without a tolerance it is the default, five minutes.",
        obj({"secrets": array(TEXT), "headers": array(array(TEXT)), "body": BYTES, "now": INT}, {"tolerance": INT}),
        one_of(
            OK,
            error(
                "missing_header",
                "repeated_header",
                "message_id",
                "timestamp",
                "too_old",
                "too_new",
                "signature_header_too_long",
                "no_signature",
                "mismatch",
            ),
        ),
        SELF,
    )
    secret, message_id, sent, body = FIELD
    key = bytes(range(32))
    good = signature(key, message_id, sent, raw(body))
    other = signature(K24, message_id, sent, raw(body))

    def add(
        name: str,
        source: str,
        want: str,
        *,
        secrets: list[str] | None = None,
        headers: list[list[str]] | None = None,
        ident: str = message_id,
        timestamp: str = str(sent),
        signatures: Any = good,
        body: Any = body,
        now: int = sent,
        tolerance: int | None = None,
    ) -> None:
        if headers is None:
            headers = [["webhook-id", ident], ["webhook-timestamp", timestamp], ["webhook-signature", signatures]]
        given = {"secrets": [secret] if secrets is None else secrets, "headers": headers, "body": body, "now": now}
        if tolerance is not None:
            given["tolerance"] = tolerance
        file.add(name, source, given, {"ok": True} if want == "ok" else {"error": want})

    add("the field report's", B62, "ok")
    headers = [
        ["webhook-id", PUBLIC[1]],
        ["webhook-timestamp", str(PUBLIC[2])],
        ["webhook-signature", PUBLIC_SIGNATURE],
    ]
    add(
        "the public vector",
        "Standard Webhooks libraries' own test",
        "ok",
        secrets=[PUBLIC[0]],
        headers=headers,
        body=PUBLIC[3],
        now=PUBLIC[2],
    )
    add(
        "a secret without its prefix",
        B62 + ": the first two give the same key",
        "ok",
        secrets=[secret.removeprefix("whsec_")],
    )
    add("a secret without padding", B62, "ok", secrets=[secret.rstrip("=")])
    rotation = "Standard Webhooks, rotation: the receiver accepts any match"
    add("the sender rotates: the old entry first", rotation, "ok", signatures=f"{other} {good}")
    add("the sender rotates: the new entry first", rotation, "ok", signatures=f"{good} {other}")
    add("the receiver rotates: the second secret matches", rotation, "ok", secrets=[secret_of(K32), secret])
    add("both rotate and share one", rotation, "ok", secrets=[secret_of(K32), secret], signatures=f"{other} {good}")
    add("none matches", SW, "mismatch", secrets=[secret_of(K32), secret_of(K64)], signatures=f"{other} {good}")
    add(
        "entries of other versions are skipped",
        "Standard Webhooks: v1a is ed25519",
        "ok",
        signatures=f"v1a,AAAA {good} v2,zzzz",
    )
    add("only other versions", "Standard Webhooks: v1a is ed25519", "no_signature", signatures="v1a,AAAA v2,zzzz")
    add("a signature without its version", SW, "no_signature", signatures=good.removeprefix("v1,"))
    add(
        "the right bytes under another version do not count",
        SW,
        "no_signature",
        signatures="v1a," + good.removeprefix("v1,"),
    )
    add("upper-case version", SW, "no_signature", signatures="V1," + good.removeprefix("v1,"))
    add("entries joined by a comma, not a blank", SW + ": space delimited", "mismatch", signatures=f"{good},{other}")
    add("several blanks between entries", "own decision: lenient in blanks", "ok", signatures=f"{other}   {good}")
    add("an empty v1 entry", SW, "mismatch", signatures="v1,")
    add("a cut signature", SW, "mismatch", signatures=good[:-1])
    add("a longer signature", SW, "mismatch", signatures=good + "=")
    add(
        "the signature in the URL-safe alphabet",
        "own decision: one spelling",
        "mismatch",
        signatures="v1," + good.removeprefix("v1,").replace("+", "-").replace("/", "_"),
    )
    add(
        "lower-case names",
        "RFC 9110 5.1: names do not depend on case",
        "ok",
        headers=[["Webhook-ID", message_id], ["WEBHOOK-TIMESTAMP", str(sent)], ["wEbHoOk-SiGnAtUrE", good]],
    )
    add(
        "among other headers",
        SW,
        "ok",
        headers=[
            ["content-type", "application/json"],
            ["webhook-signature", good],
            ["x-a", "1"],
            ["webhook-timestamp", str(sent)],
            ["webhook-id", message_id],
        ],
    )
    add(
        "blanks around values",
        "RFC 9110 5.5",
        "ok",
        headers=[
            ["webhook-id", f" {message_id}\t"],
            ["webhook-timestamp", f" {sent} "],
            ["webhook-signature", f"\t{good} "],
        ],
    )
    for missing in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        all_headers = [["webhook-id", message_id], ["webhook-timestamp", str(sent)], ["webhook-signature", good]]
        add(f"no {missing}", SW, "missing_header", headers=[header for header in all_headers if header[0] != missing])
        add(
            f"an empty {missing}",
            SW,
            "missing_header",
            headers=[[name, "" if name == missing else value] for name, value in all_headers],
        )
    twice = "own decision: it is unclear which one was signed"
    add("a header twice in different case", twice, "repeated_header", headers=[*all_headers, ["Webhook-Id", "evt_2"]])
    changed = "RFC 2104: a change of any signed byte"
    add("another body", changed, "mismatch", body='{"p":1}')
    add("a body with a line break more", changed, "mismatch", body=body + "\n")
    add("an empty body", changed, "mismatch", body="")
    add("another id", changed, "mismatch", ident="evt_2")
    add("another timestamp", changed, "mismatch", timestamp=str(sent + 1))
    tolerance = "Standard Webhooks: timestamp within tolerance; its libraries use five minutes both ways"
    add("five minutes old", tolerance, "ok", now=sent + 300)
    add("a second older", tolerance, "too_old", now=sent + 301)
    add("five minutes ahead", tolerance, "ok", now=sent - 300)
    add("a second further ahead", tolerance, "too_new", now=sent - 301)
    add("a tolerance of zero, at the moment", tolerance, "ok", tolerance=0)
    add("a tolerance of zero, a second later", tolerance, "too_old", tolerance=0, now=sent + 1)
    add("a day of tolerance", tolerance, "ok", tolerance=86_400, now=sent + 86_400)
    add(
        "too old wins over a wrong signature",
        "own decision: the cheap check comes first",
        "too_old",
        signatures=other,
        now=sent + 301,
    )
    stamp = "Standard Webhooks: integer Unix seconds; own decision: one spelling, as the text is signed"
    for name, text in {
        "milliseconds are far in the future": "1767225600000",
        "a fraction": "1767225600.0",
        "a leading zero": "01767225600",
        "a plus sign": "+1767225600",
        "a minus sign": "-1767225600",
        "an exponent": "17e8",
        "hexadecimal": "0x69",
        "a date": "2026-01-01T00:00:00Z",
        "more digits than 64 bits": "9" * 25,
        "Arabic-Indic digits": "١٧٦٧",
        "a word": "now",
        "a blank inside": "17672 25600",
    }.items():
        add(f"timestamp: {name}", stamp, "too_new" if "milliseconds" in name else "timestamp", timestamp=text)
    ident = "Standard Webhooks: no dot in the id; RFC 9110 5.5"
    add("an id with a dot", ident, "message_id", ident="evt.1")
    add("an id with a blank inside", ident, "message_id", ident="evt 1")
    add("an id that is not ASCII", ident, "message_id", ident="evt_é")
    add("an id of 257 bytes", "own decision: 256 bytes", "message_id", ident={"$repeat": "a", "$times": 257})
    shifted = f"{message_id}.{sent}"
    add(
        "a dot moved from the timestamp to the id",
        "Standard Webhooks: the separator must not be ambiguous",
        "message_id",
        ident=shifted,
        timestamp=str(sent),
    )
    add(
        "a header of 8 KiB and a byte",
        "own decision: bounded work",
        "signature_header_too_long",
        signatures={"$concat": [{"$repeat": "v1,a ", "$times": 1638}, "abc"]},
    )
    add(
        "many entries, the last one matches",
        "own decision: bounded work",
        "ok",
        signatures={"$concat": [{"$repeat": "v1,a ", "$times": 1600}, good]},
    )
    return file


def repeated() -> RuleFile:
    file = RuleFile(
        "webhook.repeated",
        "rules",
        "The same for headers that come twice under one name, where a surface can tell.",
        obj({"secrets": array(TEXT), "headers": array(array(TEXT)), "body": BYTES, "now": INT}),
        error("repeated_header"),
        SELF,
    )
    secret, message_id, sent, body = FIELD
    good = signature(bytes(range(32)), message_id, sent, raw(body))
    headers = [["webhook-id", message_id], ["webhook-timestamp", str(sent)], ["webhook-signature", good]]
    for again in headers:
        for name, extra in (("the same", again), ("another value", [again[0], "evt_2"])):
            given = {"secrets": [secret], "headers": [*headers, extra], "body": body, "now": sent}
            file.add(
                f"{again[0]} twice, {name}",
                "own decision: it is unclear which one was signed",
                given,
                {"error": "repeated_header"},
            )
    return file


def no_secret() -> RuleFile:
    file = RuleFile(
        "webhook.no_secret",
        "rules",
        "A sender without a secret signs nothing; a receiver without one trusts nothing.",
        obj({"side": enum("sender", "receiver")}),
        one_of(obj({"signature": TEXT}), error("no_secret")),
        SELF,
    )
    file.add(
        "the sender",
        "DESIGN section 6: a route without a secret is sent unsigned",
        {"side": "sender"},
        {"signature": ""},
    )
    file.add("the receiver", "own decision: never trust unchecked", {"side": "receiver"}, {"error": "no_secret"})
    return file


def secrets() -> RuleFile:
    file = RuleFile(
        "webhook.secret",
        "rules",
        "The key of a signing secret, in hexadecimal. `lenient`: as a receiver reads it, where the prefix may be missing.",
        obj({"text": TEXT, "lenient": BOOL}),
        one_of(obj({"hex": TEXT}), error("secret_prefix", "secret_url_safe", "secret_base64", "secret_length")),
        SELF,
    )
    fmt = "Standard Webhooks: whsec_ and base64; SEP-3415: of 24 to 64 bytes"

    def good(name: str, text: str, key: bytes, source: str = fmt, lenient: tuple[bool, ...] = (False, True)) -> None:
        for mode in lenient:
            file.add(
                f"{name}{', lenient' if mode else ''}", source, {"text": text, "lenient": mode}, {"hex": key.hex()}
            )

    def bad(name: str, text: Any, code: str, source: str = fmt, lenient: tuple[bool, ...] = (False, True)) -> None:
        for mode in lenient:
            file.add(f"{name}{', lenient' if mode else ''}", source, {"text": text, "lenient": mode}, {"error": code})

    good("the field report's", FIELD[0], bytes(range(32)), B62)
    good("without its prefix", FIELD[0].removeprefix("whsec_"), bytes(range(32)), B62, (True,))
    bad(
        "without its prefix",
        FIELD[0].removeprefix("whsec_"),
        "secret_prefix",
        B62 + "; DESIGN: whsec_ is required in a config",
        (False,),
    )
    good("without padding", FIELD[0].rstrip("="), bytes(range(32)), B62)
    good("24 bytes", secret_of(K24), K24)
    good("64 bytes", secret_of(K64), K64)
    bytes25 = bytes(range(25))
    good("25 bytes, two characters of padding", secret_of(bytes25), bytes25)
    good("25 bytes without padding", secret_of(bytes25).rstrip("="), bytes25)
    good("all bytes 255", secret_of(b"\xff" * 32), b"\xff" * 32)
    bad("23 bytes", secret_of(bytes(23)), "secret_length", B62)
    bad("65 bytes", secret_of(bytes(65)), "secret_length", B62)
    bad("the prefix alone", "whsec_", "secret_length", B62)
    bad(
        "10,000 characters",
        {"$concat": ["whsec_", {"$repeat": "A", "$times": 10_000}]},
        "secret_length",
        "own decision: bounded work",
    )
    bad("empty", "", "secret_prefix", B62, (False,))
    bad("empty", "", "secret_length", B62, (True,))
    url_safe = "whsec_" + base64.urlsafe_b64encode(b"\xff\xfe" * 15).decode()
    assert "-" in url_safe.removeprefix("whsec_") or "_" in url_safe.removeprefix("whsec_")
    bad("the URL-safe alphabet", url_safe, "secret_url_safe", B62 + ": one documented answer")
    bad("upper-case prefix", FIELD[0].replace("whsec_", "WHSEC_"), "secret_prefix", fmt, (False,))
    bad("a public key's prefix", FIELD[0].replace("whsec_", "whpk_"), "secret_prefix", fmt, (False,))
    base = FIELD[0].removeprefix("whsec_")
    bad("a blank inside", f"whsec_{base[:8]} {base[9:]}", "secret_base64")
    bad("a line break behind", FIELD[0] + "\n", "secret_base64")
    bad("a blank before", " " + FIELD[0], "secret_prefix", fmt, (False,))
    bad("not ASCII", f"whsec_{base[:-2]}é", "secret_base64")
    bad("padding in the middle", f"whsec_{base[:8]}={base[9:]}", "secret_base64")
    bad("too much padding", FIELD[0] + "=", "secret_base64")
    bad("one character left over, which base64 cannot have", "whsec_" + "A" * 33, "secret_base64", "RFC 4648 4")
    bad(
        "left-over bits that are not zero",
        "whsec_" + base64.b64encode(bytes(25)).decode()[:-3] + "B==",
        "secret_base64",
        "RFC 4648 3.5",
    )
    bad("a percent escape", "whsec_" + base[:-3] + "%3D", "secret_base64")
    return file


def files() -> list[RuleFile]:
    return [sign(), verify(), repeated(), no_secret(), secrets()]

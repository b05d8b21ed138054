"""Lines of an exported stream: JSON from Python's own writer, payloads spliced by hand."""

from __future__ import annotations

import base64
import json

from _files import INT, TEXT, RuleFile, obj

SELF = "derive/lines.py"
SHAPE = "own decision: the members and their order; RFC 8259 section 2 for white space"
BYTES = obj({"hex": TEXT})


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def member(name: str, raw: bytes) -> str:
    """The text as it is where it is JSON, with its line breaks as spaces; else base64."""
    try:
        text = raw.decode("utf-8", "strict")
        json.loads(text, parse_constant=lambda constant: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return f"{compact(name + 'Bytes')}:{compact(base64.b64encode(raw).decode())}"
    return f"{compact(name)}:{text.translate({10: 32, 13: 32})}"


def files() -> list[RuleFile]:
    event = RuleFile(
        "stream.line",
        "rules",
        "An event as a line of an exported stream, without its line break. `identity` and `payload` are bytes in hexadecimal.",
        obj({"seq": INT, "type": TEXT, "time": INT, "payload": BYTES}, {"identity": BYTES}),
        obj({"line": TEXT}),
        SELF,
    )
    cases: list[tuple[str, int, str, int, bytes | None, bytes]] = [
        ("a number keeps its form", 0, "message", 1767225600000, None, b"1.0"),
        ("the largest number", 2**53 - 1, "message", 0, None, b"9007199254740993"),
        ("before 1970", 1, "message", -1, None, b"null"),
        ("an escaped lone surrogate", 2, "message", 0, None, rb'"\ud800"'),
        ("U+2028 is no line break of JSON Lines", 3, "message", 0, None, '"\u2028"'.encode()),
        ("a type is written as JSON", 4, 'a"b\\c', 0, None, b"{}"),
        ("a type with a control character", 5, "a\nb", 0, None, b"{}"),
        ("members and their order", 6, "io.tidings.progress", 5, b'{"task":"t"}', b'{"b":1,"a":2}'),
        ("line breaks between tokens", 7, "message", 0, b'{\n"task":"t"\r\n}', b'[\n  1,\r\n  "\\n"\n]\n'),
        ("a duplicate name stays", 8, "message", 0, None, b'{"a":1,"a":2}'),
        ("no bytes", 9, "message", 0, None, b""),
        ("not UTF-8", 10, "message", 0, None, b"\xff\xfe"),
        ("two values", 11, "message", 0, None, b"1 2"),
        ("half a value", 12, "message", 0, None, b'{"a":'),
        ("a line break within a string", 13, "message", 0, None, b'"\n"'),
        ("NaN is no JSON", 14, "message", 0, None, b"NaN"),
        ("an identity that is no JSON", 15, "message", 0, b"t", b"1"),
    ]
    for name, seq, kind, time, identity, payload in cases:
        given: dict[str, object] = {"seq": seq, "type": kind, "time": time}
        parts = [f'"seq":{seq}', f'"type":{compact(kind)}', f'"time":{time}']
        if identity is not None:
            given["identity"] = {"hex": identity.hex()}
            parts.append(member("identity", identity))
        given["payload"] = {"hex": payload.hex()}
        parts.append(member("payload", payload))
        event.add(name, SHAPE, given, {"line": "{" + ",".join(parts) + "}"})
    return [event]

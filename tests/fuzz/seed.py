#!/usr/bin/env python3
"""Makes the seeds of the fuzz corpus out of the vectors: one input for each, in the form that its target takes.

    python3 tests/fuzz/seed.py

Names begin with `vector-`; what a fuzzer found begins with `found-` and is left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RULES = HERE.parent / "vectors" / "rules"
MOST = 48
"""Inputs of each target: they are there to begin with, the vectors themselves run elsewhere."""


def vectors(rule: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RULES / f"{rule}.json").read_text())["vectors"]
    return found


def raw(value: Any) -> bytes:
    """Bytes are a text or hexadecimal digits."""
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else str(value).encode()


def lines(*parts: bytes) -> bytes:
    """All but the last without line breaks: a target splits at the first ones."""
    *first, last = parts
    return b"\n".join([*(part.replace(b"\n", b" ") for part in first), last])


def cursor() -> Iterator[bytes]:
    for vector in vectors("cursor_parse"):
        yield raw(vector["in"]["text"])
    for vector in vectors("cursor_text"):
        yield raw(vector["out"]["text"])


def config() -> Iterator[bytes]:
    for vector in vectors("config_check"):
        given = vector["in"]["config"]
        # A dict says how to build one that is too large for a corpus.
        if not isinstance(given, dict) or "hex" in given:
            yield raw(given)


def condition() -> Iterator[bytes]:
    for vector in vectors("condition_hold"):
        yield lines(raw(vector["in"]["when"]), raw(vector["in"]["document"]))


def signature() -> Iterator[bytes]:
    for vector in vectors("webhook_sign"):
        given = vector["in"]
        stamp = str(given["timestamp"]).encode()
        yield lines(raw(given["id"]), stamp, raw(vector["out"]["signature"]), raw(given["body"]))
    for header in ("v1,@0", "v1,@1", "v1a,@0 v1,@1", "v1,@0 v1,@1", " v1,@0\t", "V1,@0", "v1,@0=", "v1,,@0", "v1,"):
        for stamp in ("1767225600", "1767225900", "1767225901", "1767225300", "01767225600", "-1"):
            yield lines(b"evt_1", stamp.encode(), header.encode(), b'{"p":1.0}')


def event() -> Iterator[bytes]:
    for vector in vectors("stream_line"):
        yield lines(b"com.example.step", b"a /b/0", raw(vector["in"]["payload"]))
    for vector in vectors("redact_bytes"):
        entries = " ".join(vector["in"]["redact"]).encode()
        yield lines(b"com.example.step", entries, raw(vector["in"]["text"]))


def sse() -> Iterator[bytes]:
    for vector in vectors("fanout_frames"):
        given = vector["in"]
        name, state = given.get("name", "file:///a"), given.get("state", '{"taskId":"t","_meta":{"a":1}}')
        yield lines(raw(given.get("listener", '"l"')), raw(name), b"step 1", raw(state))
    for state in ("{}", "{ \r\n }", '{\r"taskId":\n"t"\r\n}', '{"a":"\\n"}', '{"_meta":{}}', '{"_meta":null,"b":[]}'):
        yield lines(b"1", b"x:/\r\0\xe2\x80\xa8", b"data: x", state.encode())


def store() -> Iterator[bytes]:
    """Each kind of damage at a few places of each file."""
    for file in (0, 2, 3):
        for what in range(8):
            for high in (0, 64, 200):
                yield bytes([file, high, 7, what, 0xA5])


def main() -> None:
    for make in (condition, config, cursor, event, signature, sse, store):
        folder = HERE / "corpus" / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("vector-*"):
            old.unlink()
        every = list(dict.fromkeys(make()))
        # Evenly from all of them.
        for index in range(0, len(every), -(-len(every) // MOST)):
            name = hashlib.sha256(every[index]).hexdigest()[:12]
            (folder / f"vector-{name}").write_bytes(every[index])


if __name__ == "__main__":
    main()

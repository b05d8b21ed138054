"""The corpus through the adapter that writes the fields of an event stream: what a client reads is what was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tidings.mcp._resume import _frame

CORPUS = Path(__file__).resolve().parent / "corpus"
CURSOR = "0000000000000000000000000z.1.2.3"


def read(stream: bytes) -> list[tuple[str, str, str]]:
    """Id, type and data of each event: WHATWG HTML, section 9.2.6, "Interpreting an event stream"."""
    told: list[tuple[str, str, str]] = []
    last_id, kind, data = "", "", ""
    # Not `splitlines`, to which more than CR and LF ends a line.
    for line in stream.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line == "":
            if data:
                told.append((last_id, kind or "message", data.removesuffix("\n")))
            kind, data = "", ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            kind = value
        elif field == "data":
            data += value + "\n"
        elif field == "id" and "\0" not in value:
            last_id = value
    return told


def no_json(constant: str) -> None:
    """Python reads NaN, which is no JSON."""
    raise ValueError(constant)


def payloads(target: str) -> list[bytes]:
    """What stands after the lines of an input, where it is JSON text."""
    found = []
    for file in sorted((CORPUS / target).iterdir()):
        *_, payload = file.read_bytes().split(b"\n", {"sse": 3, "event": 2}[target])
        try:
            json.loads(payload.decode(), parse_constant=no_json)
        except (ValueError, RecursionError):
            continue
        found.append(payload)
    return found


@pytest.mark.parametrize("target", ["sse", "event"])
def test_one_event_and_the_same_json(target: str) -> None:
    found = payloads(target)
    assert len(found) > 10
    for payload in found:
        # As it is, and with every line break that JSON allows between its tokens.
        for written in (payload, b"\r\n" + payload + b"\r", b"\n\n" + payload + b"\r\r\n"):
            [(last_id, kind, data)] = read(_frame(CURSOR, written))
            assert (last_id, kind) == (CURSOR, "message")
            assert json.loads(data) == json.loads(payload), payload

"""Requests with several firings, and watermarks."""

from __future__ import annotations

import hashlib
import re

from _files import INT, TEXT, RuleFile, array, obj
from ids_and_cursors import digits

SELF = "derive/batches.py"
DESIGN = "DESIGN section 6, optional batching; own decision: an object with one member, bodies as they are"
SAME_ID = (
    "DESIGN section 6: same webhook-id on every attempt; own decision: it follows from the firings and their order"
)
WATERMARK = (
    "SEP-3415 1.4: the cursor of a webhook's body is a safe-to-persist watermark; own decision: lowered, never raised"
)


def body_of(bodies: list[str]) -> str:
    return '{"events":[' + ",".join(bodies) + "]}"


def id_of(event_ids: list[str]) -> str:
    digest = hashlib.sha256("".join(f"{event_id}\n" for event_id in event_ids).encode()).digest()
    return "bat_" + digits(int.from_bytes(digest[:16], "big"))


def batches() -> RuleFile:
    file = RuleFile(
        "batch.bytes",
        "rules",
        "The request for several firings in the order in which they fired: its body, and its `webhook-id`.",
        obj({"bodies": array(TEXT), "eventIds": array(TEXT)}),
        obj({"text": TEXT, "id": TEXT}),
        SELF,
    )
    first, second = "evt_0000000000000000000000000e", "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz"
    for name, source, entries in [
        ("two firings", DESIGN, [(first, '{"eventId":"a","n":1.0}'), (second, '{"eventId":"b","n": 2}')]),
        ("one firing has the same form", DESIGN, [(first, '{"eventId":"a"}')]),
        ("another order is another request", SAME_ID, [(second, '{"eventId":"b"}'), (first, '{"eventId":"a"}')]),
        ("bytes beyond ASCII stay", DESIGN, [(first, '{"x":"é\\u00e9 \\ud83d\\ude00"}'), (second, "{}")]),
    ]:
        ids, bodies = [event_id for event_id, _ in entries], [body for _, body in entries]
        file.add(name, source, {"bodies": bodies, "eventIds": ids}, {"text": body_of(bodies), "id": id_of(ids)})
    return file


CURSOR = re.compile(r'(.*,"cursor":"[0-9a-z]{26}\.[0-9]+\.[0-9]+\.)([0-9]+)("})', re.DOTALL)


def watermarks() -> RuleFile:
    file = RuleFile(
        "cursor.lowered",
        "rules",
        "A body whose cursor is not beyond `next`, the first event that may be undelivered. Nothing else of it changes.",
        obj({"body": TEXT, "next": INT}),
        obj({"body": TEXT}),
        SELF,
    )
    place = "61y2gv774yaxt8vy4t49k4sr2v.1.1."
    whole = '{"eventId":"e","data":{"cursor":"' + place + '40"},"cursor":"' + place + '40"}'
    for name, body, following in [
        ("an earlier event is undelivered", whole, 7),
        ("the very first is", whole, 0),
        ("nothing before it is", whole, 40),
        ("what comes later does not count", whole, 41),
        ("fewer digits", whole, 9),
        ("no cursor", '{"eventId":"e","data":{}}', 0),
        ("a cursor in the data only", '{"data":{"cursor":"' + place + '40"}}', 0),
        ("a cursor of somebody else", '{"data":{},"cursor":"abc"}', 0),
    ]:
        found = CURSOR.fullmatch(body)
        lowered = body
        if found and following < int(found[2]):
            lowered = f"{found[1]}{following}{found[3]}"
        file.add(name, WATERMARK, {"body": body, "next": following}, {"body": lowered})
    return file


def files() -> list[RuleFile]:
    return [batches(), watermarks()]

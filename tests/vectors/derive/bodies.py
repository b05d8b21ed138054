"""Bytes told of a call: Python's json writes the strings and numbers, and payloads are spliced as text."""

from __future__ import annotations

import json
from typing import Any

from _files import INT, MAYBE_INT, MAYBE_TEXT, TEXT, RuleFile, array, enum, obj, one_of

SELF = "derive/bodies.py"
DESIGN = "DESIGN section 8, webhook body; own decision: members in this order"
CALL, EVENT = "call_000000000000000000000000ca", "evt_0000000000000000000000000e"
CURSOR = "61y2gv774yaxt8vy4t49k4sr2v.1.1.8"


def text(value: Any) -> str:
    """Compact JSON with the characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def members(pairs: list[tuple[str, str | None]]) -> str:
    return "{" + ",".join(f"{text(name)}:{value}" for name, value in pairs if value is not None) + "}"


def maybe(value: Any) -> str | None:
    return None if value is None else text(value)


TIMES = {1_796_064_056_123: "2026-11-30T18:40:56.123Z", 0: "1970-01-01T00:00:00.000Z"}


OUTCOMES = ("completed", "failed", "timeout", "cancelled")
RAW = ("payload", "group")
"""Members whose values are raw JSON text."""


def webhook(given: dict[str, Any]) -> str:
    """The whole body, whatever its size."""
    ended = given["ended"]
    outcome = None
    if ended is not None:
        outcome = members(
            [
                ("status", text(ended["outcome"])),
                ("reason", maybe(ended["reason"])),
                ("result", ended.get("result")),
                ("error", ended.get("error")),
            ]
        )
    data = members(
        [
            ("callId", text(given["callId"])),
            ("requestId", given["requestId"]),
            ("tool", text(given["tool"])),
            ("route", text(given["route"])),
            ("trigger", text(given["trigger"])),
            ("outcome", outcome),
            *((name, value if name in RAW else text(value)) for name, value in given.get("detail", {}).items()),
            ("taskId", maybe((given["task"] or {}).get("id"))),
            ("taskStatus", maybe((given["task"] or {}).get("status"))),
            ("seq", maybe(given["seq"])),
        ]
    )
    name = {"elapsedMs": "elapsed", "everyMs": "every"}.get(given["trigger"], given["trigger"])
    name = name.removeprefix("io.tidings/")
    known = name in (*OUTCOMES, "streaming", "disconnected", "elapsed", "every", "group")
    if '"met":false' in given.get("detail", {}).get("group", ""):
        name = "group_unmet"
    return members(
        [
            ("eventId", text(given["eventId"])),
            ("name", text(f"tool_call.{name}" if known else given["trigger"])),
            ("timestamp", text(TIMES[given["unixMs"]])),
            ("data", data),
            ("cursor", maybe(given["cursor"])),
        ]
    )


def cut(given: dict[str, Any]) -> str:
    """The form whose payload is replaced by how long it was and where it can be had."""
    ended = dict(given["ended"])
    member = "result" if "result" in ended else "error"
    ended[member] = members(
        [
            ("truncated", "true"),
            ("bytes", text(len(ended[member].encode()))),
            ("taskId", maybe((given["task"] or {}).get("id"))),
            ("cursor", maybe(given["cursor"])),
        ]
    )
    return webhook({**given, "ended": ended})


ENDED = one_of(
    {"type": "null"},
    obj(
        {"outcome": enum("completed", "failed", "cancelled", "timeout"), "reason": MAYBE_TEXT},
        {"result": TEXT, "error": TEXT},
    ),
)
SHAPE = {
    "eventId": TEXT,
    "trigger": TEXT,
    "unixMs": INT,
    "callId": TEXT,
    "requestId": TEXT,
    "tool": TEXT,
    "route": TEXT,
    "ended": ENDED,
    "task": one_of({"type": "null"}, obj({"id": TEXT, "status": TEXT})),
    "seq": MAYBE_INT,
    "cursor": MAYBE_TEXT,
    "maxBody": INT,
}


DETAIL = one_of(
    obj({"payload": TEXT}), obj({"elapsedMs": INT}), obj({"everyMs": INT, "count": INT}), obj({"group": TEXT})
)


def bodies() -> RuleFile:
    file = RuleFile(
        "body.bytes",
        "rules",
        "The bytes of a webhook body for one route. `requestId`, `result` and `error` are raw JSON text; `maxBody` is in bytes.",
        obj(SHAPE, {"detail": DETAIL, "redact": array(TEXT)}),
        obj({"text": TEXT}),
        SELF,
    )

    def add(name: str, source: str, /, payload: str | None = '{"content":[]}', **change: Any) -> None:
        ended = {"outcome": "completed", "reason": None}
        if payload is not None:
            ended["result"] = payload
        given = {
            "eventId": EVENT,
            "trigger": "completed",
            "unixMs": 1_796_064_056_123,
            "callId": CALL,
            "requestId": "7",
            "tool": "analyse",
            "route": "primary",
            "ended": ended,
            "task": None,
            "seq": 7,
            "cursor": CURSOR,
            "maxBody": 262_144,
            **change,
        }
        whole = webhook(given)
        over = len(whole.encode()) > given["maxBody"]
        has_payload = given["ended"] is not None and ("result" in given["ended"] or "error" in given["ended"])
        file.add(name, source, given, {"text": cut(given) if over and has_payload else whole})

    def ended(outcome: str, reason: str | None = None, **payload: str) -> dict[str, Any]:
        return {"outcome": outcome, "reason": reason, **payload}

    add("completed", DESIGN)
    add(
        "a failed result",
        DESIGN + "; SEP-992: completed means successfully",
        trigger="failed",
        ended=ended("failed", result='{"isError":true,"content":[]}'),
    )
    add("a JSON-RPC error", DESIGN, trigger="failed", ended=ended("failed", error='{"code":-32603,"message":"x"}'))
    add("server_lost has no payload", DESIGN + " and section 5", trigger="failed", ended=ended("failed", "server_lost"))
    add("shutdown", DESIGN + " and section 5", trigger="failed", ended=ended("failed", "shutdown"))
    add("timeout", DESIGN, trigger="timeout", ended=ended("timeout"))
    add("cancelled", DESIGN, trigger="cancelled", ended=ended("cancelled"))
    add("cancelled, with its reason", DESIGN, trigger="cancelled", ended=ended("cancelled", "disconnected"))
    add("streaming: the call goes on", DESIGN, trigger="streaming", ended=None)
    add("disconnected: the call goes on", DESIGN, trigger="io.tidings/disconnected", ended=None, seq=3)
    add(
        "a vendor's trigger keeps its name",
        DESIGN + "; section 5: vendor names",
        trigger="com.example/done",
        ended=None,
        seq=None,
        cursor=None,
    )
    add("without seq and cursor", DESIGN, seq=None, cursor=None)
    add("seq 0", DESIGN, seq=0)
    add("the epoch", DESIGN, unixMs=0)
    task = {"id": "task-1", "status": "completed"}
    add("as a task", DESIGN, task=task)
    add(
        "as a task: an error result is failed here and completed there",
        "DESIGN section 5: the webhook carries both",
        task=task,
        trigger="failed",
        ended=ended("failed", result='{"isError":true}'),
    )
    kept = "DESIGN section 8: ids keep their JSON type; field report B51"
    add("request id: a string", kept, requestId='"req-9"')
    add("request id: the string 7", kept, requestId='"7"')
    add("request id: zero", kept, requestId="0")
    add("request id: the empty string", kept, requestId='""')
    add("request id: an integer that no double holds", kept, requestId="9007199254740993")
    add("request id: negative", kept, requestId="-1")
    bytes_kept = "DESIGN section 2: payload bytes are never re-serialised; field report B61"
    add(
        "numbers as written",
        bytes_kept,
        '{"n":[1.0,9007199254740993,18446744073709551615,123456789012345678901234567890,1e400,1E2,-0,0.1]}',
    )
    add("blanks and order as written", bytes_kept, '{ "b" : 1,\t"a":\n2 }')
    add("a member twice as written", bytes_kept, '{"a":1,"a":2}')
    add("U+2028 as written", bytes_kept, '{"t":"\u2028"}')
    add("escapes as written", bytes_kept, '{"t":"\\u00e9\\/\\ud83d\\ude00"}')
    add("a lone surrogate's escape as written", bytes_kept, '{"t":"\\ud800"}')
    add("characters beyond the basic plane as written", bytes_kept, '{"t":"\U0001f600"}')
    escaped = "RFC 8259 7: what a string must escape"
    add("a tool's name with quotes and controls", escaped, tool='say "hi"\\\n\t')
    add("a tool's name that is not ASCII", escaped, tool="analysé")
    add("a route's id with a quote and a backslash", escaped, route='a"b\\c')
    add("a tool named like a member", escaped, tool='x","route":"y')

    own = "DESIGN section 5; own decision: in the outcome's place"
    for trigger, detail in (
        ("com.example/half", {"payload": '{"n": 1.0}'}),
        ("elapsedMs", {"elapsedMs": 5000}),
        ("everyMs", {"everyMs": 10000, "count": 3}),
        ("group", {"group": '{"name":"g","all":1,"met":true,"calls":[{"callId":"c","status":"completed"}]}'}),
        ("group", {"group": '{"name":"g","any":true,"met":false,"reason":"deadline","calls":[]}'}),
    ):
        add(f"what is told of {text(detail)}", own, trigger=trigger, ended=None, detail=detail)

    redacted = "DESIGN section 6: a route's redact edits the delivery's body only, by splicing the bytes"
    x = '"[redacted]"'
    secret = '{"card": 4111,"x":[{"token":"t","route":"r"}],"1":1.0}'
    for name, redact, result in (
        ("a place", ["/outcome/result/card"], f'{{"card": {x},"x":[{{"token":"t","route":"r"}}],"1":1.0}}'),
        ("names", ["token", "route", "callId"], f'{{"card": 4111,"x":[{{"token":{x},"route":{x}}}],"1":1.0}}'),
        ("the whole result", ["/outcome/result"], x),
        ("what is not there", ["/outcome/error", "/result", "name", "eventId", "cursor"], secret),
    ):
        given = {"trigger": "completed", "ended": {"outcome": "completed", "reason": None, "result": result}}
        add(f"redacted: {name}", redacted, secret, redact=redact)
        out = webhook({**file.vectors[-1]["in"], **given})
        file.vectors[-1]["out"] = {"text": out}

    over = "DESIGN section 6: a larger outcome is sent as {truncated, bytes, taskId?, cursor?}"
    payload = '{"content":[{"type":"text","text":"' + "x" * 200 + '"}]}'
    given = {"payload": payload}
    whole = len(
        webhook(
            {
                "eventId": EVENT,
                "trigger": "completed",
                "unixMs": 0,
                "callId": CALL,
                "requestId": "7",
                "tool": "analyse",
                "route": "primary",
                "ended": ended("completed", result=payload),
                "task": None,
                "seq": 7,
                "cursor": CURSOR,
            }
        ).encode()
    )
    add("exactly at the limit", over, **given, unixMs=0, maxBody=whole)
    add("a byte over the limit", over, **given, unixMs=0, maxBody=whole - 1)
    add("over the limit, as a task", over, **given, task=task, maxBody=300)
    add("over the limit, without a cursor", over, **given, cursor=None, seq=None, maxBody=300)
    add(
        "an error over the limit",
        over,
        trigger="failed",
        ended=ended("failed", error='{"code":1,"message":"' + "y" * 300 + '"}'),
        maxBody=400,
    )
    add("bytes are counted, not characters", over, '{"t":"' + "é" * 200 + '"}', maxBody=500)
    add("a limit below the truncated form", over + "; own decision: names only, so it goes out", **given, maxBody=10)
    add(
        "no payload to cut",
        over + "; own decision: names only, so it goes out",
        trigger="timeout",
        ended=ended("timeout"),
        maxBody=10,
    )
    return file


def acknowledgements() -> RuleFile:
    file = RuleFile(
        "ack.bytes",
        "rules",
        "The params of notifications/config/acknowledged, and of the result's _meta. `routes` are [id, triggers].",
        obj({"requestId": TEXT, "routes": array({"type": "array"}), "callId": TEXT}),
        obj({"text": TEXT}),
        SELF,
    )
    known = ("completed", "failed", "timeout", "cancelled", "streaming", "io.tidings/disconnected")

    def add(name: str, source: str, routes: list[Any], request_id: str = "7") -> None:
        ignored = list(dict.fromkeys(t for _, triggers in routes for t in triggers if t not in known))
        out = members(
            [
                ("requestId", request_id),
                ("acceptedRoutes", text([route for route, _ in routes])),
                ("callId", text(CALL)),
                ("ignoredTriggers", text(ignored) if ignored else None),
            ]
        )
        file.add(name, source, {"requestId": request_id, "routes": routes, "callId": CALL}, {"text": out})

    sep = "SEP-992 section 3 and DESIGN section 8: {requestId, acceptedRoutes, callId, ignoredTriggers?}"
    add("the SEP's own example", sep, [["primary", ["completed", "failed"]]], '"123"')
    add("two routes in order", sep, [["b", ["completed"]], ["a", ["failed"]]])
    add("every known trigger", sep, [["a", list(known)]])
    ignored = "DESIGN section 5: unknown plain names are accepted, never fire and are named"
    add("one that nothing fires", ignored, [["a", ["completed", "paused"]]])
    add("each once, by first mention", ignored, [["a", ["z", "completed", "y"]], ["b", ["y", "z", "x"]]])
    add("names are compared exactly", ignored, [["a", ["Completed", "completed ", "disconnected"]]])
    kept = "DESIGN section 8: ids keep their JSON type; field report B51"
    for name, request_id in (
        ("zero", "0"),
        ("the empty string", '""'),
        ("the string 7", '"7"'),
        ("a large integer", "9007199254740993"),
    ):
        add(f"request id: {name}", kept, [["a", ["completed"]]], request_id)
    add("ids and names that need escapes", "RFC 8259 7", [['a"\\', ['say "hi"\n']]])
    return file


def undelivered() -> RuleFile:
    file = RuleFile(
        "undelivered.bytes",
        "rules",
        'The value of the result\'s _meta["io.tidings/undelivered"].',
        obj(
            {
                "entries": array(
                    obj(
                        {
                            "trigger": TEXT,
                            "routes": array(TEXT),
                            "reason": enum("no_deliverable_route", "store_unavailable"),
                        }
                    )
                )
            }
        ),
        obj({"text": TEXT}),
        SELF,
    )
    source = "DESIGN section 5: an entry in the result's _meta; own decision: {trigger, routes, reason}"
    one = {"trigger": "completed", "routes": ["a", "b"], "reason": "no_deliverable_route"}
    for name, entries in (
        ("one", [one]),
        ("two", [one, {"trigger": "failed", "routes": ["c"], "reason": "store_unavailable"}]),
        ("none", []),
        ("escapes", [{"trigger": 'a"b', "routes": ["c\\d"], "reason": "no_deliverable_route"}]),
    ):
        file.add(name, source, {"entries": entries}, {"text": text(entries)})
    return file


def files() -> list[RuleFile]:
    return [bodies(), acknowledgements(), undelivered()]

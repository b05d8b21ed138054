"""Conditions, tried by an independent reading of the rules: Python's json makes trees, decimal compares numbers exactly."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from _files import BOOL, TEXT, RuleFile, obj

SELF = "derive/triggers.py"
DESIGN = "DESIGN section 5 and the schema: conditions"
MISSING = object()


def tree(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def at(value: Any, pointer: str) -> Any:
    """RFC 6901, section 4."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and str(int(name)) == name and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


def same(left: Any, right: Any) -> bool:
    """Python says that True equals 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return type(left) is type(right) and bool(left == right)


def ordered(left: Any, right: Any) -> bool:
    return type(left) is type(right) and isinstance(left, Decimal | str)


def holds(value: Any, name: str, operand: Any) -> bool:
    if name == "exists":
        return (value is not MISSING) is operand
    if value is MISSING:
        return name == "ne"
    rules = {
        "eq": lambda: same(value, operand),
        "ne": lambda: not same(value, operand),
        "in": lambda: any(same(value, one) for one in operand),
        "lt": lambda: ordered(value, operand) and value < operand,
        "le": lambda: ordered(value, operand) and value <= operand,
        "gt": lambda: ordered(value, operand) and value > operand,
        "ge": lambda: ordered(value, operand) and value >= operand,
        "prefix": lambda: isinstance(value, str) and value.startswith(operand),
        "contains": lambda: (
            any(same(one, operand) for one in value)
            if isinstance(value, list)
            else isinstance(value, str) and isinstance(operand, str) and operand in value
        ),
    }
    return bool(rules[name]())


def expected(when: str, document: str) -> bool:
    value = tree(document)
    conditions = tree(when)
    found = []
    for condition in conditions:
        [(name, operand)] = [(name, operand) for name, operand in condition.items() if name != "path"]
        found.append(holds(at(value, condition["path"]), name, operand))
    return all(found)


OUTCOME = (
    '{"status":"completed","result":{"structuredContent":{"total":9007199254740993,"ratio":0.50,"big":1e400,"zero":-0,'
    '"state":"ready-to-go","tags":["a",{"k":1.0},null,[]],"none":null,"flag":true,"a/b":{"m~n":[10,20]},"":{"x":1},'
    '"deep":[[[[["x"]]]]],"text":"caf\\u00e9 \\ud83d\\ude00","when":"2026-11-30T18:40:56Z"}}}'
)
BASE = "/result/structuredContent"
SINGLE = [
    ("/total", "eq", ["9007199254740993", "9007199254740992", "9007199254740993.0", '"9007199254740993"']),
    ("/total", "ne", ["9007199254740992", "9007199254740993e0"]),
    ("/total", "gt", ["9007199254740992", "9007199254740993", "9.007199254740992e15", '"a"']),
    ("/total", "lt", ["9007199254740994", "1e16", "-1"]),
    ("/total", "in", ["[1,9007199254740993]", "[9007199254740992]", "[]", '["9007199254740993"]']),
    ("/ratio", "eq", ["0.5", "5e-1", "0.5000000000000000000000001"]),
    ("/ratio", "ge", ["0.5", "0.50000000000000000001"]),
    ("/ratio", "le", ["0.5", "0.49999999999999999999"]),
    ("/big", "gt", ["1e399", "1e401", "17"]),
    ("/big", "eq", ["10e399", "1e400"]),
    ("/zero", "eq", ["0", "-0.0", "0e5", "false"]),
    ("/state", "eq", ['"ready-to-go"', '"ready\\u002dto-go"', '"Ready-to-go"']),
    ("/state", "prefix", ['"ready"', '""', '"eady"', '"ready-to-go!"']),
    ("/state", "contains", ['"to"', '"o-g"', '"x"', "1"]),
    ("/state", "lt", ['"ready-to-h"', '"ready"', "1"]),
    ("/state", "in", ['["a","ready-to-go"]', '["a"]']),
    ("/tags", "contains", ['"a"', '{"k":1}', '{"k":1,"l":2}', "null", "[]", '"b"', "false"]),
    ("/tags", "eq", ['["a",{"k":1},null,[]]', '["a",{"k":1},null]', '[{"k":1},"a",null,[]]']),
    ("/tags", "prefix", ['"a"']),
    ("/tags/1/k", "eq", ["1"]),
    ("/tags/01", "exists", ["true", "false"]),
    ("/tags/-", "exists", ["true"]),
    ("/tags/4", "exists", ["true"]),
    ("/none", "exists", ["true", "false"]),
    ("/none", "eq", ["null", "0", "false", '""']),
    ("/flag", "eq", ["true", "1", '"true"']),
    ("/flag", "ge", ["1"]),
    ("/a~1b/m~0n/1", "eq", ["20", "10"]),
    ("//x", "eq", ["1"]),
    ("/", "exists", ["true"]),
    ("/deep/0/0/0/0/0", "eq", ['"x"']),
    ("/deep", "eq", ['[[[[["x"]]]]]', "[[[[[]]]]]"]),
    ("/text", "contains", ['"é 😀"', '"\\ud83d\\ude00"', '"e"']),
    ("/when", "gt", ['"2026-11-30"', '"2026-12-01"']),
    ("/nothing", "exists", ["true", "false"]),
    ("/nothing", "eq", ["null"]),
    ("/nothing", "ne", ["null", "1"]),
    ("/nothing", "in", ["[null]"]),
    ("/nothing", "lt", ["1"]),
    ("/nothing", "contains", ['""']),
    ("/state/0", "exists", ["true"]),
]
LISTS = [
    ("both hold", '[{"path":"/a","eq":1},{"path":"/b","eq":2}]', '{"a":1,"b":2}'),
    ("the first does not", '[{"path":"/a","eq":2},{"path":"/b","eq":2}]', '{"a":1,"b":2}'),
    ("the second does not", '[{"path":"/a","eq":1},{"path":"/b","eq":1}]', '{"a":1,"b":2}'),
    ("one place twice", '[{"path":"/a","gt":1},{"path":"/a","lt":5}]', '{"a":3}'),
    ("the whole document", '[{"path":"","eq":{"b":2,"a":1}}]', ' { "a" : 1 , "b" : 2 } '),
    ("a place and one within it", '[{"path":"/a","exists":true},{"path":"/a/0","eq":7}]', '{"a":[7]}'),
    ("whitespace anywhere", '[{"path":"/a/1","eq":2}]', '\n{\t"a"\r:\n[ 1 ,\t2 ]\n}\n'),
    ("the last of several members counts", '[{"path":"/a","eq":2}]', '{"a":1,"a":2}'),
    ("what was in an earlier one is gone", '[{"path":"/a/b","exists":true}]', '{"a":{"b":1},"a":{"c":1}}'),
    ("names are compared as what they stand for", '[{"path":"/a","eq":1}]', '{"\\u0061":1}'),
    ("brackets in strings are no structure", '[{"path":"/b","eq":1}]', '{"a":"{[\\"]}","b":1}'),
    ("a scalar document has no members", '[{"path":"/a","exists":true}]', "17"),
    ("true is not 1 within an array", '[{"path":"/a","eq":[1]}]', '{"a":[true]}'),
]


def files() -> list[RuleFile]:
    file = RuleFile(
        "condition.hold",
        "rules",
        "Whether all conditions of a list hold over a document. Both are raw JSON texts.",
        obj({"when": TEXT, "document": TEXT}),
        obj({"holds": BOOL}),
        SELF,
    )
    for path, name, operands in SINGLE:
        for operand in operands:
            when = f'[{{"path":{json.dumps(BASE + path)},"{name}":{operand}}}]'
            source = f"{DESIGN}; RFC 6901" if name == "exists" else DESIGN
            if path.startswith("/nothing"):
                source += "; own decision: as RFC 9535 compares nothing"
            given = {"when": when, "document": OUTCOME}
            file.add(f"{path} {name} {operand}", source, given, {"holds": expected(when, OUTCOME)})
    for name, when, document in LISTS:
        file.add(
            name, f"{DESIGN}, an AND-list", {"when": when, "document": document}, {"holds": expected(when, document)}
        )
    return [file]

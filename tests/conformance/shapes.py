"""Checks values against the part of JSON Schema 2020-12 that the fixtures use. An unknown keyword is an error, so that no
rule is believed to be checked and is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

NOTES = {"$schema", "$id", "$defs", "title", "description"}


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return {float: "number", str: "string", list: "array", dict: "object"}[type(value)]


def same(left: Any, right: Any) -> bool:
    """JSON equality: 1 and true differ, 1 and 1.0 do not occur in one place."""
    return type_of(left) == type_of(right) and bool(left == right)


def resolve(root: Schema, reference: str) -> Schema:
    node: Any = root
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node  # type: ignore[no-any-return]


def faults(value: Any, schema: Schema, root: Schema, path: str = "") -> Iterator[str]:
    """What is wrong with the value, a line each."""
    for keyword, rule in schema.items():
        if keyword not in NOTES:
            yield from check(keyword, rule, value, schema, root, path)


def check(keyword: str, rule: Any, value: Any, schema: Schema, root: Schema, path: str) -> Iterator[str]:
    kind = type_of(value)
    match keyword:
        case "$ref":
            yield from faults(value, resolve(root, rule), root, path)
        case "type":
            allowed = rule if isinstance(rule, list) else [rule]
            if kind not in allowed:
                yield f"{path or 'the value'}: {kind}, not {' or '.join(allowed)}"
        case "enum":
            if not any(same(value, allowed) for allowed in rule):
                yield f"{path}: {value!r} is none of {rule}"
        case "const":
            if not same(value, rule):
                yield f"{path}: {value!r} is not {rule!r}"
        case "pattern":
            if kind == "string" and not re.search(rule, value):
                yield f"{path}: {value!r} does not match {rule}"
        case "minLength":
            if kind == "string" and len(value) < rule:
                yield f"{path}: shorter than {rule}"
        case "minItems":
            if kind == "array" and len(value) < rule:
                yield f"{path}: fewer than {rule} elements"
        case "required":
            for name in rule:
                if kind == "object" and name not in value:
                    yield f"{path}: {name} is missing"
        case "properties":
            for name, inner in rule.items():
                if kind == "object" and name in value:
                    yield from faults(value[name], inner, root, f"{path}/{name}")
        case "additionalProperties":
            for name in value if kind == "object" else ():
                if name not in schema.get("properties", {}):
                    if rule is False:
                        yield f"{path}: {name} is not expected"
                    elif rule is not True:
                        yield from faults(value[name], rule, root, f"{path}/{name}")
        case "items":
            for index, element in enumerate(value if kind == "array" else ()):
                yield from faults(element, rule, root, f"{path}/{index}")
        case "oneOf":
            failed = [list(faults(value, inner, root, path)) for inner in rule]
            fitting = failed.count([])
            if fitting != 1:
                yield f"{path or 'the value'}: fits {fitting} of {len(rule)} shapes ({'; '.join(f[0] for f in failed if f)})"
        case _:
            raise ValueError(f"{path}: keyword {keyword} of JSON Schema is not known here")

"""Compares what came out with what was expected, where ids, cursors and times are only known by the name they are given.

`${name}` in an expected text stands for any text the first time and for the same one from then on; as the whole of a text
it stands for any JSON value. `${_}` is never remembered. In what is sent, `${name}` is replaced by what it stands for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from conformance.shapes import same, type_of

PLACEHOLDER = re.compile(r"\$\{([a-z_][a-z0-9_]*)\}")
Bindings = dict[str, Any]


def differences(want: Any, got: Any, bound: Bindings, unordered: list[str], path: str = "") -> Iterator[str]:
    where = path or "the answer"
    if isinstance(want, str) and PLACEHOLDER.search(want):
        yield from match_text(want, got, bound, where)
    elif isinstance(want, dict) and isinstance(got, dict):
        for name in want.keys() | got.keys():
            if name not in got:
                yield f"{where}: {name} is missing, expected {json.dumps(want[name])}"
            elif name not in want:
                yield f"{where}: {name} is not expected: {json.dumps(got[name])[:500]}"
            else:
                yield from members(name, want[name], got[name], bound, unordered, f"{path}/{name}")
    elif isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            yield f"{where}: {len(got)} elements, expected {len(want)}: {json.dumps(got)[:500]}"
        else:
            for index, (left, right) in enumerate(zip(want, got, strict=True)):
                yield from differences(left, right, bound, unordered, f"{path}/{index}")
    elif not same(want, got):
        yield f"{where}: {json.dumps(got)[:500]}, expected {json.dumps(want)[:500]}"


def members(name: str, want: Any, got: Any, bound: Bindings, unordered: list[str], path: str) -> Iterator[str]:
    if name in unordered and isinstance(want, list) and isinstance(got, list):
        want, got = sorted(want, key=json.dumps), sorted(got, key=json.dumps)
    yield from differences(want, got, bound, unordered, path)


def match_text(want: str, got: Any, bound: Bindings, where: str) -> Iterator[str]:
    whole = PLACEHOLDER.fullmatch(want)
    if whole:
        name = whole[1]
        if name == "_":
            return
        if name in bound:
            if not same(bound[name], got):
                yield f"{where}: {json.dumps(got)[:200]}, expected the {name} of before, {json.dumps(bound[name])[:200]}"
        else:
            bound[name] = got
        return
    if not isinstance(got, str):
        yield f"{where}: {type_of(got)}, expected a text like {want}"
        return
    pattern, new = "", []
    at = 0
    for found in PLACEHOLDER.finditer(want):
        pattern += re.escape(want[at : found.start()])
        name, at = found[1], found.end()
        if name == "_":
            pattern += "(?:.*?)"
        elif name in bound:
            pattern += re.escape(str(bound[name]))
        elif name in new:
            pattern += f"(?P={name})"
        else:
            new.append(name)
            pattern += f"(?P<{name}>.*?)"
    found_text = re.fullmatch(pattern + re.escape(want[at:]), got, re.DOTALL)
    if found_text is None:
        yield f"{where}: {got[:800]!r} is not like {want!r}"
    else:
        bound.update({name: found_text[name] for name in new})


def fill(value: Any, bound: Bindings) -> Any:
    """What is sent, with every name replaced."""
    if isinstance(value, list):
        return [fill(element, bound) for element in value]
    if isinstance(value, dict):
        return {name: fill(element, bound) for name, element in value.items()}
    if not isinstance(value, str):
        return value
    whole = PLACEHOLDER.fullmatch(value)
    if whole:
        return bound[whole[1]]
    return PLACEHOLDER.sub(lambda found: str(bound[found[1]]), value)

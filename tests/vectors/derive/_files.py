"""Writes rule files in their one layout: a readable head, then one vector a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RULES = Path(__file__).resolve().parent.parent / "rules"


@dataclass
class RuleFile:
    """One rule's vectors; see the README beside the folder for what the members mean."""

    rule: str
    feature: str
    about: str
    shape_in: dict[str, Any]
    shape_out: dict[str, Any]
    derived_by: str | None = None
    unordered: list[str] = field(default_factory=list)
    vectors: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, source: str, given: Any, out: Any) -> None:
        self.vectors.append({"name": name, "rule": self.rule, "source": source, "in": given, "out": out})

    @property
    def path(self) -> Path:
        return RULES / f"{self.rule.replace('.', '_')}.json"

    def text(self) -> str:
        head: dict[str, Any] = {"rule": self.rule, "feature": self.feature, "about": self.about}
        if self.derived_by:
            head["derived_by"] = self.derived_by
        if self.unordered:
            head["unordered"] = self.unordered
        head["shape"] = {"in": self.shape_in, "out": self.shape_out}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        vectors = ",\n".join(f"    {json.dumps(vector)}" for vector in self.vectors)
        return "\n".join(["{", *lines, '  "vectors": [', vectors, "  ]", "}"]) + "\n"


def obj(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """A JSON Schema for an object with exactly these members."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


def one_of(*shapes: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": list(shapes)}


def enum(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


INT: dict[str, Any] = {"type": "integer"}
MAYBE_INT: dict[str, Any] = {"type": ["integer", "null"]}
TEXT: dict[str, Any] = {"type": "string"}
MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
BOOL: dict[str, Any] = {"type": "boolean"}
# Bytes: text, or its hexadecimal form where it is not UTF-8. The runner has put long ones together by then.
BYTES: dict[str, Any] = one_of(TEXT, obj({"hex": TEXT}))
OK: dict[str, Any] = obj({"ok": enum(True)})


def error(*codes: str) -> dict[str, Any]:
    return obj({"error": enum(*codes)})


def write(files: Iterable[RuleFile]) -> None:
    for file in files:
        file.path.write_text(file.text())

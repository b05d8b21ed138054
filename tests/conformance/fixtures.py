"""The vectors and scenarios, loaded and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import shapes

TESTS = Path(__file__).resolve().parent.parent
VECTORS = TESTS / "vectors"


class Broken(Exception):
    """A fixture that is not what the schema says: nothing is run."""


@dataclass
class Vector:
    rule: str
    name: str
    given: Any
    out: Any

    @property
    def id(self) -> str:
        return f"{self.rule}: {self.name}"


@dataclass
class Rule:
    rule: str
    feature: str
    unordered: list[str]
    vectors: list[Vector] = field(default_factory=list)


@dataclass
class Scenario:
    name: str
    features: list[str]
    options: dict[str, Any]
    steps: list[dict[str, Any]]

    @property
    def id(self) -> str:
        return f"scenario {self.name}"


def expand(value: Any) -> Any:
    """Puts long texts together: {"$repeat", "$times"} and {"$concat"}."""
    if isinstance(value, list):
        return [expand(element) for element in value]
    if isinstance(value, dict):
        if value.keys() == {"$repeat", "$times"}:
            return value["$repeat"] * value["$times"]
        if value.keys() == {"$concat"}:
            return "".join(expand(part) for part in value["$concat"])
        return {name: expand(element) for name, element in value.items()}
    return value


def read(path: Path, schema: dict[str, Any]) -> Any:
    def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise Broken(f"{path.name}: a member twice in one object")
        return dict(pairs)

    try:
        value = json.loads(path.read_text(), object_pairs_hook=no_doubles)
    except json.JSONDecodeError as error:
        raise Broken(f"{path.name}: {error}") from error
    for fault in shapes.faults(value, schema, schema):
        raise Broken(f"{path.name}{fault}")
    return value


def once(names: list[str], where: str) -> None:
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise Broken(f"{where}: two are called {min(doubles)!r}")


def load_rule(path: Path, schema: dict[str, Any]) -> Rule:
    file = read(path, schema)
    if path.stem != file["rule"].replace(".", "_"):
        raise Broken(f"{path.name}: holds the rule {file['rule']}")
    once([vector["name"] for vector in file["vectors"]], path.name)
    rule = Rule(file["rule"], file["feature"], file.get("unordered", []))
    for vector in file["vectors"]:
        if vector["rule"] != rule.rule:
            raise Broken(f"{path.name}: {vector['name']!r} belongs to {vector['rule']}")
        loaded = Vector(rule.rule, vector["name"], expand(vector["in"]), expand(vector["out"]))
        for side, value in (("in", loaded.given), ("out", loaded.out)):
            shape = file["shape"][side]
            for fault in shapes.faults(value, shape, shape):
                raise Broken(f"{path.name}: {vector['name']!r}: {side}: {fault}")
        rule.vectors.append(loaded)
    return rule


def load_scenario(path: Path, schema: dict[str, Any]) -> Scenario:
    file = read(path, schema)
    if path.stem != file["name"]:
        raise Broken(f"{path.name}: holds the scenario {file['name']}")
    steps = [expand(step) for step in file["steps"]]
    return Scenario(file["name"], file["features"], file.get("options", {}), steps)


def load_rules(folder: Path = VECTORS) -> list[Rule]:
    schema = json.loads((folder / "rules.schema.json").read_text())
    return [load_rule(path, schema) for path in sorted((folder / "rules").glob("*.json"))]


def load_scenarios(folder: Path = VECTORS) -> list[Scenario]:
    schema = json.loads((folder / "scenarios.schema.json").read_text())
    return [load_scenario(path, schema) for path in sorted((folder / "scenarios").glob("*.json"))]

"""The run: fixtures against surfaces, the exclusions, the floor, the table."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import fixtures, matching
from conformance.adapter import Adapter, Failed, Unsupported
from conformance.scenario import Stage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLOOR = HERE / "floor.json"
EXCLUSIONS = HERE / "exclusions.json"


@dataclass
class Tally:
    """What one surface came to, of one kind of fixture."""

    passed: int = 0
    excluded: int = 0
    not_offered: int = 0
    failed: list[str] = field(default_factory=list)

    @property
    def run(self) -> int:
        return self.passed + len(self.failed)


@dataclass
class Result:
    surface: str
    vectors: Tally = field(default_factory=Tally)
    scenarios: Tally = field(default_factory=Tally)
    seconds: float = 0.0


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def run_vector(adapter: Adapter, rule: fixtures.Rule, vector: fixtures.Vector) -> list[str]:
    """What is wrong, a line each."""
    try:
        got = adapter.ask(vector.rule, vector.given)
    except Unsupported:
        return [f"the adapter names the feature {rule.feature} and does not know the operation {vector.rule}"]
    except Failed as failure:
        return [str(failure)]
    return list(matching.differences(vector.out, got, {}, rule.unordered))


class Surface:
    """One adapter and everything that is asked of it."""

    def __init__(self, name: str, command: list[str], excluded: dict[str, str]) -> None:
        self.adapter = Adapter(command, ROOT)
        self.command, self.excluded = command, dict(excluded)
        self.result = Result(name)

    def judge(self, tally: Tally, what: str, faults: list[str]) -> None:
        why = self.excluded.pop(what, None)
        if why is not None and faults:
            tally.excluded += 1
        elif why is not None:
            tally.failed.append(f"{what}: passes and is excluded: take it out of exclusions.json")
        elif faults:
            tally.failed.append("\n      ".join([what, *faults]))
        else:
            tally.passed += 1

    def run(self, rules: list[fixtures.Rule], scenarios: list[fixtures.Scenario]) -> Result:
        result, started = self.result, time.monotonic()
        try:
            self.adapter.start()
        except Failed as failure:
            result.vectors.failed.append(f"the adapter does not start: {failure}")
            return result
        for rule in rules:
            for vector in rule.vectors:
                if rule.feature in self.adapter.features:
                    self.judge(result.vectors, vector.id, run_vector(self.adapter, rule, vector))
                else:
                    result.vectors.not_offered += 1
        for scenario in scenarios:
            if self.adapter.features.issuperset(scenario.features):
                self.judge(result.scenarios, scenario.id, Stage(self.adapter, self.command, ROOT).play(scenario))
            else:
                result.scenarios.not_offered += 1
        self.adapter.stop()
        result.seconds = time.monotonic() - started
        return result


def table(results: list[Result]) -> str:
    rows = [("surface", "vectors", "not offered", "scenarios", "not offered", "excluded", "failed", "time")]
    for result in results:
        vectors, scenarios = result.vectors, result.scenarios
        rows.append(
            (
                result.surface,
                f"{vectors.passed} of {vectors.run}",
                str(vectors.not_offered),
                f"{scenarios.passed} of {scenarios.run}",
                str(scenarios.not_offered),
                str(vectors.excluded + scenarios.excluded),
                str(len(vectors.failed) + len(scenarios.failed)),
                f"{result.seconds:.1f} s",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def counts(rules: list[fixtures.Rule], scenarios: list[fixtures.Scenario], results: list[Result]) -> dict[str, Any]:
    return {
        "vectors": sum(len(rule.vectors) for rule in rules),
        "scenarios": len(scenarios),
        "surfaces": {
            result.surface: {"vectors": result.vectors.run, "scenarios": result.scenarios.run} for result in results
        },
    }


def below_floor(now: dict[str, Any], floor: dict[str, Any]) -> list[str]:
    """Where there is less than the committed floor: a fixture or a feature of a surface went away."""
    faults = [
        f"{now[kind]} {kind}, the floor is {floor[kind]}"
        for kind in ("vectors", "scenarios")
        if now[kind] < floor[kind]
    ]
    for surface, least in floor["surfaces"].items():
        ran = now["surfaces"].get(surface)
        if ran is not None:
            faults += [
                f"{surface}: {ran[kind]} {kind}, the floor is {least[kind]}"
                for kind in least
                if ran[kind] < least[kind]
            ]
    return faults


def chosen(surfaces: dict[str, Any], named: list[str]) -> list[str]:
    """The surfaces to run: those named, or all but the ones that take their own command to build."""
    if named:
        return named
    for surface, how in surfaces.items():
        if "by_hand" in how:
            print(f"  left out {surface}: it is run by {how['by_hand']}", flush=True)
    return [surface for surface, how in surfaces.items() if "by_hand" not in how]


def is_there(surface: str, program: str | None) -> bool:
    """Whether the machine has what the surface needs beyond `tools/check-prerequisites`; in CI all of it is there."""
    if program is None or shutil.which(program) is not None or os.environ.get("CI") == "true":
        return True
    print(f"  skipped {surface}: {program} is not on PATH", flush=True)
    return False


def main(about: str) -> int:
    surfaces = load(HERE / "surfaces.json")
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "surfaces",
        nargs="*",
        metavar="SURFACE",
        help=f"of {', '.join(surfaces)}; when none is named, all but those run by hand",
    )
    parser.add_argument("--only", metavar="TEXT", help="only vectors and scenarios with this in their name")
    parser.add_argument("--write-floor", action="store_true", help="set the floor to what there is now")
    options = parser.parse_args()
    for name in options.surfaces:
        if name not in surfaces:
            parser.error(f"no surface is called {name}")

    try:
        rules, scenarios = fixtures.load_rules(), fixtures.load_scenarios()
        known = {vector.id for rule in rules for vector in rule.vectors} | {scenario.id for scenario in scenarios}
        exclusions = load(EXCLUSIONS)["exclusions"]
        for entry in exclusions:
            if entry["what"] not in known or entry["surface"] not in surfaces or len(entry["why"]) < 20:
                raise fixtures.Broken(f"exclusions.json: {entry}: names nothing there is, or does not argue")
    except fixtures.Broken as broken:
        print(f"a fixture is broken: {broken}\nconformance: 0 passed, 1 failed")
        return 1
    every_rule, every_scenario = rules, scenarios
    if options.only:
        for rule in rules:
            rule.vectors = [vector for vector in rule.vectors if options.only in vector.id]
        scenarios = [scenario for scenario in scenarios if options.only in scenario.id]

    def run(name: str) -> Result:
        excluded = {entry["what"]: entry["why"] for entry in exclusions if entry["surface"] == name}
        command = [sys.executable if part == "{python}" else part for part in surfaces[name]["command"]]
        return Surface(name, command, excluded).run(rules, scenarios)

    wanted = chosen(surfaces, options.surfaces)
    names = [name for name in wanted if is_there(name, surfaces[name].get("needs"))]
    # Side by side: most of the time is spent waiting for what a hub does on its own.
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(run, names))
    for result in results:
        for fault in result.vectors.failed + result.scenarios.failed:
            print(f"  FAIL {result.surface}: {fault}", flush=True)

    now = counts(every_rule, every_scenario, results)
    missing = [] if options.only else below_floor(now, load(FLOOR))
    flawless = not any(result.vectors.failed + result.scenarios.failed for result in results)
    if options.write_floor and not options.only and flawless:
        floor = load(FLOOR)
        FLOOR.write_text(json.dumps({**now, "surfaces": {**floor["surfaces"], **now["surfaces"]}}, indent=2) + "\n")
    else:
        for fault in missing:
            print(f"  FAIL below the floor: {fault}")
    print(table(results))
    # The fixtures themselves, with their schema and their floor, are one check more.
    passed = sum(result.vectors.passed + result.scenarios.passed for result in results) + (not missing)
    failed = sum(len(result.vectors.failed) + len(result.scenarios.failed) for result in results) + bool(missing)
    print(f"conformance: {passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0

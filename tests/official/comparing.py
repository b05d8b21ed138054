"""What the reports of the suite say, and how two runs of it compare."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

RANK: Final = {"SUCCESS": 0, "INFO": 0, "SKIPPED": 1, "WARNING": 2, "FAILURE": 3}
"""How bad each status of the suite is."""
MISSING: Final = "MISSING"

Checks = dict[tuple[str, str], tuple[str, str]]
"""By scenario and check: the worst status it had, and what the suite said about it."""


def read_checks(reports: Path) -> Checks:
    """The checks of all scenarios, each with its worst status."""
    worst: Checks = {}
    for report in sorted(reports.glob("server-*/checks.json")):
        # server-SCENARIO-TIME
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", report.parent.name.removeprefix("server-"))
        for check in json.loads(report.read_text()):
            key = scenario, check["id"]
            if key not in worst or RANK[check["status"]] > RANK[worst[key][0]]:
                worst[key] = check["status"], check.get("errorMessage") or ""
    return worst


def faults(plain: Checks, attached: Checks, *, may_fail: Collection[str] = ()) -> dict[str, list[str]]:
    """By scenario: what is worse with us, and what fails in one that is not in `may_fail`; nothing where it passes."""
    found: dict[str, list[str]] = {scenario: [] for scenario, _ in plain.keys() | attached.keys()}
    for key in sorted(plain.keys() | attached.keys()):
        scenario, check = key
        before, _ = plain.get(key, (MISSING, ""))
        after, why = attached.get(key, (MISSING, ""))
        # A check that only exists where an earlier one failed is missed by nobody.
        worse = before != MISSING and RANK.get(after, 1) > RANK[before]
        if worse or (scenario not in may_fail and after == "FAILURE"):
            found[scenario].append(f"{check}: {before} without us, {after} with us: {why}")
    return found

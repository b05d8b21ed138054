"""The comparison that the official suite's verdict rests on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from official.comparing import faults, read_checks


def checks(scenario: str, **statuses: str) -> dict[tuple[str, str], tuple[str, str]]:
    return {(scenario, check): (status, "") for check, status in statuses.items()}


@pytest.mark.parametrize(
    ("before", "after", "is_fault"),
    [
        ("SUCCESS", "SUCCESS", False),
        ("SUCCESS", "INFO", False),
        ("FAILURE", "SUCCESS", False),
        ("FAILURE", "FAILURE", True),
        ("WARNING", "WARNING", False),
        ("SUCCESS", "WARNING", True),
        ("WARNING", "FAILURE", True),
        ("SUCCESS", None, True),
        ("FAILURE", None, False),
        (None, "SUCCESS", False),
        (None, "FAILURE", True),
        ("FAILURE", "WARNING", False),
    ],
)
def test_what_is_worse(before: str | None, after: str | None, is_fault: bool) -> None:
    plain, attached = ({} if status is None else checks("ping", it=status) for status in (before, after))
    assert [bool(lines) for lines in faults(plain, attached).values()] == [is_fault]
    # Where the SDK by itself does not pass, only what is worse counts.
    is_worse = is_fault and (before, after) not in {("FAILURE", "FAILURE"), (None, "FAILURE")}
    assert [bool(lines) for lines in faults(plain, attached, may_fail=["ping"]).values()] == [is_worse]


def test_a_report_counts_with_its_worst_status(tmp_path: Path) -> None:
    report = tmp_path / "server-tools-list-2026-11-30T22-04-12-437Z"
    report.mkdir()
    found = [
        {"id": "twice", "status": "SUCCESS"},
        {"id": "twice", "status": "WARNING", "errorMessage": "hm"},
        {"id": "once", "status": "INFO"},
    ]
    (report / "checks.json").write_text(json.dumps(found))
    assert read_checks(tmp_path) == {
        ("tools-list", "twice"): ("WARNING", "hm"),
        ("tools-list", "once"): ("INFO", ""),
    }

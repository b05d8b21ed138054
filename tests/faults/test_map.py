"""The table of faults names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NUMBERS = [*range(1, 10), *range(11, 18), 20, 22, 23, 24]
"""Of the design's table: those that can happen to what there is."""


def test_every_fault_has_its_tests() -> None:
    rows = re.findall(r"^\| (\d+) \|.*$", (HERE / "README.md").read_text(), re.MULTILINE)
    assert [int(number) for number in rows] == NUMBERS


def test_every_test_that_is_named_is_there() -> None:
    named = re.findall(r"`((?:core|python|node|tests)/[^`]+)`", (HERE / "README.md").read_text())
    assert len(named) > 80
    for place in named:
        path, _, name = place.partition("::")
        assert (ROOT / path).is_file(), place
        if name:
            text = (ROOT / path).read_text()
            # A Rust function, one of a macro's list, a Python function, a test of node's by its title.
            found = re.search(
                rf"(?:fn|def) {re.escape(name)}\(|[(,] ?{re.escape(name)}[,)]|test\(\"{re.escape(name)}\"", text
            )
            assert found, f"tests/faults/README.md names {place}, which is not there: was it renamed?"

"""What `include/tidings.h` declares, for the tests that walk it."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HEADER = ROOT / "include" / "tidings.h"
EXAMPLES = ROOT / "bindings" / "c" / "examples"
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wstrict-prototypes", "-Werror", "-pedantic"]


@dataclass(frozen=True)
class Function:
    """A function of the header: its result's type and its parameters, as (type, name)."""

    name: str
    result: str
    parameters: list[tuple[str, str]]


def functions() -> list[Function]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    found = []
    for result, name, inside in re.findall(r"^(\w+) (tidings_\w+)\(([^;]*)\);", text, flags=re.MULTILINE):
        parameters = []
        if inside.strip() != "void":
            for parameter in inside.split(","):
                match = re.fullmatch(r"\s*(.*?)(\w+)\s*", parameter, flags=re.DOTALL)
                assert match, parameter
                parameters.append((match[1].strip(), match[2]))
        found.append(Function(name, result, parameters))
    return found


def structures() -> set[str]:
    """The structures that the library reads or fills."""
    return set(re.findall(r"^\} (tidings_\w+);", HEADER.read_text(), flags=re.MULTILINE))


def handles() -> set[str]:
    """The types of handles."""
    return set(re.findall(r"^typedef struct (tidings_\w+) tidings_\w+;", HEADER.read_text(), flags=re.MULTILINE))


def need(tool: str, package: str) -> None:
    """Skips, by name, what a tool is missing for; in CI that is a failure."""
    if shutil.which(tool) is None:
        missing = f"{tool} is missing: apt-get install {package}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)

"""What `include/tidings.h` declares, for the tests that walk it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from dataclasses import dataclass
from functools import cache
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


@cache
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


@cache
def handles() -> set[str]:
    """The types of handles."""
    return set(re.findall(r"^typedef struct (tidings_\w+) tidings_\w+;", HEADER.read_text(), flags=re.MULTILINE))


@cache
def callbacks() -> set[str]:
    """The types of functions of the caller's."""
    return set(re.findall(r"^typedef void \(\*(tidings_\w+)\)", HEADER.read_text(), flags=re.MULTILINE))


def handle_of(kind: str) -> str | None:
    """The type of the handle that a parameter is, if it is one that is given."""
    named = kind.removeprefix("const ").removesuffix("*").strip()
    return named if kind.count("*") == 1 and named in handles() else None


def ctype(kind: str) -> type:
    """How a parameter or a result crosses: a pointer as its address."""
    if "*" in kind or kind in callbacks():
        return ctypes.c_void_p
    return {
        "int32_t": ctypes.c_int32,
        "uint32_t": ctypes.c_uint32,
        "int64_t": ctypes.c_int64,
        "uint64_t": ctypes.c_uint64,
        "size_t": ctypes.c_size_t,
        "double": ctypes.c_double,
        "tidings_result": ctypes.c_int32,
    }[kind]


def need(tool: str, package: str) -> None:
    """Skips, by name, what a tool is missing for; in CI that is a failure."""
    if shutil.which(tool) is None:
        missing = f"{tool} is missing: apt-get install {package}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)

#!/usr/bin/env python3
"""Checks what comes with Tidings against deny.toml: licences, sources and version wildcards of every crate that reaches a
user (normal and build dependencies of the workspace, on every platform), and licences of the Python package's runtime
dependencies.

cargo-deny does the crates' part where it is installed; without it the same lists are applied here to what
`cargo metadata --locked` says.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # in .cache/venv
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
# The last part of crates.io's name as cargo writes it in a package's source.
CRATES_IO = "crates.io-index"

# Names that packages on PyPI use for a licence where they give no SPDX expression.
PYTHON_NAMES = {
    "mit license": "MIT",
    "the mit license": "MIT",
    "the mit license (mit)": "MIT",
    "apache software license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "isc license (iscl)": "ISC",
}


class Expression:
    """Whether an SPDX licence expression can be met with allowed licences alone.

    `OR` leaves the choice, `AND` asks for both and binds tighter, `A WITH B` is allowed only as a whole; `/` is how
    crates wrote `OR` before they used SPDX.
    """

    def __init__(self, text: str, allowed: set[str]) -> None:
        self.tokens = re.findall(r"\(|\)|[^\s()]+", text.replace("/", " OR "))
        self.allowed = allowed
        self.at = 0

    def is_allowed(self) -> bool:
        result = self.any_of()
        if self.at != len(self.tokens):
            raise ValueError(f"unexpected {self.tokens[self.at]!r}")
        return result

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> str:
        token = self.peek()
        if token is None:
            raise ValueError("it ends too early")
        self.at += 1
        return token

    def any_of(self) -> bool:
        results = [self.all_of()]
        while self.peek() == "OR":
            self.take()
            results.append(self.all_of())
        return any(results)

    def all_of(self) -> bool:
        results = [self.one()]
        while self.peek() == "AND":
            self.take()
            results.append(self.one())
        return all(results)

    def one(self) -> bool:
        token = self.take()
        if token == "(":
            result = self.any_of()
            if self.take() != ")":
                raise ValueError("a parenthesis is not closed")
            return result
        if token in (")", "OR", "AND", "WITH"):
            raise ValueError(f"unexpected {token!r}")
        if self.peek() == "WITH":
            self.take()
            token = f"{token} WITH {self.take()}"
        return token in self.allowed


def licence_fault(licence: str | None, allowed: set[str]) -> str | None:
    """What is wrong with a licence expression, or None."""
    if not licence or not licence.strip():
        return "states no licence"
    try:
        if Expression(licence, allowed).is_allowed():
            return None
    except ValueError as error:
        return f"licence {licence!r} is no SPDX expression: {error}"
    return f"licence {licence!r} is not in deny.toml's list"


def reaching_users(metadata: dict[str, Any]) -> set[str]:
    """Ids of the packages that the workspace's members bring along, themselves included, without dev dependencies."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    todo, seen = list(metadata["workspace_members"]), set()
    while todo:
        package = todo.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"]):
                todo.append(dependency["pkg"])
    return seen


def crate_faults(metadata: dict[str, Any], policy: dict[str, Any]) -> Iterator[str]:
    allowed = set(policy["licenses"]["allow"])
    exceptions = {entry["crate"]: set(entry["allow"]) for entry in policy["licenses"].get("exceptions", [])}
    reaching = reaching_users(metadata)
    members = set(metadata["workspace_members"])
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        if package["id"] in reaching:
            fault = licence_fault(package["license"], allowed | exceptions.get(package["name"], set()))
            if fault:
                yield f"{name}: {fault}"
        source = package["source"]
        if source is None:
            if not Path(package["manifest_path"]).is_relative_to(metadata["workspace_root"]):
                yield f"{name}: comes from a path outside the workspace"
        elif not (source.startswith("registry+") and source.rsplit("/", 1)[-1] == CRATES_IO):
            yield f"{name}: comes from {source}, and not from crates.io"
        if package["id"] in members:
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and dependency.get("path") is None:
                    yield f"{name}: asks for any version of {dependency['name']}"


def check_crates(policy: dict[str, Any]) -> tuple[str, list[str]]:
    if shutil.which("cargo-deny"):
        done = subprocess.run(
            ["cargo", "deny", "--locked", "check", "licenses", "bans", "sources"], cwd=ROOT, check=False
        )
        return "crates by cargo-deny", [] if done.returncode == 0 else ["cargo-deny found the faults above"]
    done = subprocess.run(
        ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"],
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
    )
    if done.returncode != 0:
        return "crates", ["cargo metadata failed, see above"]
    metadata = json.loads(done.stdout)
    return f"{len(reaching_users(metadata))} crates", list(crate_faults(metadata, policy))


def python_licence(distribution: importlib.metadata.Distribution) -> str | None:
    """The licence a Python distribution states: the SPDX expression, else its classifiers, else the free text."""
    stated = distribution.metadata
    if expression := stated.get("License-Expression"):
        return str(expression)
    classified = [
        value.rsplit("::", 1)[-1].strip()
        for value in stated.get_all("Classifier", [])
        if value.startswith("License ::")
    ]
    names = classified or [str(stated.get("License", ""))]
    return " AND ".join(PYTHON_NAMES.get(name.lower(), name.replace(" ", "-")) for name in names)


def check_python(policy: dict[str, Any]) -> tuple[str, list[str]]:
    """The runtime dependencies with all they bring along, and of each extra the packages it names.

    What those bring along in turn comes by the user's own choice of the extra.
    """
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    extras = [text for texts in project.get("optional-dependencies", {}).values() for text in texts]
    if not (project.get("dependencies") or extras):
        return "no Python packages", []
    # With the test requirements; not needed while there is nothing to check.
    from packaging.requirements import Requirement

    allowed = set(policy["licenses"]["allow"])
    todo = [(Requirement(text), True) for text in project.get("dependencies", [])]
    todo += [(Requirement(text), False) for text in extras]
    seen: set[str] = set()
    faults = []
    while todo:
        requirement, follow = todo.pop()
        name = requirement.name.lower()
        if name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            faults.append(f"{name}: is not installed here; run this with .cache/venv/bin/python (tools/python-env)")
            continue
        fault = licence_fault(python_licence(distribution), allowed)
        if fault:
            faults.append(f"{name} {distribution.version} (PyPI): {fault}")
        if follow:
            todo += [(Requirement(text), True) for text in distribution.requires or []]
    return f"{len(seen)} Python packages", faults


def main() -> None:
    policy = tomllib.loads((ROOT / "deny.toml").read_text())
    results = [check_crates(policy), check_python(policy)]
    faults = [fault for _, found in results for fault in found]
    for fault in faults:
        print(f"licences: {fault}")
    checked = " and ".join(what for what, _ in results)
    if faults:
        sys.exit(f"licences: {len(faults)} faults in {checked}; what is allowed, and why, stands in deny.toml")
    print(f"licences: {checked} keep to deny.toml")


if __name__ == "__main__":
    main()

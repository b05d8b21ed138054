#!/usr/bin/env python3
"""Finds dependencies of the workspace's crates that nothing in them names, and members of [workspace.dependencies] that no crate
takes. One that is wanted for its effect alone is named in `package.metadata.unused` of the crate, with the reason."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # in .cache/venv
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("dependencies", "dev-dependencies", "build-dependencies")


def tables(manifest: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Each kind of dependency, those of single platforms included."""
    every = [manifest, *manifest.get("target", {}).values()]
    return [(kind, table[kind]) for table in every for kind in KINDS if kind in table]


def unused_in(folder: Path) -> list[str]:
    manifest = tomllib.loads((folder / "Cargo.toml").read_text())
    excused = manifest.get("package", {}).get("metadata", {}).get("unused", {})
    sources = [place for place in folder.rglob("*.rs") if "target" not in place.relative_to(folder).parts]
    text = "\n".join(place.read_text() for place in sources if place.name != "build.rs")
    build = (folder / "build.rs").read_text() if (folder / "build.rs").is_file() else ""
    features = [name for names in manifest.get("features", {}).values() for name in names]
    found = []
    for kind, table in tables(manifest):
        for name in table:
            looked_in = build if kind == "build-dependencies" else text
            named = re.search(rf"\b{re.escape(name.replace('-', '_'))}\b", looked_in)
            if not named and name not in excused and f"dep:{name}" not in features:
                found.append(f"{folder.relative_to(ROOT)}: {kind}: {name}")
    return found


def main() -> int:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    folders = [ROOT / member for member in workspace["members"]]
    faults = [fault for folder in folders for fault in unused_in(folder)]
    taken = set()
    for folder in folders:
        for _, table in tables(tomllib.loads((folder / "Cargo.toml").read_text())):
            taken.update(table)
    faults += [f"[workspace.dependencies]: {name}" for name in workspace["dependencies"] if name not in taken]
    for fault in faults:
        print(f"unused: {fault}")
    if not faults:
        print(f"unused: the {len(folders)} crates of the workspace use every dependency they name")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Breaks one rule of the core at a time and shows which vectors and scenarios see it.

  python tests/mutations               every mutation of mutations.json
  python tests/mutations 1 4           these, by their number

Each is applied to a copy of what is committed or changed here, the Rust adapter is built from it, and the conformance runner
asks the rust surface those fixtures that the mutation names. One that nothing sees is a rule without a vector, and a failure.
The last line counts. `make mutations` runs it; each builds most of the core, so it takes its time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
COPY = ROOT / ".cache" / "mutations" / "copy"
# Kept between runs: what does not change is not built again.
TARGET = ROOT / ".cache" / "mutations" / "target"
FAIL = re.compile(r"^  FAIL rust: (.*)$", re.MULTILINE)
RESULT = re.compile(r"^conformance: (\d+) passed, (\d+) failed$", re.MULTILINE)
ENVIRONMENT = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "PYTHONDONTWRITEBYTECODE": "1"}


def copy() -> None:
    """The files that git knows, as they are now, with new times: what the last mutation has left is built again."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            place = COPY / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place)


def build() -> str:
    """What the compiler says where it does not succeed."""
    command = ["cargo", "build", "--quiet", "--locked", "--package", "tidings-adapter"]
    done = subprocess.run(command, check=False, cwd=COPY, env=ENVIRONMENT, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def failing(only: str) -> list[str]:
    """The fixtures with this in their name that fail; raises where nothing was run."""
    command = [sys.executable, "tests/conformance", "rust", "--only", only]
    done = subprocess.run(command, check=False, cwd=COPY, env=ENVIRONMENT, capture_output=True, text=True)
    match = RESULT.search(done.stdout)
    # The fixtures themselves count as one that passes.
    if match is None or int(match[1]) + int(match[2]) < 2:
        raise RuntimeError(f"{only}: nothing was run: {done.stdout}{done.stderr}")
    return FAIL.findall(done.stdout)


def try_one(mutation: dict[str, Any]) -> tuple[list[str], str]:
    """The fixtures that see it, and what is wrong with it itself."""
    place = COPY / mutation["file"]
    before = place.read_text()
    if before.count(mutation["old"]) != 1:
        return [], f"{mutation['file']} does not hold this once: {mutation['old']!r}"
    try:
        place.write_text(before.replace(mutation["old"], mutation["new"]))
        fault = build()
        return ([], fault) if fault else ([fixture for only in mutation["only"] for fixture in failing(only)], "")
    finally:
        place.write_text(before)


def main() -> int:
    mutations = json.loads((Path(__file__).parent / "mutations.json").read_text())["mutations"]
    chosen = [int(text) for text in sys.argv[1:]] or range(1, len(mutations) + 1)
    copy()
    if fault := build():
        print(f"what is here does not build:\n{fault}")
        return 1
    caught = 0
    for number in chosen:
        mutation = mutations[number - 1]
        fixtures, fault = try_one(mutation)
        caught += bool(fixtures)
        print(f"{number:2}. {mutation['name']} ({mutation['file']})\n    {mutation['rule']}")
        if fault:
            print(f"    BROKEN: {fault}", flush=True)
        elif not fixtures:
            print("    NOT SEEN by any fixture", flush=True)
        else:
            more = f", and {len(fixtures) - 3} more" if len(fixtures) > 3 else ""
            print(f"    {len(fixtures)} fail: {'; '.join(fixtures[:3])}{more}", flush=True)
    print(f"mutations: {caught} seen, {len(chosen) - caught} not seen", flush=True)
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Builds the adapter of Go, and becomes it: `python tests/adapters/go`.

The library is that of `cargo build -p tidings-c`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PROGRAM = ROOT / ".cache" / "go" / "adapter"


def is_stale() -> bool:
    """Go itself would know too, and take a second to say so for each of the processes of a scenario."""
    sources = [path for folder in (HERE, ROOT / "bindings" / "go") for path in folder.glob("*.go")]
    inputs = [*sources, HERE / "go.mod", ROOT / "include" / "tidings.h"]
    return not PROGRAM.is_file() or any(path.stat().st_mtime > PROGRAM.stat().st_mtime for path in inputs)


def build() -> None:
    loader = importlib.machinery.SourceFileLoader("tidings_go", str(ROOT / "tools" / "go"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    go = importlib.util.module_from_spec(spec)
    loader.exec_module(go)
    why = go.trouble()
    if why is not None:
        sys.exit(why)
    if not (go.library() / "libtidings.so").exists():
        build = ["cargo", "build", "--quiet", "--locked", "-p", "tidings-c", "--features", "testing"]
        subprocess.run(build, check=True, cwd=ROOT)
    # Several processes may do this at a time: the program appears whole.
    made = PROGRAM.with_name(f"adapter.{os.getpid()}")
    subprocess.run(["go", "build", "-o", str(made), "."], check=True, cwd=HERE, env=go.environment())
    made.replace(PROGRAM)


def main() -> None:
    if is_stale():
        build()
    os.execv(PROGRAM, [str(PROGRAM)])


if __name__ == "__main__":
    main()

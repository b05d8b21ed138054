"""Forks of a process whose threads are inside the library: no export hangs in a child, and each answers as the header says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from c.declared import HEADER, WARNINGS

HERE = Path(__file__).resolve().parent
CHILDREN = 20


def test_every_export_in_children_of_a_busy_process(compiler: str, library: Path, tmp_path: Path) -> None:
    hammer = tmp_path / "hammer.so"
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", *WARNINGS, "-shared", "-fPIC", "-pthread"]
    command = [compiler, *flags, "-I", str(HEADER.parent), str(HERE / "hammer.c"), "-o", str(hammer)]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    # `-W ignore`: Python warns of forks in a process with threads, which is what this is about.
    forks = [sys.executable, "-W", "ignore", str(HERE / "forks.py")]
    given = [str(library), str(hammer), f"sqlite:{tmp_path}/tidings.db", str(CHILDREN)]
    done = subprocess.run([*forks, *given], check=False, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"children: {CHILDREN}, failed: 0, threads failed: 0, told: True\n", done.stderr

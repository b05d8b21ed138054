"""Builds the adapter of C, where it is not built yet, and becomes it.

  python tests/adapters/c

It is a program over `include/tidings.h` and the library that `cargo build -p tidings-c` makes, with nothing else but C11 and
POSIX.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
LIBRARY = ROOT / "target" / "debug" / "libtidings_c.so"
OUT = ROOT / "target" / "adapter-c"
PROGRAM = OUT / "adapter"
FLAGS = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def is_stale() -> bool:
    inputs = [*HERE.glob("*.[ch]"), ROOT / "include" / "tidings.h"]
    return not PROGRAM.is_file() or any(path.stat().st_mtime > PROGRAM.stat().st_mtime for path in inputs)


def link(name: str) -> None:
    """The library under a name that the linker, or the loader, looks for."""
    try:
        (OUT / name).symlink_to(LIBRARY)
    except FileExistsError:
        pass


def build() -> None:
    """Several processes may do this at a time: the program appears whole."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("a C compiler is missing: apt-get install gcc")
    OUT.mkdir(parents=True, exist_ok=True)
    for name in ("libtidings.so", "libtidings.so.0"):
        link(name)
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        made = Path(folder) / "adapter"
        sources = sorted(str(path) for path in HERE.glob("*.c"))
        command = [
            compiler,
            *FLAGS,
            "-I",
            str(ROOT / "include"),
            *sources,
            "-o",
            str(made),
            "-L",
            str(OUT),
            "-ltidings",
        ]
        subprocess.run([*command, f"-Wl,-rpath,{OUT}"], check=True)
        made.replace(PROGRAM)


def main() -> None:
    if not LIBRARY.is_file():
        subprocess.run(
            ["cargo", "build", "--quiet", "--locked", "-p", "tidings-c", "--features", "testing"], check=True, cwd=ROOT
        )
    if is_stale():
        build()
    os.execv(PROGRAM, [str(PROGRAM)])


if __name__ == "__main__":
    main()

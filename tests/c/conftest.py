"""The library as `cargo build -p tidings-c --features testing` makes it, and as it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from c.declared import ROOT


@pytest.fixture(scope="session")
def library() -> Path:
    found = ROOT / "target" / "debug" / "libtidings_c.so"
    assert found.is_file(), "cargo build --locked -p tidings-c --features testing"
    return found


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("cc")
    assert found, "a C compiler: apt-get install gcc"
    return found


@pytest.fixture(scope="session")
def prefix(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library that is under test is installed, as `make install` does it."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(
        [ROOT / "tools" / "install-c", "--prefix", str(prefix), "--from", str(library.parent)], check=True, cwd=ROOT
    )
    return prefix

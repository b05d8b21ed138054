"""The package as it is installed."""

import importlib.metadata
import re
from pathlib import Path

import tidings
from tidings import _native

ROOT = Path(__file__).resolve().parents[2]


def test_one_version_everywhere() -> None:
    """The crate's, the module's and the distribution's version are the one in the workspace's Cargo.toml."""
    stated = re.search(r'(?m)^\[workspace\.package\]\nversion = "([^"]+)"', (ROOT / "Cargo.toml").read_text())
    assert stated is not None
    assert {_native.__version__, tidings.__version__, importlib.metadata.version("tidings")} == {stated[1]}


def test_package_is_typed() -> None:
    """PEP 561: type checkers read the package's annotations only when `py.typed` lies in it."""
    assert (Path(tidings.__file__).parent / "py.typed").is_file()

"""The servers that the suite is run against, one for each SDK, and how each is started."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent


@dataclass(frozen=True)
class Sdk:
    """One SDK's own server."""

    prepare: Callable[[], list[str]]
    """Builds what has to be built; the command, which takes `plain`, or `attached` and a database."""
    may_fail: tuple[str, ...] = ()
    """The scenarios that the SDK by itself fails."""
    trouble: Callable[[], str | None] = lambda: None
    """Why it cannot be run on this machine, or None."""
    path: str = "/mcp"
    """Where it serves, with {revision} where that differs."""


def _go() -> ModuleType:
    """tools/go, which knows how to build with the C library of this clone."""
    loader = importlib.machinery.SourceFileLoader("tidings_go", str(ROOT / "tools" / "go"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def go_trouble() -> str | None:
    """Why no Go program can be built here, or None."""
    return _go().trouble()


def go_program(source: Path, name: str) -> Path:
    """Builds the Go program in a folder, on the C library of this clone."""
    go = _go()
    if not (go.library() / "libtidings.so").exists():
        library = ["cargo", "build", "--quiet", "--locked", "-p", "tidings-c", "--features", "testing"]
        subprocess.run(library, check=True, cwd=ROOT)
    program = ROOT / ".cache" / "go" / name
    subprocess.run(["go", "build", "-o", str(program), "."], check=True, cwd=source, env=go.environment())
    return program


def rmcp_example(name: str) -> Path:
    """Builds that example of the adapter for rmcp."""
    # Without -p, cargo builds with the features of `cargo test`, which has then built all of it already.
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--example", name], check=True, cwd=ROOT)
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug" / "examples" / name


def _prepare_go() -> list[str]:
    return [str(go_program(HERE / "go", "official")), str(HERE / "fixture.json")]


def _prepare_rmcp() -> list[str]:
    return [str(rmcp_example("official"))]


SDKS: Final = {
    "python": Sdk(lambda: [sys.executable, str(HERE / "server.py")]),
    # The low-level server does not check `x-mcp-header`.
    "typescript": Sdk(
        lambda: ["node", str(HERE / "typescript" / "server.mjs")], ("http-custom-header-server-validation",)
    ),
    # The SDK has a handler for each era.
    "go": Sdk(_prepare_go, trouble=go_trouble, path="/{revision}"),
    "rmcp": Sdk(_prepare_rmcp),
}

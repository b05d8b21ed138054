"""tools/check-prerequisites on machines that lack something."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the script itself uses; every Debian has these.
BASE = ("dirname", "id", "mktemp", "rm", "sed", "uname")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that is the machine's whole PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in BASE:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    return tools


def install(machine: Path, name: str, script: str) -> None:
    (machine / name).write_text(f"#!/bin/sh\n{script}\n")
    (machine / name).chmod(0o755)


def run(machine: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return check(*arguments, env={"PATH": str(machine), "HOME": str(machine), "TMPDIR": str(machine), **more})


def check(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "tools" / "check-prerequisites"), *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_bare_machine_is_told_everything(machine: Path) -> None:
    done = run(machine, "--test", "--node", SSL_CERT_FILE="/nonexistent")
    assert done.returncode == 1
    missing = [line for line in done.stdout.splitlines() if line.startswith("missing: ")]
    for what in ("make", "C compiler", "Python 3.10", "venv and ensurepip", "certificate", "Rust 1.", "Node.js 20"):
        assert any(what in line for line in missing), what
    assert len(missing) == 7
    assert "apt-get install -y make build-essential python3 python3-venv ca-certificates nodejs npm" in done.stdout, (
        "one command for all packages"
    )
    assert "rustup" in done.stdout


@pytest.mark.parametrize(
    ("name", "script", "told"),
    [
        ("python3", "case $2 in *print*) echo 3.9;; *) exit 1;; esac", "Python 3.10 or later: python3 is 3.9"),
        ("rustc", "echo 'rustc 1.89.0 (0000000 2025-08-04)'", "rustc is 1.89"),
        ("rustc", "exit 1", "rustc does not run"),
        ("cc", "exit 1", "a working C compiler"),
    ],
)
def test_what_is_there_but_does_not_do(machine: Path, name: str, script: str, told: str) -> None:
    for tool in ("cargo", "rustup"):
        install(machine, tool, "exit 0")
    install(machine, "rustc", "echo 'rustc 1.90.0 (0000000 2025-09-14)'")
    install(machine, name, script)
    done = run(machine)
    assert done.returncode == 1
    assert told in done.stdout


def test_rust_outside_the_path_is_found(machine: Path) -> None:
    """rustup was installed, and the shell has not heard of it."""
    (machine / ".cargo" / "bin").mkdir(parents=True)
    install(machine / ".cargo" / "bin", "cargo", "exit 0")
    assert '. "$HOME/.cargo/env"' in run(machine).stdout


def test_this_machine_has_all() -> None:
    done = check("--test")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stdout


def test_node_without_npm_is_told(machine: Path) -> None:
    install(machine, "node", "echo v20.1.0")
    assert "missing: npm" in run(machine, "--node").stdout
    install(machine, "npm", "exit 0")
    assert "missing: npm" not in run(machine, "--node").stdout

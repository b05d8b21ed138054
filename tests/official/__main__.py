"""Runs the official MCP conformance suite on the SDKs' own servers, with our adapter and without, and compares.

  python tests/official              all SDKs, and both revisions that the suite has requirements for
  python tests/official SDK…         these only, of servers.py
  python tests/official --keep DIR   the suite's own reports stay there

A scenario passes when no check of it fails with us, be it what the SDK does by itself or the Tasks extension, which neither
serves, and none comes out worse with us than without. Where an SDK itself fails, `may_fail` names the scenario. The suite is pinned by package-lock.json and
installed into .cache/official; the TypeScript server needs what tools/node-env makes. Without npm the whole is skipped, without Go
its SDK, and with CI=true either is a failure. The last line reads `official: N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from comparing import Checks, faults, read_checks
from servers import HERE, ROOT, SDKS

CACHE: Final = ROOT / ".cache" / "official"
SUITE: Final = CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# The suite needs Node.js 22; the machine's own may be older.
NODE: Final = CACHE / "node_modules" / "node" / "bin" / "node"

REVISIONS: Final = ("2025-11-25", "2026-07-28")
INSTALL: Final = "apt-get install -y npm"
# Far above what a run takes: it only ends what hangs.
LIMIT_SECONDS: Final = 300


def install() -> None:
    """Have the suite as the lock file says. Quick when nothing changed."""
    wanted = hashlib.sha256()
    for name in ("package.json", "package-lock.json"):
        wanted.update((HERE / name).read_bytes())
    stamp = CACHE / "installed.stamp"
    if stamp.is_file() and stamp.read_text() == wanted.hexdigest() and NODE.is_file():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, CACHE / name)
    print("official: npm ci, into .cache/official", flush=True)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=CACHE, check=True)
    stamp.write_text(wanted.hexdigest())


class Fixture:
    """The server in a process of its own."""

    def __init__(self, sdk: str, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"official: the {sdk} fixture server does not start")
        self._port, self._path = int(line), SDKS[sdk].path

    def url(self, revision: str) -> str:
        """Where it serves that revision."""
        return f"http://127.0.0.1:{self._port}{self._path.format(revision=revision)}"

    def stop(self) -> None:
        """End it in good order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()


def run_suite(url: str, revision: str, reports: Path) -> Checks:
    """One run of the suite; what its checks came to."""
    reports.mkdir(parents=True)
    command = [str(NODE), str(SUITE), "server", "--url", url, "--requirements", revision, "-o", str(reports)]
    # Its exit code says whether all checks passed, which is not the question here.
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    found = read_checks(reports)
    if not found:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n")
        sys.exit(f"official: the suite gave no report for {revision}")
    return found


def run_both(reports: Path, sdk: str, command: list[str], *arguments: str) -> dict[str, Checks]:
    """Both revisions against one fixture server, by revision."""
    fixture = Fixture(sdk, [*command, *arguments])
    reports = reports / sdk / arguments[0]
    try:
        return {revision: run_suite(fixture.url(revision), revision, reports / revision) for revision in REVISIONS}
    finally:
        fixture.stop()


def without_npm() -> int:
    must = os.environ.get("CI") == "true"
    print(f"official: skipped, npm is missing; install it with: {INSTALL}")
    print(f"official: 0 passed, {int(must)} failed, {int(not must)} skipped")
    return int(must)


def compare(sdk: str, without: Checks, with_us: Checks, revision: str) -> tuple[int, int]:
    """Says what one revision came to; how many scenarios passed and how many failed."""
    wrong = faults(without, with_us, may_fail=SDKS[sdk].may_fail)
    for scenario, lines in sorted(wrong.items()):
        print(f"{'FAIL' if lines else 'ok':4}  {sdk}  {revision}  {scenario}")
        for line in lines:
            print(f"      {line}")
    failed = sum(bool(lines) for lines in wrong.values())
    return len(wrong) - failed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdk", nargs="*", choices=[*SDKS, []], metavar="SDK", help=", ".join(SDKS))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the suite's reports stay")
    options = parser.parse_args()
    if shutil.which("npm") is None:
        return without_npm()
    passed = failed = skipped = 0
    commands: dict[str, list[str]] = {}
    for sdk in options.sdk or SDKS:
        trouble = SDKS[sdk].trouble()
        if trouble is None:
            commands[sdk] = SDKS[sdk].prepare()
            continue
        print(f"skip  {sdk}: {trouble}")
        must = os.environ.get("CI") == "true"
        failed, skipped = failed + must, skipped + (not must)
    install()
    # A run waits most of its time, so that all of them together take hardly longer than one.
    with (
        tempfile.TemporaryDirectory(prefix="tidings-official-") as scratch,
        ThreadPoolExecutor(2 * len(SDKS)) as pool,
    ):
        reports = options.keep or Path(scratch) / "reports"
        running = {
            sdk: (
                pool.submit(run_both, reports, sdk, command, "plain"),
                pool.submit(run_both, reports, sdk, command, "attached", str(Path(scratch) / f"{sdk}.db")),
            )
            for sdk, command in commands.items()
        }
        found = {sdk: (without.result(), with_us.result()) for sdk, (without, with_us) in running.items()}
    for sdk, (without, with_us) in found.items():
        for revision in REVISIONS:
            here = compare(sdk, without[revision], with_us[revision], revision)
            passed, failed = passed + here[0], failed + here[1]
    print(f"official: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

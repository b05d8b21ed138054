"""Runs the fuzz targets, one after the other, each for so long.

  python3 tests/fuzz                        every target for 5 minutes
  python3 tests/fuzz --minutes 1 cursor     that one for a minute

libFuzzer (the crate libfuzzer-sys) does the looking, on the stable toolchain: coverage comes from flags of LLVM that need no
nightly. AddressSanitizer would need one, and finds nothing in crates without `unsafe`. The engine needs a C++ compiler.

What is interesting is kept in target/fuzz/corpus from run to run. A finding is made small, put into tests/fuzz/corpus, where
`cargo test -p tidings-fuzz` replays it from then on, and the command that repeats it is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "target" / "fuzz"
TARGETS = sorted(folder.name for folder in (HERE / "corpus").iterdir())

LLVM = [
    "sanitizer-coverage-level=4",
    "sanitizer-coverage-inline-8bit-counters",
    "sanitizer-coverage-pc-table",
    "sanitizer-coverage-trace-compares",
    "simplifycfg-branch-fold-threshold=0",
]
"""As cargo-fuzz sets them: counters at every edge, and what is compared with what."""

LONGEST = {"config": 20_000, "store": 80}
"""Bytes of an input; a config may have 16 KiB."""


def host() -> str:
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return next(line.removeprefix("host: ") for line in told.splitlines() if line.startswith("host: "))


def build() -> Path:
    """The folder with a program for each target."""
    if not shutil.which(os.environ.get("CXX", "c++")):
        sys.exit("fuzz: libFuzzer needs a C++ compiler: sudo apt-get install g++")
    triple = host()
    flags = [
        "--cfg",
        "fuzzing",
        "-Cpasses=sancov-module",
        "-Ccodegen-units=1",
        *(f"-Cllvm-args=-{one}" for one in LLVM),
    ]
    command = [
        "cargo",
        "build",
        "--locked",
        "--profile",
        "fuzz",
        "-p",
        "tidings-fuzz",
        "--features",
        "engine",
        "--bins",
    ]
    # With a target of its own, build scripts and macros stay as they are.
    command += ["--target", triple, "--target-dir", str(BUILD)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "RUSTFLAGS": " ".join(flags)}, check=True)
    return BUILD / triple / "fuzz"


def scratch() -> dict[str, str]:
    """Stores are made and thrown away by the thousand: in memory, where there is a file system for that."""
    memory = Path("/dev/shm")
    return {"TMPDIR": str(memory)} if memory.is_dir() and os.access(memory, os.W_OK) else {}


def fuzz(program: Path, target: str, seconds: int) -> bool:
    """Whether nothing was found."""
    grown, found, seeds = BUILD / "corpus" / target, BUILD / "found" / target, HERE / "corpus" / target
    for folder in (grown, found):
        folder.mkdir(parents=True, exist_ok=True)
    for old in found.iterdir():
        old.unlink()
    environment = {**os.environ, **scratch()}
    command = [str(program), f"-artifact_prefix={found}/", f"-dict={HERE / 'words.dict'}", "-print_final_stats=1"]
    # Only ends what hangs: a target counts its steps, and on a machine with other things to do any of them may be slow.
    command += [
        "-timeout=120",
        "-report_slow_units=120",
        "-rss_limit_mb=4096",
        f"-max_len={LONGEST.get(target, 4_096)}",
    ]
    print(f"\n==> fuzz: {target}, {seconds} s", flush=True)
    done = subprocess.run(
        [*command, f"-max_total_time={seconds}", str(grown), str(seeds)], cwd=ROOT, env=environment, check=False
    )
    findings = sorted(found.iterdir())
    for finding in findings:
        small = found / f"small-{finding.name}"
        shrink = [
            str(program),
            "-minimize_crash=1",
            "-max_total_time=60",
            f"-exact_artifact_path={small}",
            str(finding),
        ]
        quiet = subprocess.DEVNULL
        subprocess.run(shrink, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet, check=False)
        content = (small if small.exists() else finding).read_bytes()
        kept = seeds / f"found-{hashlib.sha256(content).hexdigest()[:12]}"
        kept.write_bytes(content)
        print(f"\nfuzz: {target} found {kept.relative_to(ROOT)}; to repeat it:")
        print(
            f"  TIDINGS_FUZZ_INPUT={kept.relative_to(HERE)} cargo test -p tidings-fuzz --test replay -- --exact {target}"
        )
    return done.returncode == 0 and not findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all when none is named")
    parser.add_argument("--minutes", type=float, default=5, help="for each target (5)")
    options = parser.parse_args()
    if unknown := sorted(set(options.targets) - set(TARGETS)):
        parser.error(f"no target is called {', '.join(unknown)}")
    programs = build()
    failed = []
    for target in options.targets or TARGETS:
        if not fuzz(programs / f"fuzz-{target}", target, max(1, round(options.minutes * 60))):
            failed.append(target)
    print(f"\nfuzz: {', '.join(failed)} failed" if failed else "\nfuzz: nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the numbers were measured on, and the floor of the medium beside them."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

BLOCK = b"\x5a" * 4096
SYNCS = 64


@dataclass(frozen=True)
class Floor:
    """Medians of `write` + `fdatasync` of 4 KiB, in microseconds."""

    extending: float
    rewriting: float

    def comparable(self, other: Floor) -> bool:
        """Whether numbers over the two may be compared: neither median is more than half as high again."""
        pairs = ((self.extending, other.extending), (self.rewriting, other.rewriting))
        return all(max(pair) <= 1.5 * min(pair) for pair in pairs)


def floor(directory: Path) -> Floor:
    """Measures the disk under `directory`; takes about 25 ms on a disk of 0.2 ms."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        return Floor(*(_syncs(file.fileno()) for _ in range(2)))


def _syncs(fd: int) -> float:
    took = []
    for n in range(SYNCS):
        begun = time.perf_counter()
        os.pwrite(fd, BLOCK, n * len(BLOCK))
        os.fdatasync(fd)
        took.append((time.perf_counter() - begun) * 1e6)
    return median(took)


def load() -> str:
    """The load averages over 1 and 5 minutes: other work on the machine shows here."""
    return " and ".join(f"{part:.2f}" for part in os.getloadavg()[:2])


def describe(packages: list[str]) -> list[str]:
    """One `name: value` each."""
    cpu = "not told"
    if (info := Path("/proc/cpuinfo")).exists():
        names = (line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line)
        cpu = next(names, cpu)
    return [
        f"cpu: {cpu}, {os.cpu_count()} cores",
        f"kernel: {platform.release()}",
        f"Python: {platform.python_implementation()} {sys.version.split()[0]}",
        "packages: " + ", ".join(f"{name} {version(name)}" for name in packages),
    ]

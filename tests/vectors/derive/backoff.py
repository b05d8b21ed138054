"""How long to wait: exact integer arithmetic of any size."""

from __future__ import annotations

from _files import INT, TEXT, RuleFile, obj

SELF = "derive/backoff.py"
DESIGN = "DESIGN section 6: full jitter from 1 s, cap growing to 30 min"


def ceiling() -> RuleFile:
    file = RuleFile(
        "backoff.ceiling",
        "rules",
        "The most that is waited after the n-th failed attempt: the base, doubled each time, never more than the cap.",
        obj({"baseMs": INT, "capMs": INT, "failures": INT}),
        obj({"ms": INT}),
        SELF,
    )

    def add(base: int, cap: int, failures: int, source: str = DESIGN) -> None:
        ms = min(base * 2 ** min(max(0, failures - 1), 100), cap)
        file.add(
            f"{base} to {cap}, failure {failures}",
            source,
            {"baseMs": base, "capMs": cap, "failures": failures},
            {"ms": ms},
        )

    for failures in range(1, 14):
        add(1_000, 1_800_000, failures)
    edges = "own decision: no overflow, no wait below zero"
    for base, cap, failures in (
        (1_000, 1_800_000, 0),
        (1_000, 1_800_000, 64),
        (1_000, 1_800_000, 65),
        (1_000, 1_800_000, 2**32 - 1),
        (0, 1_800_000, 1),
        (0, 1_800_000, 100),
        (5_000, 1_000, 1),
        (1, 2**53 - 1, 53),
        (1, 2**53 - 1, 54),
        (3, 2**53 - 1, 60),
    ):
        add(base, cap, failures, edges)
    return file


def jitter() -> RuleFile:
    file = RuleFile(
        "backoff.jitter",
        "rules",
        "A wait from 0 to the ceiling, both included, spread evenly over all values of `random`, 64 bits in hexadecimal.",
        obj({"ceilingMs": INT, "random": TEXT}),
        obj({"ms": INT}),
        SELF,
    )
    for limit in (0, 1, 1_000, 1_800_000, 2**53 - 1):
        for random in (0, 1, 2**63 - 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF):
            # One of limit + 1 equal parts of the range.
            ms = random * (limit + 1) // 2**64
            assert 0 <= ms <= limit
            file.add(
                f"{limit} ms, {random:#x}",
                DESIGN + "; own decision: scaled by a multiplication",
                {"ceilingMs": limit, "random": f"{random:016x}"},
                {"ms": ms},
            )
    return file


def files() -> list[RuleFile]:
    return [ceiling(), jitter()]

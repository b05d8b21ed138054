"""How much of ``tasks/stream`` one client may use: SEP-2694 wants streams at once and attempts to resume limited."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

_MINUTE: Final = 60.0
_PRUNE_AT: Final = 1024
"""So many allowances are kept before those that are full again are forgotten."""


class StreamLimits:
    """Counts in one process. `clock` gives seconds that only grow."""

    def __init__(self, streams: int, resumes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._streams = streams
        self._resumes = resumes
        self._clock = clock
        self._open: Counter[str] = Counter()
        self._left: dict[tuple[str, str], tuple[float, float]] = {}
        """By client and task: how many attempts were left, and when."""

    @contextmanager
    def stream(self, client: str, task_id: str) -> Iterator[None]:
        """Hold a stream of the task. Raises the JSON-RPC error for a client that has too many or asks too often."""
        if self._open[client] >= self._streams:
            data = {"reason": "limit", "limit": "streams", "max": self._streams}
            raise MCPError(INVALID_PARAMS, "Too many streams of tasks at once", data)
        self._take_attempt(client, task_id)
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if self._open[client] <= 0:
                del self._open[client]

    def _take_attempt(self, client: str, task_id: str) -> None:
        now = self._clock()
        left = self._allowance(self._left.get((client, task_id)), now)
        if left < 1:
            wait = (1 - left) * _MINUTE / self._resumes
            data = {"reason": "limit", "limit": "resumes", "max": self._resumes, "retryAfterMs": round(wait * 1000)}
            raise MCPError(INVALID_PARAMS, "The stream of this task was asked for too often", data)
        if len(self._left) >= _PRUNE_AT:
            self._left = {key: kept for key, kept in self._left.items() if self._allowance(kept, now) < self._resumes}
        self._left[client, task_id] = left - 1, now

    def _allowance(self, kept: tuple[float, float] | None, now: float) -> float:
        """Attempts that are left: as many as a minute allows, which come back one after the other."""
        if kept is None:
            return float(self._resumes)
        left, at = kept
        return min(float(self._resumes), left + (now - at) * self._resumes / _MINUTE)

"""Counting what went wrong where nothing may be raised, and saying so in the log without flooding it."""

from __future__ import annotations

import logging
import time
from typing import Final

_log: Final = logging.getLogger("tidings.mcp")

_QUIET: Final = 60.0
"""Seconds for which a second line about the same thing is held back."""


class Trouble:
    """Failures of one adapter. Never raises."""

    __slots__ = ("_spoken", "count")

    def __init__(self) -> None:
        self.count = 0
        """How many failures were swallowed since the start."""
        self._spoken: dict[str, float] = {}

    def swallow(self, what: str, error: BaseException) -> None:
        """Count `error`, of which an operator is told by somebody else."""
        self.count += 1
        _log.debug("%s: %s: %s", what, type(error).__name__, error)

    def report(self, what: str, error: BaseException) -> None:
        """Count `error`; log one line about `what`, at most one a minute."""
        self.count += 1
        now = time.monotonic()
        last = self._spoken.get(what)
        if last is not None and now - last < _QUIET:
            return
        self._spoken[what] = now
        _log.error("%s: %s: %s (%d failures so far)", what, type(error).__name__, error, self.count)

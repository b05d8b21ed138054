"""Warnings and errors of the core, on their way to Python's `logging`.

The core keeps them until a thread of Python's comes by (a port that is drained, an append, the end of the process), so
that none of its threads ever calls Python.
"""

from __future__ import annotations

import logging

from . import _native


def flush() -> None:
    """Logs what waits, under the logger `tidings` and its children."""
    records, dropped = _native.take_log()
    for level, name, message in records:
        logging.getLogger(name).log(level, "%s", message)
    if dropped:
        logging.getLogger("tidings").warning("%d more lines were dropped before these", dropped)

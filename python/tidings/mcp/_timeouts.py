"""How long tools may take."""

from __future__ import annotations

from collections.abc import Mapping

Timeout = float | Mapping[str, float] | None
"""Seconds for every tool, or by tool name, or none."""


def limit_of(timeout: Timeout, tool: str) -> float | None:
    """The seconds that a tool has."""
    return timeout.get(tool) if isinstance(timeout, Mapping) else timeout

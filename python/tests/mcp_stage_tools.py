"""What the tools of a test server do, whichever SDK they are tools of."""

from __future__ import annotations

from typing import Any

import anyio
from mcp_wire import Gate


class Stage:
    """What the tools of a test server do and where they wait."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As new, for another call."""
        self.gate = Gate()
        """Opened by the test: lets a tool go on."""
        self.reached = Gate()
        """Opened by a tool: it has come to the gate."""
        self.cancelled = Gate()
        """Opened by a tool that was cancelled."""
        self.done = Gate()
        """Opened by `steps` when it has said everything."""
        self.params: list[dict[str, Any]] = []
        """The parameters each call reached a tool with."""
        self.metas: list[dict[str, Any]] = []
        """And the `_meta` that the SDK shows to the tool."""

    async def steps(self, reporter: Any, count: int, hold_at: int, size: int = 0) -> str:
        """Report `count` steps; wait at the gate after `hold_at` of them (never, if negative)."""
        try:
            for step in range(count + 1):
                if step == hold_at:
                    self.reached.open()
                    await self.gate.passed()
                if step < count:
                    await reporter.report_progress(step + 1, count, f"step {step + 1}" + "x" * size)
            self.done.open()
            return "done"
        except anyio.get_cancelled_exc_class():
            self.cancelled.open()
            raise

    async def stubborn(self) -> str:
        """Cannot be stopped: answers something even when it is cancelled."""
        try:
            self.reached.open()
            await self.gate.passed()
            return "done"
        except anyio.get_cancelled_exc_class():
            self.cancelled.open()
            return ""

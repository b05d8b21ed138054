"""Which tool calls become tasks, and on which terms."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .. import Task

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The Tasks extension (SEP-2663)."""

AUTO: Final = "auto"
ALWAYS: Final = "always"
NEVER: Final = "never"
REQUIRED: Final = "required"
_MODES: Final = (AUTO, ALWAYS, NEVER, REQUIRED)

EVENTS_GONE: Final = -32010
"""SEP-2694's code. It lies in a range where 2026-07-28 allows no new codes, so that clients go by ``data.reason``."""


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """How tool calls become tasks; `attach(tasks="auto")` stands for ``Tasks()``. Times are seconds.

    Raises ValueError or TypeError for a value out of range.
    """

    inline: float = 2.0
    """How long a call runs as a plain call before it becomes a task."""
    ttl: float = 3600.0
    """How long a task can be asked for after its end. At most what the hub's retention keeps of a closed stream."""
    poll: float = 1.0
    """How often a client should ask."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """By tool name: ``"always"`` a task and at once, ``"never"``, ``"auto"``, which all others are, or ``"required"``: as
    ``"auto"``, and a request of 2026-07-28 that does not declare the extension is refused with -32021."""
    events_gone_code: int = EVENTS_GONE
    """The JSON-RPC code of ``events_gone`` from ``tasks/stream``."""
    streams: int = 16
    """How many streams of tasks a principal, or else a session, may read at once in one process; where there is neither, so
    many of one task."""
    resumes: int = 60
    """How many times a minute each of them may ask for the stream of one task."""

    def __post_init__(self) -> None:
        for name in ("inline", "ttl", "poll"):
            seconds = getattr(self, name)
            number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
            if not number or not math.isfinite(seconds) or seconds <= 0:
                raise ValueError(f"{name} must be a finite number of seconds above 0, not {seconds!r}")
        for tool, mode in self.tools.items():
            if mode not in _MODES:
                raise ValueError(f"tools[{tool!r}] must be one of {', '.join(map(repr, _MODES))}, not {mode!r}")
        for name in ("streams", "resumes"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a count, 1 or more, not {count!r}")
        if isinstance(self.events_gone_code, bool) or not isinstance(self.events_gone_code, int):
            raise TypeError(f"events_gone_code must be an int, not {self.events_gone_code!r}")

    def mode(self, tool: object) -> str:
        """What becomes of calls of this tool."""
        return self.tools.get(tool, AUTO) if isinstance(tool, str) else AUTO


def checked(tasks: object) -> Tasks | None:
    """What `attach` was given, or None where there are to be no tasks. Raises ValueError for anything else."""
    if tasks == "off":
        return None
    if tasks == "auto":
        return Tasks()
    if isinstance(tasks, Tasks):
        return tasks
    raise ValueError(f'tasks must be "off", "auto" or a tidings.mcp.Tasks, not {tasks!r}')


def task_result(task: Task, policy: Tasks) -> dict[str, Any]:
    """The members of a task on the wire."""
    detailed: dict[str, Any] = json.loads(task.json)
    detailed["pollIntervalMs"] = round(policy.poll * 1000)
    return detailed

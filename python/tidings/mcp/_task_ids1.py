"""The ids of tasks of mcp 1.x: a call's id in the SDK's own spelling, so that the SDK's checks of them hold too."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base32, in which the core writes its ids."""
_PREFIX: Final = "call_"
_LENGTH: Final = 26
_TASK_ID: Final = re.compile(r"(?:([0-9a-f]{32}):)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")
"""``scope:uuid``, as ``run_task()`` of the SDK makes them, or only the uuid."""


def scope_of(task_id: str | None) -> str | None:
    """The scope of the SDK's session in a task id, if there is one."""
    match = _TASK_ID.match(task_id or "")
    return match[1] if match else None


def task_id_of(call_id: str, scope: str | None) -> str:
    """The task id of a call: its 128 bits as a uuid, behind the scope if there is one."""
    bits = 0
    for digit in call_id.removeprefix(_PREFIX):
        bits = bits << 5 | _DIGITS.index(digit)
    own = str(UUID(int=bits))
    return own if scope is None else f"{scope}:{own}"


def call_id_of(task_id: str) -> str | None:
    """The call of a task id; None for what is none."""
    match = _TASK_ID.match(task_id)
    if match is None:
        return None
    bits = UUID(match[2]).int
    digits = [_DIGITS[bits >> 5 * place & 31] for place in range(_LENGTH)]
    return _PREFIX + "".join(reversed(digits))

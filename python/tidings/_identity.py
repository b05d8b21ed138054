"""Who and what an event belongs to."""

from __future__ import annotations

from typing import TypedDict


class Identity(TypedDict, total=False):
    """The members an identity may have, all optional. A client rebuilds a transcript by them."""

    task: str
    session: str
    turn: str
    toolCall: str
    sourceType: str

"""Whose an MCP session is, on record: what a process that does not hold the session has to know before it serves it.

The record is a small stream in the session's own scope. Its first event names the principal. It is open and its writer
alive exactly while the session lives somewhere; it is closed when the session is over, with one more event when it was
the client that ended it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Final

from .. import CursorError, Gap, Hub, Writer

_NAME: Final = "owner"

_OWNER: Final = "io.tidings.session"
_DELETED: Final = "io.tidings.session.deleted"

_AGAIN: Final = 3600.0
"""Seconds after which the record is written again, so that retention by age does not take it from a session in use."""


def scope_of(session_id: str) -> str:
    """The scope of a session's streams."""
    return "session:" + session_id


class Owner:
    """The record of a session that lives in this process. May raise what the hub raises."""

    __slots__ = ("_closed", "_hub", "_payload", "_recorded", "_scope", "_writer")

    def __init__(self, hub: Hub, scope: str, principal: str | None) -> None:
        self._hub = hub
        self._scope = scope
        self._payload = json.dumps({"principal": principal}, separators=(",", ":")).encode()
        self._writer: Writer | None = None
        self._recorded: float | None = None
        self._closed = False

    def record(self) -> None:
        """Put it on record, unless it is already. Takes microseconds; the commit follows."""
        now = time.monotonic()
        if self._closed or (self._recorded is not None and now - self._recorded < _AGAIN):
            return
        if self._writer is None:
            self._writer = self._hub.new_writer(self._scope, _NAME)
        self._writer.append(self._payload, type=_OWNER, give_up=True)
        self._recorded = now

    async def committed(self) -> bool:
        """Wait until other processes can look it up; `False` where nothing is on record yet."""
        if self._writer is None:
            return False
        await self._writer.flush()
        return True

    def close(self, *, deleted: bool) -> None:
        """The session is over; `deleted`: its client said so."""
        if self._closed or self._writer is None:
            return
        self._closed = True
        if deleted:
            self._writer.append(b"{}", type=_DELETED, close=True, give_up=True)
        else:
            self._writer.close()


@dataclass(frozen=True)
class Record:
    """What the store knows of a session."""

    principal: str | None
    alive: bool
    """Whether some process still holds it."""


def look_up(hub: Hub, session_id: str) -> Record | None:
    """The record of a session, or None when there is none or its client has ended it. Blocks for a read."""
    try:
        tail = hub.stream(scope_of(session_id), _NAME).tail()
    except CursorError:
        return None
    try:
        principal: str | None = None
        known = False
        while batch := tail.take():
            for item in batch:
                if isinstance(item, Gap):
                    continue
                if item.type == _DELETED:
                    return None
                if item.type == _OWNER:
                    principal = json.loads(item.payload)["principal"]
                    known = True
        # None is the end of a stream that was closed, an empty list that more may come.
        return Record(principal, batch is not None and not tail.abandoned()) if known else None
    finally:
        tail.close()

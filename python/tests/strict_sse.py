"""A parser of event streams by the letter of the WHATWG standard (HTML, 9.2.5 and 9.2.6), for bytes that come in any pieces.

What clients' own parsers got wrong is in the field reports B05, B06 and B09; this one is what senders are tested against.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One event as it is dispatched."""

    type: str
    data: str
    last_id: str


class EventStream:
    """What a client knows of a stream."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.last_id = ""
        """What a reconnect names; nothing is named when it is empty."""
        self.retry: int | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._begun = False
        self._id = ""
        self._type = ""
        self._data: list[str] = []

    def feed(self, pieces: Iterable[bytes]) -> EventStream:
        """Take the bytes, in whatever pieces they come."""
        for piece in pieces:
            self._text += self._decode.decode(piece)
            if not self._begun and self._text:
                self._begun = True
                self._text = self._text.removeprefix("\ufeff")  # one, and only here
            self._lines()
        return self

    def _lines(self) -> None:
        while True:
            at = min((self._text.find(end) for end in "\r\n" if end in self._text), default=-1)
            if at < 0 or (self._text[at] == "\r" and at + 1 == len(self._text)):
                return  # a CR at the very end may be half of a CRLF
            line, rest = self._text[:at], self._text[at + 1 :]
            self._text = rest[1:] if self._text[at] == "\r" and rest.startswith("\n") else rest
            self._line(line)

    def _line(self, line: str) -> None:
        if not line:
            self._dispatch()
            return
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ") if colon else ""
        if field == "event":
            self._type = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value)

    def _dispatch(self) -> None:
        self.last_id = self._id
        if self._data:
            self.events.append(Event(self._type or "message", "\n".join(self._data), self.last_id))
        self._type, self._data = "", []

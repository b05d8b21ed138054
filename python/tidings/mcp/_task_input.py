"""What a task asks of its client and is answered: two streams beside the task's events, so that any process may do either."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from .. import CursorError, Event, Gap, Hub, Tail
from ._wire import dumps

_QUESTIONS: Final = "questions"
"""The newest event of this stream holds what is outstanding."""
_ANSWERS: Final = "answers"
"""Every event of this stream holds answers."""

ASKED_EVENT: Final = "io.tidings.input_required"
"""On the task's own stream: the keys of what it now asks for; the rest is told by ``tasks/get``."""


class TaskInput:
    """The input of one task, by the scope of its streams. All of it is on disk when a method returns."""

    def __init__(self, hub: Hub, scope: str) -> None:
        self._questions = hub.stream(scope, _QUESTIONS)
        self._answers = hub.stream(scope, _ANSWERS)

    async def outstanding(self) -> dict[str, Any]:
        """What is asked for and not answered, also by answers that the task has not yet taken."""
        try:
            head = (await self._questions.read(limit=1)).head_seq
            page = await self._questions.read(after=head - 1 if head else None)
            asked: dict[str, Any] = json.loads(page.events[-1].payload) if page.events else {}
            # A name is used once in a task's life, so that an answer is to this question, whenever it came.
            answered = await self._answered() if asked else set()
        except CursorError:
            return {}  # it never asked for anything, or its time is over
        return {key: request for key, request in asked.items() if key not in answered}

    async def _answered(self) -> set[str]:
        answered: set[str] = set()
        after: int | None = None
        while True:
            page = await self._answers.read(after=after)
            for event in page.events:
                answered.update(json.loads(event.payload))
            if not page.events or page.events[-1].seq == page.head_seq:
                return answered
            after = page.events[-1].seq

    async def answer(self, responses: Mapping[str, Any]) -> None:
        """Give answers to whoever runs the task."""
        await self._answers.append(dumps(dict(responses)), durability="disk")

    async def ask(self, requests: Mapping[str, Any]) -> Tail:
        """Say what is outstanding from now on; a tail of the answers to it."""
        # The event makes the stream, and is where the answers begin.
        begin = await self._answers.append(b"{}")
        tail = self._answers.tail(begin)
        await self.change(requests)
        return tail

    async def change(self, requests: Mapping[str, Any]) -> None:
        """Say that only this is outstanding."""
        await self._questions.append(dumps(dict(requests)), durability="disk")

    async def close(self) -> None:
        """Nothing more is asked: retention may take the streams in its time."""
        await self._questions.close()
        await self._answers.close()


def answers_of(item: Event | Gap) -> dict[str, Any]:
    """The answers in what a tail of them gave."""
    found: dict[str, Any] = json.loads(item.payload) if isinstance(item, Event) else {}
    return found


class Keys:
    """The names of a task's questions on the wire, which are unique for the task's life (SEP-2663); a tool's need not be."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def name(self, requests: Mapping[str, Any]) -> dict[str, str]:
        """Names for the questions of one round: by the name on the wire, the tool's own."""
        names: dict[str, str] = {}
        for key in requests:
            wire, number = key, 2
            while wire in self._used:
                wire, number = f"{key}#{number}", number + 1
            self._used.add(wire)
            names[wire] = key
        return names

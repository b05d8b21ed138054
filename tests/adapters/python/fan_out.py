"""The steps about outboxes: who is told what, counted and handed out."""

from __future__ import annotations

import json
from typing import Any

from tidings.fanout import Listener, Notice, Outbox, Profile, Sink

Given = dict[str, Any]


def profile(given: Given) -> Profile:
    return Profile(given["version"], given["server"], given["client"])


class Outboxes:
    """Outboxes with their sinks and listeners, by the names the scenario gave them."""

    def __init__(self) -> None:
        self.outboxes: dict[str, Outbox] = {}
        self.sinks: dict[str, Sink] = {}
        self.listeners: dict[str, Listener] = {}

    def of(self, given: Given) -> Outbox:
        return self.outboxes[given["outbox"]]

    def name_of(self, handle: Sink | Listener) -> str:
        both = [*self.sinks.items(), *self.listeners.items()]
        [name] = [name for name, other in both if other == handle]
        return name

    def told(self, notices: list[Notice]) -> Given:
        """By the names of their connections, between which no order is promised."""
        notices = sorted(notices, key=lambda notice: self.name_of(notice.sink))
        return {
            "notices": [
                [
                    self.name_of(notice.sink),
                    self.name_of(notice.listener),
                    notice.method,
                    None if notice.params is None else json.loads(notice.params),
                ]
                for notice in notices
            ]
        }

    async def add_sink(self, given: Given) -> Given:
        deadline = given["deadlineMs"] / 1000 if "deadlineMs" in given else None
        self.sinks[given["as"]] = self.of(given).add_sink(given.get("principal"), deadline=deadline)
        return {}

    async def attend(self, given: Given) -> Given:
        self.listeners[given["as"]] = self.of(given).attend(self.sinks[given["sink"]], profile(given))
        return {}

    async def listen(self, given: Given) -> Given:
        id = json.loads(given["id"])
        sink = self.sinks[given["sink"]]
        self.listeners[given["as"]] = self.of(given).listen(sink, profile(given), id, given["filter"])
        return {}

    async def open(self, given: Given) -> Given:
        self.of(given).open(self.listeners[given["listener"]])
        return {}

    async def subscribe(self, given: Given) -> Given:
        self.of(given).subscribe(self.listeners[given["listener"]], profile(given), given["uri"])
        return {}

    async def unsubscribe(self, given: Given) -> Given:
        self.of(given).unsubscribe(self.listeners[given["listener"]], profile(given), given["uri"])
        return {}

    async def set_reachable(self, given: Given) -> Given:
        self.of(given).set_reachable(self.sinks[given["sink"]], given["reachable"])
        return {}

    async def end(self, given: Given) -> Given:
        self.of(given).end(self.listeners[given["listener"]])
        return {}

    async def end_all(self, given: Given) -> Given:
        self.of(given).end_all()
        return {}

    async def cancel(self, given: Given) -> Given:
        return {"ended": self.of(given).cancel(self.listeners[given["listener"]])}

    async def drop_sink(self, given: Given) -> Given:
        return {"listeners": self.of(given).drop_sink(self.sinks[given["sink"]])}

    async def broke(self, given: Given) -> Given:
        return {"listeners": self.of(given).broke(self.sinks[given["sink"]])}

    async def written(self, given: Given) -> Given:
        return {"alive": self.of(given).written(self.sinks[given["sink"]], given["count"])}

    async def take(self, given: Given) -> Given:
        return self.told(self.of(given).take())

    async def next(self, given: Given) -> Given:
        notices: list[Notice] = []
        while len(notices) < given["count"]:
            await self.of(given).ready()
            notices += self.of(given).take()
        return self.told(notices)

    async def count(self, given: Given) -> Given:
        return {"listeners": len(self.of(given))}

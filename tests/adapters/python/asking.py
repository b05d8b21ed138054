"""Tools that wait for their client's answers, while the scenario goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tidings import Hub


class Asking:
    """By the names the scenario gave them: a task of the event loop each, or a thread where there is none."""

    def __init__(self, mode: str) -> None:
        self._threads = ThreadPoolExecutor() if mode == "sync" else None
        self._asking: dict[str, Future[bytes] | Awaitable[bytes]] = {}

    def begin(self, name: str, hub: Hub, work: Coroutine[Any, Any, bytes]) -> None:
        self._asking[name] = self._threads.submit(hub.run, work) if self._threads else asyncio.ensure_future(work)

    async def end(self, name: str) -> bytes:
        asking = self._asking.pop(name)
        return asking.result() if isinstance(asking, Future) else await asking

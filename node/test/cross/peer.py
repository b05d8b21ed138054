"""A Python process on a store, asked by JSON lines on standard input: {"op", …} for {"out"} or {"error"}. Ends with it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import tidings
from tidings.webhook import StoredSeen


class Peer:
    def __init__(self, path: str, port: int) -> None:
        self.hub = tidings.Hub(
            f"sqlite:{path}", allow_networks=["127.0.0.0/8"], allow_http=True, allow_ports=[port] if port else []
        )
        self.tails: dict[str, tidings.Tail] = {}
        self.calls: dict[str, tidings.Call] = {}
        self.seen = StoredSeen(self.hub)

    async def open(self) -> None:
        self.hub.open()

    async def append(self, scope: str, name: str, payload: str) -> int:
        return await self.hub.stream(scope, name).append(payload)

    async def write(self, scope: str, name: str, payloads: list[str], close: bool) -> list[str]:
        """By a writer of its own; the cursors."""
        writer = self.hub.new_writer(scope, name)
        cursors = [writer.append(payload) for payload in payloads]
        if close:
            writer.close()
        await writer.flush()
        return cursors

    async def close_stream(self, scope: str, name: str) -> None:
        await self.hub.stream(scope, name).close()

    async def tail(self, scope: str, name: str) -> None:
        self.tails[name] = self.hub.stream(scope, name).tail()

    async def resume(self, scope: str, name: str, cursor: str) -> None:
        self.tails[name] = self.hub.resume(scope, cursor)

    async def rest(self, name: str) -> list[str]:
        """All that a tail gives until its stream is closed."""
        return [bytes(item.payload).decode() async for item in self.tails.pop(name)]  # type: ignore[union-attr]

    async def call(self, config: Any, end: bool, task: bool) -> str:
        call = await self.hub.begin_call(
            config=None if config is None else json.dumps(config),
            principal="p",
            request_id=1,
            tool="t",
            task_ttl=60 if task else None,
        )
        self.calls[call.id] = call
        if end:
            await call.complete(b"{}")
        return call.id

    async def task(self, id: str, principal: str) -> str | None:
        found = self.hub.task(id, principal=principal)
        return None if found is None else found.status

    async def cancel_call(self, id: str) -> bool:
        return await self.hub.cancel_call(id, principal="p")

    async def ended(self, id: str) -> list[str | None]:
        ended = await self.calls[id].ended()
        return [ended.outcome, ended.reason]

    async def has(self, id: str) -> bool:
        return await self.seen.has(id)

    async def add(self, id: str) -> None:
        await self.seen.add(id)

    async def pause(self, paused: bool) -> None:
        self.hub.pause() if paused else self.hub.unpause()

    async def attempts(self) -> int:
        return self.hub.stats().attempts


async def main(path: str, port: int) -> None:
    peer = Peer(path, port)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        try:
            answer = {"out": await getattr(peer, asked.pop("op"))(**asked)}
        except tidings.TidingsError as error:
            answer = {"error": error.code}
        print(json.dumps(answer), flush=True)
    await peer.hub.close()


asyncio.run(main(sys.argv[1], int(sys.argv[2])))

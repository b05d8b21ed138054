"""A peer of `deliveries`: signed posts in a loop that keeps nothing, by aiohttp or httpx, on connections that stay open.

    python _post.py aiohttp|httpx PORT COUNT IN_FLIGHT SECRET BODY

prints the seconds they took and the processor seconds they used.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

Post = Callable[[bytes, dict[str, str]], Awaitable[int]]


@asynccontextmanager
async def with_aiohttp(url: str, in_flight: int) -> Any:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:

        async def post(body: bytes, headers: dict[str, str]) -> int:
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
                return response.status

        yield post


@asynccontextmanager
async def with_httpx(url: str, in_flight: int) -> Any:
    import httpx

    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client:

        async def post(body: bytes, headers: dict[str, str]) -> int:
            return (await client.post(url, content=body, headers=headers)).status_code

        yield post


CLIENTS: dict[str, Callable[[str, int], AbstractAsyncContextManager[Post]]] = {
    "aiohttp": with_aiohttp,
    "httpx": with_httpx,
}


async def main(client: str, port: int, count: int, in_flight: int, secret: str, body: bytes) -> None:
    key = base64.b64decode(secret.removeprefix("whsec_"))

    async def posts(post: Post, numbers: Any) -> None:
        for n in numbers:
            moment = int(time.time())
            mac = hmac.digest(key, f"msg_{n}.{moment}.".encode() + body, hashlib.sha256)
            headers = {
                "content-type": "application/json",
                "webhook-id": f"msg_{n}",
                "webhook-timestamp": str(moment),
                "webhook-signature": "v1," + base64.b64encode(mac).decode(),
            }
            if await post(body, headers) != 200:
                raise RuntimeError("the sink did not take it")

    async with CLIENTS[client](f"http://127.0.0.1:{port}/hook", in_flight) as post:
        await posts(post, range(in_flight))
        numbers = itertools.islice(itertools.count(), count)
        begun, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(posts(post, numbers) for _ in range(in_flight)))
        print(time.perf_counter() - begun, time.process_time() - cpu)


if __name__ == "__main__":
    _, client, port, count, in_flight, secret, body = sys.argv
    asyncio.run(main(client, int(port), int(count), int(in_flight), secret, body.encode()))

"""A client made of the Python SDK alone, 1.x or 2.x, that does as it is told by JSON lines on its standard input and says what comes.

    speaks.py URL legacy|modern

It has nothing of ours but the names that are on the wire.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal

warnings.simplefilter("ignore")

V2 = importlib.util.find_spec("mcp_types") is not None
HEARD = (
    "notifications/io.tidings/gap",
    "notifications/config/acknowledged",
    "notifications/tasks/event",
)
TASKS = "io.modelcontextprotocol/tasks"


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def progressed(progress: float, total: float | None, message: str | None) -> None:
    say(progress=int(progress))


if V2:
    from mcp import Client, MCPError
    from mcp.client.extension import ClientExtension, NotificationBinding, ResultClaim
    from mcp_types import Request, RequestParams, Result
    from pydantic import BaseModel, ConfigDict

    class Anything(Result):
        model_config = ConfigDict(extra="allow")

    class Created(Anything):
        result_type: Literal["task"] = "task"

    class Told(BaseModel):
        model_config = ConfigDict(extra="allow")

    class AboutTask(RequestParams):
        model_config = ConfigDict(extra="allow")

        taskId: str

    class OfTask(Request[AboutTask, str]):
        name_param: ClassVar[str | None] = "taskId"
        method: str
        params: AboutTask

    class Hears(ClientExtension):
        """A client that knows tasks, and hears what the SDK has no model of."""

        identifier = TASKS

        def claims(self) -> Sequence[ResultClaim[Any]]:
            async def resolve(created: Created, _: Any) -> Any:
                raise AssertionError("it is asked for by its id")

            return [ResultClaim(result_type="task", model=Created, resolve=resolve)]

        def notifications(self) -> Sequence[NotificationBinding[Any]]:
            def binding(method: str) -> NotificationBinding[Any]:
                async def hear(params: Told) -> None:
                    say(told=method, params=params.model_dump(mode="json"))

                return NotificationBinding(method=method, params_type=Told, handler=hear)

            return [binding(method) for method in HEARD]

    class Speaker:
        def __init__(self, client: Client) -> None:
            self.client = client

        @staticmethod
        @asynccontextmanager
        async def connected(url: str, mode: str) -> AsyncIterator[Speaker]:
            async with Client(url, mode="legacy" if mode == "legacy" else "2026-07-28", extensions=[Hears()]) as client:
                yield Speaker(client)

        async def call(self, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
            given: Any = meta
            result = await self.client.session.call_tool(
                "report", arguments, progress_callback=progressed, meta=given, allow_claimed=True
            )
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)

        async def list(self) -> Any:
            return [tool.name for tool in (await self.client.list_tools()).tools]

        async def task(self, method: str, params: dict[str, Any]) -> Any:
            request = OfTask(method=method, params=AboutTask.model_validate(params))
            result = await self.client.session.send_request(request, Anything)
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)

else:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.shared.exceptions import McpError as MCPError

    class Speaker:  # type: ignore[no-redef]
        def __init__(self, session: ClientSession) -> None:
            self.session = session

        @staticmethod
        @asynccontextmanager
        async def connected(url: str, mode: str) -> AsyncIterator[Speaker]:
            async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
                await session.initialize()
                yield Speaker(session)

        async def call(self, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
            result = await self.session.call_tool("report", arguments, progress_callback=progressed, meta=meta)
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)

        async def list(self) -> Any:
            return [tool.name for tool in (await self.session.list_tools()).tools]


async def main(url: str, mode: str) -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with Speaker.connected(url, mode) as speaker:
        say(connected=mode)
        while line := await lines.readline():
            asked = json.loads(line)
            try:
                say(result=await getattr(speaker, asked.pop("do"))(**asked))
            except MCPError as error:
                say(error={"code": error.error.code, "message": error.error.message, "data": error.error.data})


asyncio.run(main(*sys.argv[1:]))

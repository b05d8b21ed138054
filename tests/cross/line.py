"""A line between a client and a server, which a test cuts, holds and leads elsewhere."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from typing import Final

PIECE: Final = 65536
WAIT: Final = 60.0
RESET: Final = struct.pack("ii", 1, 0)


class Line:
    """Takes connections at a port of its own and leads each to the server that it is set to then."""

    def __init__(self, port: int) -> None:
        self.sent = b""
        """All that clients have sent since a cut was last asked for."""
        self._got = b""
        self._to = port
        self._behind: re.Pattern[bytes] | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._cut = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(WAIT)

    def cut_behind(self, what: str) -> None:
        """Every connection is reset once the server has sent an event of a stream in which that expression is found: the client still
        gets it, and nothing after it. From then on new ones wait until the line leads somewhere again."""
        self._cut.clear()
        self.sent = self._got = b""
        self._behind = re.compile(what.encode() + rb".*?\r?\n\r?\n", re.DOTALL)

    def wait_for_cut(self) -> None:
        assert self._cut.wait(WAIT), "the server did not send what the line is cut behind"

    def left_at(self) -> tuple[str, str]:
        """The session of the client that was cut off, and the last event id that it had."""
        sessions = re.findall(rb"^mcp-session-id: *(\S+)", self.sent, re.IGNORECASE | re.MULTILINE)
        ids = re.findall(rb"^id: *(\S+)", self._got, re.MULTILINE)
        return sessions[-1].decode(), ids[-1].decode()

    def lead_to(self, port: int) -> None:
        self._to = port
        self._loop.call_soon_threadsafe(self._leads.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(WAIT)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._leads, self._end = asyncio.Event(), asyncio.Event()
        self._leads.set()
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        self._reset()

    async def _connect(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            await self._carry(client, to_client)
        except asyncio.CancelledError:
            to_client.transport.abort()  # the line is closed, and asyncio would report it

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._open.add(to_client)
        await self._leads.wait()
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            to_client.transport.abort()
            return
        self._open.add(to_server)
        await asyncio.gather(self._asks(client, to_server), self._answers(server, to_client), return_exceptions=True)
        self._open -= {to_client, to_server}

    async def _asks(self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        try:
            while piece := await client.read(PIECE):
                self.sent += piece
                to_server.write(piece)
        finally:
            to_server.close()

    async def _answers(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        said = b""
        try:
            while piece := await server.read(PIECE):
                before, said = len(said), said + piece
                if self._behind is not None and (found := self._behind.search(said)):
                    to_client.write(said[before : found.end()])
                    self._got = said[: found.end()]
                    self._behind = None
                    self._leads.clear()
                    self._reset()
                    self._cut.set()
                    return
                to_client.write(piece)
        finally:
            to_client.close()

    def _reset(self) -> None:
        for writer in self._open:
            if writer.transport.is_closing():
                continue
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        self._open.clear()

"""An MCP client of bare HTTP and server-sent events (protocol 2025-11-25), for run.py.

It has none of a real client's comforts, so that what the demo shows is what went over the wire.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

VERSION = "2025-11-25"
TIMEOUT = 30.0


@dataclass
class Event:
    """A message of a stream, with the id to resume after it. The first event of a stream has only that."""

    id: str | None
    message: Any


class Stream:
    """One response that goes on."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        assert connection.sock is not None
        self._connection, self._response, self._sock = connection, response, connection.sock

    def __iter__(self) -> Iterator[Event]:
        id, data, seen = None, "", False
        while line := self._response.readline().decode():
            line = line.rstrip("\r\n")
            if not line and seen:
                yield Event(id, json.loads(data) if data else None)
                id, data, seen = None, "", False
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data, seen = data + value, True
            elif name == "id":
                id, seen = value, True

    def cut(self) -> None:
        """Break the connection as a lost network does: no goodbye."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._response.close()
        self._connection.close()
        self._sock.close()


class Client:
    """A session with the server on a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.session = ""
        hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}}
        connection, response = self._send("POST", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        self.session = response.getheader("mcp-session-id", "")
        *_, last = Stream(connection, response)
        self.capabilities: dict[str, Any] = last.message["result"]["capabilities"]
        self._send("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})[1].read()

    def call(self, id: int, tool: str, arguments: dict[str, Any], config: dict[str, Any]) -> Stream:
        """Call a tool; what comes of it comes on the stream."""
        params = {
            "name": tool,
            "arguments": arguments,
            "notificationConfig": config,
            "_meta": {"progressToken": f"call-{id}"},
        }
        return Stream(*self._send("POST", {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))

    def resume(self, last_event_id: str) -> Stream:
        """Go on with a stream after the event that was seen last."""
        return Stream(*self._send("GET", None, {"last-event-id": last_event_id}))

    def _send(
        self, method: str, body: Any, more: dict[str, str] | None = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        headers = {"accept": "application/json, text/event-stream", **(more or {})}
        if body is not None:
            headers["content-type"] = "application/json"
        if self.session:
            headers.update({"mcp-session-id": self.session, "mcp-protocol-version": VERSION})
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        connection.request(method, "/mcp", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        if response.status >= 300:
            raise RuntimeError(f"{method}: {response.status} {response.read().decode()}")
        return connection, response

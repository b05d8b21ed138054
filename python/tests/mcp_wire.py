"""A raw HTTP and SSE client, a server in a thread and a webhook receiver: what the tests see is what is on the wire.

No SDK client is used, so that a cut is a cut of the socket and every byte of an event is there to be compared.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn
from standardwebhooks.webhooks import Webhook

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
WAIT = 60.0
"""Seconds after which something that has to happen is taken not to happen."""


class Served(uvicorn.Server):
    """An ASGI app on a port the system chose, with its event loop in a thread of its own."""

    def __init__(self, app: Any, *, graceful: int | None = 1) -> None:
        super().__init__(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=graceful)
        )
        self._ready = threading.Event()
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()
        assert self._ready.wait(WAIT), "the server did not start"
        assert self.started, "the server failed to start"

    def _main(self) -> None:
        try:
            asyncio.run(self._serve_here())
        finally:
            self._ready.set()

    async def _serve_here(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self.serve()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.port: int = self.servers[0].sockets[0].getsockname()[1]
        self._ready.set()

    async def main_loop(self) -> None:
        # As in uvicorn, but woken up by `stop` and not by a tick of 0.1 s.
        self._stopping = asyncio.Event()
        await self.on_tick(0)
        self._running.set()
        await self._stopping.wait()

    def stop(self) -> None:
        """Shut down in good order and wait for it."""
        assert self._running.wait(WAIT)
        self.should_exit = True
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(WAIT)
        assert not self._thread.is_alive(), "the server did not stop"


class Gate:
    """Something a tool waits at until the test opens it, or the test waits at until a tool has come there."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._lock = threading.Lock()

    def open(self) -> None:
        with self._lock:
            self._event.set()
            for loop, event in self._waiting:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)
            self._waiting.clear()

    def wait(self) -> None:
        """From the test's thread."""
        assert self._event.wait(WAIT), "what the test waits for did not happen"

    @property
    def is_open(self) -> bool:
        return self._event.is_set()

    async def passed(self) -> None:
        """From a tool."""
        event = asyncio.Event()
        with self._lock:
            if self._event.is_set():
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        await event.wait()


@dataclass
class SseEvent:
    """One event of a stream, as text."""

    id: str | None = None
    event: str | None = None
    data: str | None = None

    @property
    def message(self) -> Any:
        assert self.data is not None
        return json.loads(self.data)


class Answer:
    """The response to one request, read as it comes."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        assert connection.sock is not None
        self._sock = connection.sock
        self.status = response.status
        self.headers = response.headers
        self.is_stream = "text/event-stream" in (response.getheader("content-type") or "")

    def events(self) -> Iterator[SseEvent]:
        """The events up to the end of the stream; a comment is none."""
        event, seen = SseEvent(), False
        end = time.monotonic() + WAIT
        while True:
            line = self._response.readline()
            # The socket's own time limit does not see an end that never comes: pings keep it from passing.
            if time.monotonic() > end:
                raise TimeoutError("the stream goes on")
            if not line:
                self.close()
                return
            text = line.decode().rstrip("\r\n")
            if text == "":
                if seen:
                    yield event
                event, seen = SseEvent(), False
            elif not text.startswith(":"):
                name, _, value = text.partition(":")
                value = value.removeprefix(" ")
                seen = True
                if name == "data":
                    event.data = value if event.data is None else event.data + "\n" + value
                elif name in ("id", "event"):
                    setattr(event, name, value)

    def take(self, count: int) -> list[SseEvent]:
        """The next `count` events that carry a message."""
        taken: list[SseEvent] = []
        if count:
            for event in self.events():
                if event.data:
                    taken.append(event)
                    if len(taken) == count:
                        break
        return taken

    def lines(self) -> Iterator[str]:
        """The lines up to the end, comments too."""
        while line := self._response.readline():
            yield line.decode().rstrip("\r\n")
        self.close()

    def priming(self) -> SseEvent:
        """The first event, which carries only an id."""
        event = next(self.events())
        assert (bool(event.id), event.data) == (True, ""), event
        return event

    def rest(self) -> list[SseEvent]:
        """Everything up to the end, which has to come."""
        return [event for event in self.events() if event.data]

    def messages(self) -> list[Any]:
        """All messages up to the end, whether the server chose a stream or one JSON body."""
        if self.is_stream:
            return [event.message for event in self.rest()]
        body = self._response.read()
        self.close()
        return [json.loads(body)] if body else []

    def cut(self) -> None:
        """Break the connection the hard way: the server gets a reset, not an end."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._response.close()
        self._connection.close()
        self._sock.close()

    def close(self) -> None:
        self._response.close()
        self._connection.close()


class Client:
    """A client of one era, without any of the SDK's own habits."""

    encode: Callable[[Any], str] = staticmethod(json.dumps)
    """Of the class: some tests make clients of sessions that are there already."""

    def __init__(
        self,
        port: int,
        era: str,
        *,
        path: str = "/mcp",
        headers: dict[str, str] | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        self.port = port
        self.era = era
        self.path = path
        self.headers = headers or {}
        self.session: str | None = None
        self.initialized: Any = None
        if era != MODERN:
            answer = self.post(
                {
                    "jsonrpc": "2.0",
                    "id": "init",
                    "method": "initialize",
                    "params": {
                        "protocolVersion": era,
                        "capabilities": capabilities or {},
                        "clientInfo": {"name": "raw", "version": "1"},
                    },
                }
            )
            self.session = answer.headers.get("mcp-session-id")
            self.initialized = answer.messages()[-1]
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).messages()

    def post(self, body: Any, *, timeout: float = WAIT, extra: dict[str, str] | None = None) -> Answer:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.session is not None or self.era == MODERN:
            headers["mcp-protocol-version"] = self.era
        return self._request("POST", self.encode(body), {**headers, **(extra or {})}, timeout)

    def get(self, last_event_id: str | None = None, *, timeout: float = WAIT) -> Answer:
        headers = {"accept": "text/event-stream", "mcp-protocol-version": self.era}
        if last_event_id is not None:
            headers["last-event-id"] = last_event_id
        return self._request("GET", None, headers, timeout)

    def delete(self) -> Answer:
        return self._request("DELETE", None, {"mcp-protocol-version": self.era}, WAIT)

    def request(self, method: str, params: dict[str, Any], id: int | str = 1, **meta: Any) -> Answer:
        """One request of this client's era."""
        params = dict(params)
        extra: dict[str, str] = {}
        if self.era == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
                **meta,
            }
            extra["mcp-method"] = method
            if "name" in params:
                extra["mcp-name"] = str(params["name"])
            elif "taskId" in params:
                extra["mcp-name"] = str(params["taskId"])
        if meta:
            params["_meta"] = meta
        return self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, extra=extra)

    def call(
        self,
        tool: str,
        arguments: dict[str, Any] | None = None,
        *,
        id: int | str = 1,
        progress: bool = False,
        **params: Any,
    ) -> Answer:
        meta = {"progressToken": "token"} if progress else {}
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **params}, id, **meta)

    def cancel(self, id: int | str) -> None:
        self.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).messages()

    def _request(self, method: str, body: str | None, headers: dict[str, str], timeout: float) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if self.session is not None:
            headers = {**headers, "mcp-session-id": self.session}
        connection.request(method, self.path, body, {**headers, **self.headers})
        connection_answer = connection.getresponse()
        return Answer(connection, connection_answer)


@dataclass
class Delivery:
    """One request a receiver got."""

    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """A webhook endpoint on this machine. It verifies with an independent library and keeps what it got."""

    secret: str
    deliveries: queue.Queue[Delivery] = field(default_factory=queue.Queue)
    unverified: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    Webhook(receiver.secret).verify(body, headers)
                except Exception as error:  # noqa: BLE001 (the test says so)
                    receiver.unverified.append(error)
                receiver.deliveries.put(Delivery(headers, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def config(self, *triggers: str, **extra: Any) -> dict[str, Any]:
        """A notificationConfig that sends to this receiver."""
        return {
            "routes": [
                {
                    "id": "primary",
                    "type": "webhook",
                    "endpoint": f"http://127.0.0.1:{self.port}/hook",
                    "triggers": list(triggers),
                    "secret": self.secret,
                }
            ],
            **extra,
        }

    def next(self) -> Any:
        """The next event that arrives; it has to be verified."""
        delivery = self.deliveries.get(timeout=WAIT)
        assert not self.unverified, self.unverified
        return delivery.event

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def in_loop(served: Served, function: Callable[[], Any]) -> Any:
    """Call something on the server's event loop and return what it gives."""

    async def call() -> Any:
        return function()

    return asyncio.run_coroutine_threadsafe(call(), served.loop).result(WAIT)

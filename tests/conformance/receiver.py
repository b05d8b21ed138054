"""A webhook receiver that waits to be told what to answer."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Far above what a delivery takes to come: it only ends what hangs.
LIMIT_SECONDS = 60


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    answer: queue.SimpleQueue[dict[str, Any] | None] = field(default_factory=queue.SimpleQueue)


class Receiver:
    """Requests queue up; each is held until it is answered."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
        # Given to every request at once, before anybody took it.
        self.always: dict[str, Any] | None = None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                names = [name.lower() for name in self.headers]
                request = Request(self.path, {name: self.headers[name] for name in names}, self.rfile.read(length))
                receiver.waiting.put(request)
                answer = receiver.always or request.answer.get()
                self.close_connection = True
                if answer is None:  # hangs up without a word
                    return
                self.send_response(answer["status"])
                for name, value in answer.get("headers", {}).items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def next(self) -> Request | None:
        try:
            return self.waiting.get(timeout=LIMIT_SECONDS)
        except queue.Empty:
            return None

    def left(self) -> int:
        """Requests that nobody expected."""
        count = 0
        while not self.waiting.empty():
            self.waiting.get().answer.put(None)
            count += 1
        return count

    def close(self) -> None:
        self.left()
        self.server.shutdown()
        self.server.server_close()

"""A webhook endpoint. Run by run.py: receiver.py SECRET LOG PORT (0: one that the system chooses).

It verifies each request with PyPI's `standardwebhooks` and appends what it got, as a line of JSON, to LOG. Its first
line there is the port it listens on.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def main(secret: str, log: Path, port: int) -> None:
    def note(line: dict[str, Any]) -> None:
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                Webhook(secret).verify(body, headers)
                verified = True
            except WebhookVerificationError:
                verified = False
            note(
                {
                    "path": self.path,
                    "id": headers.get("webhook-id"),
                    "verified": verified,
                    "event": json.loads(body) if verified else None,
                }
            )
            self.send_response(204 if verified else 400)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Endpoint)
    note({"port": server.server_address[1]})
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

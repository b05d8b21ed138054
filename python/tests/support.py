"""What several test files use."""

import json
import queue
import subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

# Payloads that a JSON library of some language would write differently, and one of 1 MB.
AWKWARD = [
    b"1.0",
    b"9007199254740993",
    b'"a\xe2\x80\xa8b"',
    b'"\\ud800"',
    b'{"b" : 1, "a":\t2e0 }',
    b'{"a":1,"a":2}',
    b'"' + b"x" * 1_000_000 + b'"',
]


def run_script(code: str, folder: Path, *arguments: str) -> str:
    """Runs a program in a process and folder of its own; returns what it printed. It must end well and complain of
    nothing."""
    done = subprocess.run(
        # Python 3.12 warns of every fork in a process with threads; that case is what some of these are about.
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore:This process:DeprecationWarning",
            "-c",
            textwrap.dedent(code),
            *arguments,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,  # below the limit of a test
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout


class Post(NamedTuple):
    """One request that a receiver got."""

    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        value: dict[str, object] = json.loads(self.body)
        return value


class Receiver:
    """A webhook receiver on this machine, in a thread of its own."""

    def __init__(self) -> None:
        self.posts: queue.Queue[Post] = queue.Queue()
        posts = self.posts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                posts.put(Post(dict(self.headers.items()), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def next(self) -> Post:
        """The next request; fails when none comes."""
        return self.posts.get(timeout=60)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

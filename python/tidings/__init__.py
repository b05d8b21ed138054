"""Tidings makes an MCP server keep its word to a client that has gone away.

`Hub` is the entry point; `tidings.mcp` plugs one into an MCP server. Times are seconds. Payloads are JSON text (`bytes`
or `str`) that nobody parses or writes again.
"""

import atexit
import os

from . import _log, _native, _port
from ._call import Call
from ._errors import (
    AheadError,
    ClosedError,
    ConfigError,
    CongestedError,
    CursorError,
    EndedError,
    Fault,
    FencedError,
    ForkedError,
    InternalError,
    InvalidArgument,
    TidingsError,
    TimedOutError,
    TooLargeError,
    UnavailableError,
    UnsupportedStoreError,
    WebhookError,
)
from ._hub import Hub, Retention
from ._identity import Identity
from ._native import Delivery, Ended, Endpoint, Event, Fanout, Gap, HostDelivery, Page, Stats, Task, __version__
from ._stream import Stream, Tail, Writer
from ._webhook import DecryptionKeys, Webhook

__all__ = [
    "AheadError",
    "Call",
    "ClosedError",
    "ConfigError",
    "CongestedError",
    "CursorError",
    "DecryptionKeys",
    "Delivery",
    "Ended",
    "EndedError",
    "Endpoint",
    "Event",
    "Fanout",
    "Fault",
    "FencedError",
    "ForkedError",
    "Gap",
    "HostDelivery",
    "Hub",
    "Identity",
    "InternalError",
    "InvalidArgument",
    "Page",
    "Retention",
    "Stats",
    "Stream",
    "Tail",
    "Task",
    "TidingsError",
    "TimedOutError",
    "TooLargeError",
    "UnavailableError",
    "UnsupportedStoreError",
    "Webhook",
    "WebhookError",
    "Writer",
    "__version__",
]

#: Seconds that the end of the process waits for what is not committed.
_EXIT_FLUSH = 2.0


def _after_fork() -> None:
    _native.after_fork()
    _port.after_fork()


def _at_exit() -> None:
    _native.close_all(_EXIT_FLUSH)
    _log.flush()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_native.before_fork,
        after_in_parent=_native.after_fork_in_parent,
        after_in_child=_after_fork,
    )
atexit.register(_at_exit)

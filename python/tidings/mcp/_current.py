"""The call that runs, for the author of a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from .. import _native
from ._request import Emit
from ._wire import dumps


class _Named(Protocol):
    @property
    def id(self) -> str | None: ...


class ToolCall:
    """The tool call that runs; comes from `current_call`."""

    __slots__ = ("_call", "_emit", "_fire")

    def __init__(self, call: _Named | None, emit: Emit | None, fire: Emit | None) -> None:
        self._call = call
        self._emit = emit
        self._fire = fire

    @property
    def id(self) -> str | None:
        """Our id of the call, which is its task's; None while it is neither watched nor a task."""
        return None if self._call is None else self._call.id

    @property
    def request_cancelled(self) -> bool:
        """Whether the client has cancelled the request of this call.

        For a tool that is being cancelled: False means that its connection was lost, its time is over, its task was cancelled
        or the server stops.
        """
        return _cancelled.get()()

    def emit(self, type: str, payload: Mapping[str, Any]) -> None:
        """Append an event to the call's stream, where ``tasks/stream`` reads it. Never waits; any thread may.

        `type` needs a vendor prefix in reverse-DNS form (``com.example.review.comment``): names without one, ``io.tidings``
        and ``io.modelcontextprotocol`` are reserved. Its JSON text has at most 256 KiB. Nothing is kept of a call that is neither watched nor becomes a task.

        Raises `InvalidArgument` for such a type or size, TypeError or ValueError for a payload that is no JSON object.
        """
        encoded = _object(payload)
        _native.check_event(type, encoded)
        if self._emit is not None:
            self._emit(type, encoded)

    def fire(self, name: str, payload: Mapping[str, Any]) -> None:
        """Fire a trigger of your own: tells the routes that list `name`, and is an event of that type. Never waits; any thread may.

        `name` is a reverse-DNS name (``com.example/half-way`` or ``com.example.half-way``); those under ``io.tidings`` and
        ``io.modelcontextprotocol`` are reserved. Nothing happens in a call that asked for nothing.

        Raises `InvalidArgument` for another name, TypeError or ValueError for a payload that is no JSON object.
        """
        encoded = _object(payload)
        _native.check_fire(name, encoded)
        if self._fire is not None:
            self._fire(name, encoded)

    def __repr__(self) -> str:
        return f"ToolCall(id={self.id!r})"


def _object(payload: Mapping[str, Any]) -> bytes:
    if not isinstance(payload, Mapping):
        raise TypeError(f"payload: must be a mapping, not {payload.__class__.__name__}")
    return dumps(dict(payload))


_PLAIN = ToolCall(None, None, None)
_cancelled: ContextVar[Callable[[], bool]] = ContextVar("tidings_request_cancelled", default=lambda: False)
_current: ContextVar[ToolCall] = ContextVar("tidings_current_call", default=_PLAIN)


def current_call() -> ToolCall:
    """The tool call that runs here: in the tool's own task or thread, and those it starts.

    Works in every tool, so that a tool need not know whether its client asked for anything.
    """
    return _current.get()


@contextmanager
def as_current(call: _Named, emit: Emit, fire: Emit) -> Iterator[None]:
    """Make `call` the current one inside the block."""
    token = _current.set(ToolCall(call, emit, fire))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def as_request(cancelled: Callable[[], bool]) -> Iterator[None]:
    """Make `cancelled` tell whether the request that is served inside the block was cancelled by its client."""
    token = _cancelled.set(cancelled)
    try:
        yield
    finally:
        _cancelled.reset(token)

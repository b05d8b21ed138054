"""Streams, writers and tails."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from . import _native
from ._identity import Identity
from ._native import Event, Gap, Page
from ._port import wait

if sys.version_info >= (3, 11):
    from typing import Self
else:  # pragma: no cover
    Self = Any


class Writer(_native.Writer):
    """The right of one writer to number a stream in memory: `append` returns at once, the commit follows.

    Comes from `Hub.new_writer` or `Stream.claim`.
    """

    __slots__ = ()

    async def flush(self, durability: Literal["process", "disk"] = "process") -> None:
        """Waits until everything appended before is committed; `disk`: until it survives the loss of power.

        Raises what the store said: `UnavailableError`, `FencedError`, `ClosedError`.
        """
        await wait(self._flush(durability))

    def __repr__(self) -> str:
        return f"Writer(stream={self.stream!r})"


class Stream:
    """A stream by its key. It comes to be with its first append or claim."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Stream) -> None:
        self._native = native

    def __repr__(self) -> str:
        return f"Stream(scope={self.scope!r}, name={self.name!r})"

    @property
    def scope(self) -> str:
        """Whose it is."""
        return self._native.scope

    @property
    def name(self) -> str:
        """Its name there."""
        return self._native.name

    async def append(
        self,
        payload: bytes | str | Sequence[bytes | str],
        *,
        type: str = "message",
        identity: Mapping[str, str] | Identity | None = None,
        close: bool = False,
        key: str | None = None,
        durability: Literal["process", "disk"] = "process",
    ) -> int:
        """Appends one event or several, numbered inside the commit; returns the number of the first once committed.

        Any process may. A writer who has claimed the stream is fenced by it. `payload` is JSON text, kept byte for byte;
        `identity` says who and what the events belong to. `close` closes the stream in the same step.

        With `key` (at most 255 bytes) it is appended once: to name the same key again, in any process and after a restart,
        returns the number that the first append returned and appends nothing. A key is of this stream only, and known as
        long as the first event that was appended with it is retained.
        """
        payloads = [payload] if isinstance(payload, (bytes, str)) else list(payload)
        started = self._native.append(
            payloads, type=type, identity=identity, close=close, key=key, durability=durability
        )
        return await wait(started)

    async def claim(self) -> Writer:
        """Takes the right to number the stream in memory; every other writer is fenced."""
        return Writer(await wait(self._native.claim()))

    async def read(self, after: int | str | None = None, limit: int = 1_000) -> Page:
        """Committed events after a cursor or a number (from the earliest, without), at most `limit`.

        Raises `CursorError`, and `AheadError` for a number beyond the newest event.
        """
        return self._native.read(after, limit)

    async def export(self, after: int | str | None = None) -> AsyncIterator[bytes]:
        """What is committed now, after a cursor or a number, as JSON Lines: each line with its line break, one event or gap.

        `{"seq", "type", "time", "identity"?, "payload"}`, `time` in integer milliseconds, payload and identity as they were
        given (line breaks between their tokens become spaces); a payload that is no JSON text is `payloadBytes`, in base64.
        `{"gap", "earliestSeq"?, "headSeq"?}` stands before what follows a hole.
        """
        export = self._native.export(after)
        while (lines := export.lines()) is not None:
            for line in lines:
                yield line

    def tail(self, after: int | str | None = None) -> Tail:
        """Reads like `read` and goes on live. The stream must exist."""
        return Tail(self._native.tail(after))

    async def close(self) -> None:
        """Closes the stream: no more events, and tails end."""
        await wait(self._native.close())


class Tail:
    """A reader that replays after its place and goes on live, no hole and no double at the join.

    `async for item in tail` gives each `Event`, and a `Gap` where the events between could not be told. It ends when the
    stream is closed and everything was read, or when the tail is closed. A wait that is cancelled loses nothing. One task
    at a time may wait.
    """

    __slots__ = ("_buffer", "_closed", "_cursor", "_last", "_native")

    def __init__(self, native: _native.Tail) -> None:
        self._native = native
        self._buffer: deque[Event | Gap] = deque()
        self._cursor = native.cursor()
        self._last: Event | Gap | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"Tail(stream={self.stream!r}, cursor={self.cursor!r})"

    @property
    def stream(self) -> str:
        """The stream's random id."""
        return self._native.stream

    @property
    def cursor(self) -> str:
        """Where the reader stands after all that it was given."""
        return self._cursor if self._last is None else self._last.cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event | Gap:
        buffer = self._buffer
        while not buffer:
            if not await self._fill():
                raise StopAsyncIteration
        self._last = item = buffer.popleft()
        return item

    def batches(self) -> AsyncIterator[list[Event | Gap]]:
        """The same in lists as they were read, none of them empty: less work for each event."""
        return _Batches(self)

    async def _fill(self) -> bool:
        """Reads one more batch; `False` at the end."""
        batch = None if self._closed else await wait(self._native.next())
        if batch is None or self._closed:
            return False
        self._buffer.extend(batch)
        return True

    async def _batch(self) -> list[Event | Gap] | None:
        while not self._buffer:
            if not await self._fill():
                return None
        batch = list(self._buffer)
        self._buffer.clear()
        self._last = batch[-1]
        return batch

    def take(self) -> list[Event | Gap] | None:
        """What is there now, in order, without waiting: an empty list for nothing, `None` at the end of the stream."""
        if self._buffer:
            batch = list(self._buffer)
            self._buffer.clear()
        else:
            started = None if self._closed else self._native.next()
            if started is None:
                return None
            batch = [] if isinstance(started, _native.Pending) else started
        if batch:
            self._last = batch[-1]
        return batch

    def abandoned(self) -> bool:
        """Whether the stream is open and yet nothing more is to come: its one writer's process is gone.

        What is committed may still have to be read. Only a new claim continues such a stream.
        """
        return self._native.abandoned()

    def close(self) -> None:
        """Ends the tail; a task that waits for it sees the end."""
        self._closed = True
        self._buffer.clear()
        self._native.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class _Batches:
    """An iterator and not a generator: nothing is left to finish when the loop that uses it is left early."""

    __slots__ = ("_tail",)

    def __init__(self, tail: Tail) -> None:
        self._tail = tail

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Event | Gap]:
        batch = await self._tail._batch()
        if batch is None:
            raise StopAsyncIteration
        return batch

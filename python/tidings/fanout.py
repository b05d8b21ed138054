"""Fan-out for hosts of their own: telling those connections that asked for it what has changed, each once.

`tidings.mcp.attach` does all of this for the MCP SDKs. Below it is an `Outbox`: a host registers its connections and what they
listen to, takes what is to be written, writes it in its own way, and says what came of it. Who is told what, in which words and
when, is the core's to decide. ::

    outbox = hub.outbox()
    sink = outbox.add_sink(principal="alice")
    listener = outbox.attend(sink, Profile("2025-11-25", '{"tools":{"listChanged":true}}', "{}"))
    outbox.open(listener)  # notifications/initialized has come
    ...
    while True:
        await outbox.ready()
        for notice in outbox.take():
            await write(notice.sink, notice.method, notice.params)
            outbox.written(notice.sink)

Nothing more is handed out for a connection before what it was handed is written; what is published meanwhile coalesces. So a
slow one holds nobody up, and one that is slower than its deadline has failed: `Hub.failed_sinks` names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _native
from ._native import Fanout, Profile
from ._port import wait

if TYPE_CHECKING:
    from ._hub import Hub

__all__ = ["Fanout", "Listener", "Notice", "Outbox", "Profile", "Sink"]


@dataclass(frozen=True)
class Sink:
    """One connection of a host's, for as long as the process lives. Opaque: it can be compared, and be a key."""

    _outbox: int
    _number: int

    def __repr__(self) -> str:
        return f"Sink({self._outbox}:{self._number:x})"


@dataclass(frozen=True)
class Listener:
    """What one connection asked to be told, one of possibly several. Opaque: it can be compared, and be a key."""

    _outbox: int
    _number: int

    def __repr__(self) -> str:
        return f"Listener({self._outbox}:{self._number:x})"


@dataclass(frozen=True)
class Notice:
    """Something to write to one connection."""

    sink: Sink
    listener: Listener
    method: str | None
    """The notification's method; `None`: the listener has ended in order and everything before was written, so that the
    request that opened it may have its result."""
    params: str | None
    """Its parameters as JSON text, if it has any."""


class Outbox:
    """Where the host of one event loop, or of one thread, takes notifications for its connections. From `Hub.outbox`.

    Every method but `ready` returns at once, and raises `ClosedError` or `ForkedError` where the hub is of no use any more.
    Connections that are dropped with their outbox are told nothing more.
    """

    __slots__ = ("_native",)

    def __init__(self, hub: Hub) -> None:
        self._native: _native.Outbox = hub._native.outbox()

    def __repr__(self) -> str:
        return f"Outbox(listeners={len(self)})"

    def __len__(self) -> int:
        """How many listeners there are."""
        return len(self._native)

    def add_sink(self, principal: str | None = None, *, deadline: float | None = None) -> Sink:
        """A connection to write to. `principal`: whose it is, for publishes with an audience. `deadline`: seconds that the
        host may take for what it was handed; `None`: 10."""
        return Sink(self._native.number, self._native.add_sink(principal, deadline))

    def attend(self, sink: Sink, profile: Profile) -> Listener:
        """The one listener of a peer that sends no filters (MCP up to 2025-11-25): of every list that its profile offers, and
        of what it subscribes to. What is published before `open` is kept for then.

        Raises `InvalidArgument` for a profile whose peers send filters, and for a connection that is gone.
        """
        return self._listener(self._native.attend(self._own(sink), profile))

    def open(self, listener: Listener) -> None:
        """A peer without filters is ready to be told: `notifications/initialized` has come."""
        self._native.open(self._of(listener))

    def subscribe(self, listener: Listener, profile: Profile, name: str) -> None:
        """Such a peer asks to be told of one thing, and of what lies below it.

        Raises `InvalidArgument` where its profile does not allow it, and beyond 1,024 subscriptions.
        """
        self._native.subscribe(self._of(listener), profile, name)

    def unsubscribe(self, listener: Listener, profile: Profile, name: str) -> None:
        """And no longer."""
        self._native.unsubscribe(self._of(listener), profile, name)

    def listen(self, sink: Sink, profile: Profile, request_id: int | str, filter: str) -> Listener:
        """A listener with a filter (JSON text), of which what the profile allows counts. Its acknowledgement is the first
        notice; what is published before that is written is kept for then.

        Raises `InvalidArgument` for what is no filter, for a profile whose peers send none, and for a connection that is gone.
        """
        return self._listener(self._native.listen(self._own(sink), profile, request_id, filter))

    def set_reachable(self, sink: Sink, reachable: bool) -> None:
        """Whether the peer can be told anything at the moment. One that cannot counts as skipped."""
        self._native.set_reachable(self._own(sink), reachable)

    def end(self, listener: Listener) -> None:
        """Ends a listener in order: what waits for it is handed out, then a notice without a method."""
        self._native.end(self._of(listener))

    def end_all(self) -> None:
        """Ends every listener with a filter in order."""
        self._native.end_all()

    def cancel(self, listener: Listener) -> bool:
        """The listener was cancelled: nothing more is written for it. `False`: it had ended."""
        return self._native.cancel(self._of(listener))

    def drop_sink(self, sink: Sink) -> int:
        """Lets go of a connection. Answers how many listeners went with it."""
        return self._native.drop_sink(self._own(sink))

    async def ready(self) -> None:
        """Waits until there is something to take, or a connection has failed. One wait at a time.

        Raises `ClosedError` when the hub closes.
        """
        await wait(self._native.ready())

    def take(self, limit: int = 1024) -> list[Notice]:
        """What there is to write, about `limit` notices at most, those of one listener together."""
        number = self._native.number
        return [
            Notice(Sink(number, sink), Listener(number, listener), method, params)
            for sink, listener, method, params in self._native.take(limit)
        ]

    def written(self, sink: Sink, count: int = 1) -> bool:
        """So many of the notifications handed out for a connection are written. `False`: too late, it has failed or gone."""
        return self._native.written(self._own(sink), count)

    def broke(self, sink: Sink) -> int:
        """A connection did not take a notification: its listeners end, and `Hub.failed_sinks` names it. Answers how many
        listeners went; 0 if it had failed before."""
        return self._native.broke(self._own(sink))

    def _own(self, sink: Sink) -> int:
        if sink._outbox != self._native.number:
            raise ValueError("sink: is of another outbox")
        return sink._number

    def _of(self, listener: Listener) -> int:
        if listener._outbox != self._native.number:
            raise ValueError("listener: is of another outbox")
        return listener._number

    def _listener(self, number: int) -> Listener:
        return Listener(self._native.number, number)

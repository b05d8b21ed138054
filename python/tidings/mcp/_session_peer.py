"""A session (up to 2025-11-25) that is told of changes: what it subscribed to, and its place at a desk. The same for every SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from .._native import Profile
from . import _scoping
from ._desk import Desk

Send = Callable[[str, dict[str, Any] | None], Awaitable[None]]
"""Sends a notification that belongs to no request. Raises when the channel is closed."""

NOT_REGISTERED: Final = "a session could not be registered for notifications"


class Peer:
    """One session: its place at a desk. A writer, see `_desk.Writer`."""

    def __init__(self, session_id: str | None, send: Send, profile: Profile, principal: str) -> None:
        self._session_id = session_id
        self._send = send
        self._profile = profile
        self._principal = principal
        self._initialized = False
        self._desk: Desk | None = None
        self._sink = 0
        self._listener = 0
        self._uris: set[str] = set()
        self._gone = False
        self.level: str | None = None
        """What ``logging/setLevel`` asked for."""

    def register(self, desk: Desk) -> None:
        """Take a place at `desk`. May raise what the hub raises."""
        self._desk = desk
        self._sink = desk.add(self, self._principal)
        self._listener = desk.outbox.attend(self._sink, self._profile)
        if self._initialized:
            desk.outbox.open(self._listener)
        for uri in self._uris:
            desk.outbox.subscribe(self._listener, self._profile, uri)
        self.look()

    @property
    def registered(self) -> bool:
        return self._desk is not None

    def initialized(self) -> None:
        """The handshake is complete."""
        self._initialized = True
        if self._desk is not None:
            self._desk.outbox.open(self._listener)

    def subscribe(self, uri: str) -> None:
        """May raise what the hub raises."""
        self._uris.add(uri)
        if self._desk is not None:
            self._desk.outbox.subscribe(self._listener, self._profile, uri)

    def unsubscribe(self, uri: str) -> None:
        """Never raises."""
        self._uris.discard(uri)
        if self._desk is not None:
            self._desk.outbox.unsubscribe(self._listener, self._profile, uri)

    def look(self) -> None:
        """Over HTTP, whether what is sent can arrive: on an open GET stream, or later from the event store."""
        if self._session_id is not None and self._desk is not None:
            self._desk.outbox.set_reachable(self._sink, _scoping.arrives(self._session_id))

    def leave(self) -> None:
        """The session is over."""
        self._gone = True
        if self._desk is not None:
            self._desk.drop(self._sink)

    async def write(self, method: str, params: dict[str, Any] | None) -> None:
        await self._send(method, params)

    def failed(self) -> None:
        """Its GET stream is closed, if what it misses can be had from the event store; then it goes on. Else it comes back
        with its next request."""
        desk, self._desk = self._desk, None
        if self._gone or desk is None or self._session_id is None:
            return
        try:
            if _scoping.close_own_stream(self._session_id):
                self.register(desk)
        except Exception as error:
            desk.trouble.report(NOT_REGISTERED, error)

    def finished(self) -> None:
        """Sessions have no end of their own."""

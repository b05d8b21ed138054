"""Getting a hub its store, where the server has to serve whether or not there is one."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final
from weakref import WeakKeyDictionary, ref

import anyio

from .. import ClosedError, Hub

_log: Final = logging.getLogger("tidings.mcp")

_FIRST: Final = 5.0
"""Seconds a server's start waits for the store; then it serves, and the opening goes on."""

_AGAIN: Final = 1.0
"""Seconds until a store that could not be opened is tried again, doubling …"""

_AGAIN_LAST: Final = 30.0
"""… up to this."""


class Opening:
    """Whether a hub has its store. Never raises.

    What needs the store asks `ready` first: without that, each message of a server whose disk is full would try to open
    it anew, in the event loop. The log gets one line when there is no store and one when there is.
    """

    def __init__(self, hub: Hub) -> None:
        # Weak, because this object is found by its hub and would else keep it for ever.
        self._hub = ref(hub)
        self._lock = threading.Lock()
        self._open = False
        self._trying = False
        self._told = False
        self._pause = 0.0
        self._again = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the hub can be used, without doing anything for it."""
        return self._open

    def ready(self) -> bool:
        """Whether the hub can be used. Has it opened in a thread when that is due; the very first time it waits."""
        if self._open:
            return True
        if self._pause == 0.0:
            if self._begin():
                self._try()
        elif time.monotonic() >= self._again:
            self._try_aside()
        return self._open

    async def first(self) -> None:
        """Open the hub at a server's start, aside from its event loop; gives up waiting after a while."""
        self._try_aside()
        step = 0.001
        with anyio.move_on_after(_FIRST):
            while self._trying:
                await anyio.sleep(step)
                step = min(step * 2, 0.05)

    async def go_on(self) -> None:
        """Try until the hub is open, so that what a server left undone is done also when nobody calls."""
        while True:
            if self.ready():
                return
            await anyio.sleep(self._pause)

    def _begin(self) -> bool:
        with self._lock:
            if self._trying:
                return False
            self._trying = True
            # From here on nobody else waits for the first try.
            self._pause = self._pause or _AGAIN
            return True

    def _try_aside(self) -> None:
        if self._begin():
            # A daemon: an opening that a disk never answers must not keep the process from ending.
            threading.Thread(target=self._try, name="tidings-open", daemon=True).start()

    def _try(self) -> None:
        try:
            hub = self._hub()
            if hub is not None:
                hub.open()
        except ClosedError:
            self._open = True  # there will be no store any more; whoever uses the hub is told so
        except Exception as error:
            self._open = False
            self._again = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, _AGAIN_LAST)
            if not self._told:
                self._told = True
                _log.error(
                    "the store cannot be opened; until it can, nothing that is sent can be resumed and configs are "
                    "refused: %s: %s",
                    type(error).__name__,
                    error,
                )
        else:
            self._open = True
            if self._told:
                self._told = False
                _log.warning("the store is open now")
        finally:
            self._trying = False


_openings: WeakKeyDictionary[Hub, Opening] = WeakKeyDictionary()


def opening_of(hub: Hub) -> Opening:
    """The one `Opening` of a hub."""
    found = _openings.get(hub)
    if found is None:
        found = _openings[hub] = Opening(hub)
    return found

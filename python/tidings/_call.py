"""Watched tool calls."""

from __future__ import annotations

from . import _native
from ._native import Ended
from ._port import wait


class Call:
    """A tool call that asked to be watched. Whatever becomes of this process, it ends in exactly one outcome.

    The first of `complete`, `fail`, `cancel`, the time limit and other processes wins; the others are told who did
    (`Ended.ours`). An outcome is on disk when the ending returns, unless the store takes longer than two seconds. Ending
    goes on when the wait for it is cancelled.
    """

    __slots__ = ("_native", "accepted_routes", "id", "ignored_triggers")

    def __init__(self, native: _native.Call) -> None:
        self._native = native
        #: Our id of the call.
        self.id: str = native.id
        #: The ids of its routes, all of which were accepted.
        self.accepted_routes: list[str] = native.accepted_routes
        #: Names of triggers that nothing here fires.
        self.ignored_triggers: list[str] = native.ignored_triggers

    def __repr__(self) -> str:
        return f"Call(id={self.id!r})"

    def acknowledgement(self) -> bytes:
        """The params of `notifications/config/acknowledged`, as JSON text."""
        return self._native.acknowledgement()

    def emit(self, type: str, payload: bytes | str) -> int:
        """Appends an event of the tool to the call's stream, without waiting; returns its number.

        Raises `ClosedError` or `EndedError` once the call has ended.
        """
        return self._native.emit(type, payload)

    def fire(self, name: str, payload: bytes | str) -> int:
        """Fires a vendor's trigger (``com.example/done``) with the JSON text of an object, without waiting.

        It is an event of that type on the call's stream, whose number is returned, and goes to the routes that list it.
        Raises `InvalidArgument` for a name that is no vendor's, `ClosedError` or `EndedError` once the call has ended.
        """
        return self._native.fire(name, payload)

    async def become_task(self, ttl: float, *, bound: bool = True) -> bool:
        """Makes the call a task: `Hub.task` finds it by its id until `ttl` seconds after its end, whatever becomes of this
        process. On disk when this returns; `False`: the call had ended before.

        `bound`: only the call's principal may ask; otherwise whoever knows the id.
        """
        return await wait(self._native.become_task(ttl, bound))

    async def ask(self, requests: bytes | str) -> bytes:
        """Asks the task's client for input and waits for it: `requests` is the JSON text of an object, ``{key: request}`` as
        in SEP-2663's ``inputRequests``; returns ``{key: response}`` once there is a response to each.

        The questions are on disk before anybody hears of them; from then on the task is ``input_required`` and its listeners
        are told, in every process. A key may be used again. A wait that is cancelled leaves the questions outstanding.
        Raises `InvalidArgument` for what is no such object and where the call is no task, `EndedError` once it has ended.
        """
        return await wait(self._native.ask(requests))

    def disconnected(self) -> None:
        """The client's connection is lost and the call goes on: fires `io.tidings/disconnected` where it was asked for."""
        self._native.disconnected()

    def detach(self, counted_as: str, *, calls: int = 64, time: float = 3600.0) -> bool:
        """The client's connection is lost and the call goes on without it, for at most `time` seconds, at most `calls` at a
        time under the name `counted_as` (the principal). Fires `io.tidings/disconnected` where it was asked for.

        `False`: there is no room, and the call ends as `cancelled`, reason `detach_limit`. Raises `EndedError` once it has
        ended.
        """
        return self._native.detach(counted_as, calls, time)

    async def complete(self, result: bytes | str) -> Ended:
        """The tool returned this result (raw JSON text): `completed`, or `failed` where it says `isError`."""
        return await wait(self._native.complete(result))

    async def fail(self, *, error: bytes | str | None = None, reason: str | None = None) -> Ended:
        """The call failed with a JSON-RPC error (raw JSON text of an object), or for a reason without one."""
        return await wait(self._native.fail(error, reason))

    async def cancel(self, reason: str | None = None) -> Ended:
        """Somebody cancelled the call."""
        return await wait(self._native.cancel(reason))

    async def ended(self) -> Ended:
        """Waits until the call has ended, whoever ends it."""
        return await wait(self._native.ended())

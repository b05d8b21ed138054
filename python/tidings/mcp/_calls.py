"""One watched ``tools/call``: accept the config, acknowledge it, run the tool, record the one outcome."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import anyio
import anyio.lowlevel

from .. import Call, ClosedError, ConfigError, Ended, EndedError, Hub, UnavailableError
from .._native import Room
from . import _current, _wire
from ._opening import opening_of
from ._peers import Peer
from ._request import Request
from ._routing import ConfigRefused, Routing
from ._sdk import error_dict, make_error
from ._trouble import Trouble

_log: Final = logging.getLogger("tidings.mcp")

_ACKNOWLEDGE_WITHIN: Final = 5.0
"""Seconds a client that reads nothing may hold up the start of its own tool."""

ACCEPT_WITHIN: Final = 10.0
"""Seconds a config waits to be on disk, which is more than one process ever waits for another; then it is refused."""

_NOT_ACCEPTED: Final = "a notificationConfig could not be accepted"


class Stop(Enum):
    """Why a tool was told to stop before it was done."""

    CANCELLED = "cancelled"
    """The client sent ``notifications/cancelled``."""
    DISCONNECTED = "disconnected"
    """The request ended and the call, which lives inside it, with it."""
    NO_ROOM = "detach_limit"
    """The request ended and its principal has too many calls that run on already."""
    SHUTDOWN = "shutdown"
    """The server goes down."""
    EXPIRED = "detach_expired"
    """The call ran on without its request for as long as one may."""
    ENDED = "ended"
    """Its outcome is recorded already, by its timer or by another process."""


@dataclass(frozen=True)
class Limits:
    """What one `attach` allows its calls."""

    detached_calls: int
    """How many calls of one principal may run on without their request."""
    detached_seconds: float
    """For how long each of them may."""


class WatchedCall:
    """A tool call whose config is to be accepted. `respond` in the request's task, `run` in the server's.

    The tool runs in a task that does not belong to the request, so that the request's end is news to act on and not
    already the tool's end.
    """

    def __init__(
        self,
        hub: Hub,
        request: Request,
        *,
        principal: str,
        counted_as: str,
        limits: Limits,
        routing: Routing,
        peer: Peer | None,
        timeout: float | None,
        trouble: Trouble,
    ) -> None:
        self._hub = hub
        self._request = request
        self._principal = principal
        self._counted_as = counted_as
        self._room: Room | None = None
        self._limits = limits
        self._routing = routing
        self._peer = peer
        self._asked = routing.offers and _wire.CONFIG in request.params
        """Whether the client brought a config; else there may be routes of the server's own."""
        self._default = None if self._asked else routing.default_config(request.params["name"], peer)
        self._timeout = timeout
        self._trouble = trouble
        self._stop: Stop | None = None
        self._stopping = anyio.Event()
        self._stop_recorded = anyio.Event()
        self._returned = False
        self._detached = anyio.Event()
        self._tool_scope = anyio.CancelScope()
        self._settled = anyio.Event()
        self._result: dict[str, Any] | None = None
        self._error: Exception | None = None

    # -- in the request's task

    async def respond(self) -> dict[str, Any]:
        """Wait for the answer and return it, or raise the error to answer with."""
        try:
            await self._settled.wait()
        except anyio.get_cancelled_exc_class():
            self._request_is_gone()
            raise
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The answer, once the call has settled: the result, or the error raised."""
        if self._error is not None:
            raise self._error
        return self._result if self._result is not None else {}

    def _request_is_gone(self) -> None:
        if self._settled.is_set():
            return
        if self._request.cancel_asked():
            self._tell_to_stop(Stop.CANCELLED)
        elif not self._asked and self._request.modern:
            self._tell_to_stop(Stop.DISCONNECTED)  # 2026-07-28: to leave is to cancel, for who did not opt out
        elif self._take_room():
            self._detached.set()
        else:
            self._tell_to_stop(Stop.NO_ROOM)

    def shut_down(self) -> None:
        """The server goes down: end the call as failed, reason `shutdown`."""
        self._tell_to_stop(Stop.SHUTDOWN)

    def _tell_to_stop(self, why: Stop) -> None:
        if self._stop is None and not self._returned:
            self._stop = why
            self._stopping.set()
            self._tool_scope.cancel()

    # -- in the server's task

    async def run(self) -> None:
        """The call from its config to its outcome. Never raises: the task group is every call's."""
        try:
            call = await self._begin()
            if call is not None:
                async with anyio.create_task_group() as watchers:
                    for watch in self._watchers():
                        watchers.start_soon(watch, call)
                    await self._run_tool(call)
                    watchers.cancel_scope.cancel()
        except Exception as error:
            self._trouble.report("a watched tool call broke off", error)
            self._fail_with(make_error(_wire.INTERNAL_ERROR, "Internal server error"))
        finally:
            if not self._settled.is_set():
                self._fail_with(make_error(_wire.INTERNAL_ERROR, "The server is shutting down"))
            self._release()

    def _watchers(self) -> tuple[Callable[[Call], Coroutine[Any, Any, None]], ...]:
        return self._watch_end, self._watch_stop, self._watch_detached

    def _take_room(self) -> bool:
        # In the core, which counts those of every adapter on the hub.
        self._room = self._hub.room(self._counted_as, calls=self._limits.detached_calls)
        return self._room is not None

    def _release(self) -> None:
        if self._room is not None:
            self._room.release()
            self._room = None

    async def _begin(self) -> Call | None:
        request = self._request
        if not opening_of(self._hub).ready():
            self._trouble.swallow(_NOT_ACCEPTED, UnavailableError("the store is not open"))
            self._fail_with(_wire.config_not_stored())
            return None
        try:
            # Not to be interrupted: a config on disk whose call nobody holds would end as `server_lost`.
            if self._default is not None:
                accepted = self._routing.default(self._default)
            else:
                with anyio.fail_after(ACCEPT_WITHIN):
                    accepted = await self._routing.judge(request, self._principal, self._peer)
            if self._peer is not None:
                for route_type in accepted.to_peer:
                    self._peer.offer(route_type)
            with anyio.move_on_after(ACCEPT_WITHIN, shield=True):
                return await self._hub.begin_call(
                    config=accepted.config,
                    principal=self._principal,
                    session=request.session_id,
                    peer=None if self._peer is None else self._peer.name,
                    open=accepted.open,
                    request_id=request.id,
                    tool=request.params["name"],
                    route_types=accepted.route_types,
                    timeout=self._timeout,
                    traceparent=_wire.traceparent(request.params),
                )
            # The hub withdraws what it may yet store: a disk that does not answer has to be refused some time.
            raise TimeoutError(f"the store did not answer within {ACCEPT_WITHIN:g} s")
        except ConfigError as error:
            self._fail_with(_wire.config_rejected(json.loads(error.data_json)))
        except ConfigRefused as refused:
            self._fail_with(refused.answer)
        except RecursionError:
            fault = {"path": "", "rule": "too_deep", "message": "notificationConfig nests too deep"}
            self._fail_with(_wire.config_rejected({"faults": [fault], "total": 1}))
        except UnavailableError as error:
            self._trouble.swallow(_NOT_ACCEPTED, error)  # the core told of the outage once
            self._fail_with(_wire.config_not_stored())
        except Exception as error:
            self._trouble.report(_NOT_ACCEPTED, error)
            self._fail_with(_wire.config_not_stored())
        return None

    async def _run_tool(self, call: Call) -> None:
        acknowledgement = self._acknowledgement(call)
        returned: dict[str, Any] | None = None
        raised: Exception | None = None
        try:
            with self._tool_scope:
                if acknowledgement is not None:
                    await self._acknowledge(acknowledgement)
                await anyio.lowlevel.checkpoint_if_cancelled()
                try:
                    returned = await self._tool_result(call)
                except Exception as error:
                    raised = error
        except anyio.get_cancelled_exc_class():
            # The task itself is cancelled: the call lives inside its request (or a shutdown ran out of patience).
            await self._give_up(call)
            raise
        if self._stop is not None:
            # What a stopped tool still returned or raised is not an outcome: the stop was there first.
            with anyio.CancelScope(shield=True):
                await self._stop_recorded.wait()
            return
        self._returned = True
        with anyio.CancelScope(shield=True):
            await self._conclude(call, returned, raised, acknowledgement)

    async def _conclude(
        self,
        call: Call,
        returned: dict[str, Any] | None,
        raised: Exception | None,
        acknowledgement: dict[str, Any] | None,
    ) -> None:
        if returned is None:
            await self._record_error(call, raised)
        else:
            await self._record_result(call, returned, acknowledgement)

    def _acknowledgement(self, call: Call) -> dict[str, Any] | None:
        # A client that asked for nothing is told nothing of the server's own routes.
        if not self._asked:
            return None
        acknowledgement: dict[str, Any] = json.loads(call.acknowledgement())
        return acknowledgement

    async def _tool_result(self, call: Call) -> dict[str, Any]:
        emit = self._recorder(call.emit)
        with _current.as_current(call, emit, self._recorder(call.fire)):
            return _wire.result_dict(await self._request.run(emit))

    def _recorder(self, record: Callable[[str, bytes], object]) -> Callable[[str, bytes], None]:
        def recorded(kind: str, payload: bytes) -> None:
            try:
                record(kind, payload)
            except (ClosedError, EndedError):
                pass  # a tool that was stopped and still says something
            except Exception as error:
                self._trouble.report("an event of a call could not be recorded", error)

        return recorded

    async def _acknowledge(self, acknowledgement: dict[str, Any]) -> None:
        # On the request's own stream, before the tool runs. The result carries it again, for a client without one.
        with anyio.move_on_after(_ACKNOWLEDGE_WITHIN) as scope:
            try:
                await self._request.notify(_wire.ACKNOWLEDGED_METHOD, acknowledgement)
            except Exception as error:
                _log.debug("an acknowledgement was not sent: %s", error)
        if scope.cancelled_caught:
            _log.debug("an acknowledgement was not read in time")

    async def _record_result(self, call: Call, result: dict[str, Any], acknowledgement: dict[str, Any] | None) -> None:
        before = result.get("_meta")
        meta = dict(before) if isinstance(before, dict) else {}
        if acknowledgement is not None:
            meta[_wire.ACKNOWLEDGED_META] = acknowledgement
        result["_meta"] = meta
        interim = result.get("resultType")
        if isinstance(interim, str) and interim != "complete":
            # An interim answer ("input_required", "task"): the request is over and its tool has not completed.
            await self._record(call, lambda: call.cancel())
            self._settle(result)
            return
        try:
            payload = _wire.encode_result(result, modern=self._request.modern)
        except ValueError as error:
            _log.error("the result of tool %r could not be serialised: %s", self._request.params.get("name"), error)
            await self._record_error(call, _wire.not_serialisable(), "unserialisable")
            return
        ended = await self._record(call, lambda: call.complete(payload))
        if ended is not None and not ended.ours and ended.outcome in ("timeout", "cancelled"):
            self._fail_with(_wire.ended_elsewhere(ended, call.id))
            return
        if ended is None:
            meta[_wire.UNDELIVERED_META] = [{"reason": "store_unavailable"}]
        elif ended.undelivered is not None:
            meta[_wire.UNDELIVERED_META] = json.loads(ended.undelivered)
        self._settle(result)

    async def _record_error(self, call: Call, raised: Exception | None, reason: str | None = None) -> None:
        error = raised if raised is not None else make_error(_wire.INTERNAL_ERROR, "The tool gave no result")
        try:
            payload = _wire.dumps(error_dict(error, modern=self._request.modern))
        except (TypeError, ValueError):
            payload = _wire.dumps({"code": _wire.INTERNAL_ERROR, "message": "Internal server error"})
        ended = await self._record(call, lambda: call.fail(error=payload, reason=reason))
        if ended is not None and not ended.ours and ended.outcome in ("timeout", "cancelled"):
            error = _wire.ended_elsewhere(ended, call.id)
        self._fail_with(error)

    async def _record(self, call: Call, outcome: Callable[[], Awaitable[Ended]]) -> Ended | None:
        try:
            return await outcome()
        except Exception as error:
            self._trouble.report("an outcome could not be recorded", error)
            return None

    # -- what may end a call before its tool does

    async def _watch_end(self, call: Call) -> None:
        try:
            ended = await call.ended()
        except Exception as error:
            self._trouble.report("the end of a call could not be followed", error)
            return
        if self._returned or self._stop is not None:
            return  # the end is of our own making
        self._tell_to_stop(Stop.ENDED)
        # Answered at once: a tool that does not let itself be stopped must not keep the client waiting.
        self._fail_with(_wire.ended_elsewhere(ended, call.id))

    async def _watch_stop(self, call: Call) -> None:
        await self._stopping.wait()
        await self._record_stop(call)

    async def _give_up(self, call: Call) -> None:
        if self._stop is None:
            asked = self._request.cancel_asked()
            self._tell_to_stop(Stop.CANCELLED if asked else Stop.DISCONNECTED)
            await self._record_stop(call)

    async def _record_stop(self, call: Call) -> None:
        with anyio.CancelScope(shield=True):
            if self._stop is Stop.CANCELLED:
                await self._record(call, lambda: call.cancel())
            elif self._stop in (Stop.DISCONNECTED, Stop.NO_ROOM, Stop.EXPIRED):
                reason = self._stop.value
                await self._record(call, lambda: call.cancel(reason))
            elif self._stop is Stop.SHUTDOWN:
                await self._record(call, lambda: call.fail(reason="shutdown"))
        self._stop_recorded.set()

    async def _watch_detached(self, call: Call) -> None:
        await self._detached.wait()
        try:
            call.disconnected()
        except Exception as error:
            self._trouble.report("a lost connection could not be recorded", error)
        await anyio.sleep(self._limits.detached_seconds)
        self._tell_to_stop(Stop.EXPIRED)

    # -- the answer

    def _settle(self, result: dict[str, Any]) -> None:
        if not self._settled.is_set():
            self._result = result
            self._settled.set()

    def _fail_with(self, error: Exception) -> None:
        if not self._settled.is_set():
            self._error = error
            self._settled.set()

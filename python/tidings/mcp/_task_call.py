"""One ``tools/call`` that may become a task (SEP-2663): it runs inline for a while, then the client gets its id."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from .. import Call, UnavailableError
from . import _wire
from ._calls import ACCEPT_WITHIN, Stop, WatchedCall
from ._inline_call import InlineCall
from ._opening import opening_of
from ._request2 import Request2
from ._task_policy import ALWAYS, Tasks, task_result

_NO_TASK: Final = "a call could not become a task"


class TaskCall(WatchedCall):
    """A tool call of a request that declared the extension. With or without a ``notificationConfig``.

    The record of a task is on disk before the client hears of it. Whatever decides what the client is answered, the result
    or the task, does so under one lock: a client that got the result has no task, one that got the task finds it.
    """

    def __init__(
        self, *args: Any, policy: Tasks, mode: str, bound: bool, stamp: Callable[[], Any], **named: Any
    ) -> None:
        super().__init__(*args, **named)
        self._policy = policy
        self._watched = self._asked or self._default is not None
        self._mode = mode
        self._bound = bound
        self._stamp = stamp
        self._deciding = anyio.Lock()
        self._became = anyio.Event()
        self._began = anyio.current_time()
        self._inline: InlineCall | None = None
        """The call, where nobody asked to watch it."""

    # -- in the request's task

    def _request_is_gone(self) -> None:
        if self._settled.is_set():
            return
        if self._watched:
            super()._request_is_gone()
        else:
            # Nothing lets this call outlive its request (2026-07-28: to leave is to cancel).
            self._tell_to_stop(Stop.CANCELLED if self._request.cancel_asked() else Stop.DISCONNECTED)

    # -- in the server's task

    async def run(self) -> None:
        """The call from its beginning to its outcome. Never raises."""
        await super().run()

    async def _begin(self) -> Call | None:
        if self._watched:
            call = await super()._begin()
        else:
            self._inline = InlineCall(self._begin_task)
            call = cast(Call, self._inline)
        if call is not None and self._mode == ALWAYS:
            await self._become_task(call)
        return call

    async def _begin_task(self, ttl: float, bound: bool) -> Call:
        if not opening_of(self._hub).ready():
            raise UnavailableError("the store is not open")
        timeout = self._timeout
        if timeout is not None:
            timeout = max(timeout - (anyio.current_time() - self._began), 0.001)
        request = self._request
        return await self._hub.begin_call(
            config=None,
            principal=self._principal,
            session=request.session_id,
            request_id=request.id,
            tool=request.params["name"],
            timeout=timeout,
            task_ttl=ttl,
            task_bound=bound,
        )

    def _acknowledgement(self, call: Call) -> dict[str, Any] | None:
        return None if self._inline is not None else super()._acknowledgement(call)

    def _watchers(self) -> tuple[Callable[[Call], Coroutine[Any, Any, None]], ...]:
        return *super()._watchers(), self._watch_inline, self._watch_timeout, self._watch_task

    async def _watch_inline(self, call: Call) -> None:
        with anyio.move_on_after(self._policy.inline):
            if self._inline is not None:
                await self._inline.full.wait()
            else:
                await anyio.sleep_forever()
        await self._become_task(call)

    async def _watch_timeout(self, call: Call) -> None:
        # Of a call that is not in the store; the store times out the others.
        inline = self._inline
        if self._timeout is None or inline is None:
            return
        await anyio.sleep(self._timeout)
        async with self._deciding:
            if not inline.begun and not self._returned:
                self._tell_to_stop(Stop.ENDED)
                self._fail_with(_wire.timed_out(self._timeout))

    async def _watch_task(self, call: Call) -> None:
        await self._became.wait()
        await anyio.sleep(self._limits.detached_seconds)
        self._tell_to_stop(Stop.EXPIRED)

    async def _become_task(self, call: Call) -> None:
        async with self._deciding:
            if self._became.is_set() or self._returned or self._stop is not None or self._settled.is_set():
                return
            if self._detached.is_set() or not self._take_room():
                return  # nobody is there to be told, or there are too many: it goes on as the call it is
            # Taken before anything waits, so that two calls do not take the last place.
            became = False
            try:
                with anyio.move_on_after(ACCEPT_WITHIN, shield=True):
                    became = await call.become_task(self._policy.ttl, bound=self._bound)
                    if became:
                        self._became.set()
                        self._settle(self._answer_with_task(call))
            except UnavailableError as error:
                self._trouble.swallow(_NO_TASK, error)  # the core told of the outage once
            except Exception as error:
                self._trouble.report(_NO_TASK, error)
            finally:
                if not self._became.is_set():
                    self._release()

    def _answer_with_task(self, call: Call) -> dict[str, Any]:
        task = self._hub.task(call.id, principal=self._principal)
        if task is None:
            raise LookupError("the task is not found")
        meta = self._stamp()
        acknowledgement = self._acknowledgement(call)
        if acknowledgement is not None:
            meta[_wire.ACKNOWLEDGED_META] = acknowledgement
        return {"resultType": "task", **task_result(task, self._policy), "_meta": meta}

    async def _tool_result(self, call: Call) -> dict[str, Any]:
        result = await super()._tool_result(call)
        if not await self._asks(result):
            return result
        while True:
            requests = result.get("inputRequests") or {}
            self._request = self._request2().answered(await self._ask(call, requests), result.get("requestState"))
            result = await super()._tool_result(call)
            if not await self._asks(result):
                return result

    async def _asks(self, result: dict[str, Any]) -> bool:
        """Whether the task has to ask for something now. A call that is no task hands the question to its client as ever."""
        if result.get("resultType") != "input_required":
            return False
        async with self._deciding:
            task = self._became.is_set()
            self._returned = not task  # from here on it will not become one
            return task

    async def _ask(self, call: Call, requests: dict[str, Any]) -> dict[str, Any]:
        if not requests:
            await anyio.sleep(self._policy.poll)  # nothing but its own state: it wants to be called again
            return {}
        answers: dict[str, Any] = json.loads(await call.ask(_wire.dumps(requests)))
        return answers

    def _request2(self) -> Request2:
        request = self._request
        assert isinstance(request, Request2)
        return request

    async def _conclude(
        self,
        call: Call,
        returned: dict[str, Any] | None,
        raised: Exception | None,
        acknowledgement: dict[str, Any] | None,
    ) -> None:
        async with self._deciding:
            if self._inline is not None and not self._inline.begun:
                # As if we were not there.
                if returned is not None:
                    self._settle(returned)
                else:
                    self._fail_with(
                        raised if raised is not None else MCPError(INTERNAL_ERROR, "The tool gave no result")
                    )
                return
            await super()._conclude(call, returned, raised, acknowledgement)

    async def _record_stop(self, call: Call) -> None:
        async with self._deciding:
            await super()._record_stop(call)

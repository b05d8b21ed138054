"""The requests about tasks: ``tasks/get``, ``tasks/update``, ``tasks/cancel`` (SEP-2663) and ``tasks/stream`` (SEP-2694)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, RequestParams, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict

from .. import Hub, Task, TidingsError, UnavailableError
from . import _compat, _scoping, _wire
from ._opening import opening_of
from ._principal import principal_of
from ._task_policy import EXTENSION, Tasks, task_result
from ._task_stream import TaskStream
from ._trouble import Trouble

_log: Final = logging.getLogger("tidings.mcp")

_METHOD_NOT_FOUND: Final = -32601
_MISSING_CAPABILITY: Final = -32021


class _Any(RequestParams):
    """Parameters of a method of ours, which says itself what is wrong with them."""

    model_config = ConfigDict(extra="allow")


def declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this very request declared the extension; it exists from 2026-07-28 on."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    capabilities = ctx.session.client_capabilities
    return bool(capabilities and capabilities.extensions and EXTENSION in capabilities.extensions)


def undeclared() -> MCPError:
    """Answered to a request that needs the extension and did not declare it."""
    message = f"The client did not declare the extension {EXTENSION!r}"
    return MCPError(_MISSING_CAPABILITY, message, {"requiredCapabilities": {"extensions": {EXTENSION: {}}}})


def asker(ctx: ServerRequestContext[Any, Any]) -> tuple[str, bool]:
    """Who asks, and whether they are authenticated.

    An authenticated principal's task is that principal's. Where nobody is authenticated the task's id, 128 random bits, is
    all there is to know: a request of 2026-07-28 has no session that could stand for anybody.
    """
    name, _ = principal_of(ctx)
    return name, name.startswith("auth:")


class TaskMethods:
    """The handlers; `install` registers them."""

    def __init__(self, server: Server[Any], hub: Hub, policy: Tasks, *, stream: bool, trouble: Trouble) -> None:
        self._server = server
        self._hub = hub
        self._policy = policy
        self._trouble = trouble
        self._stream = TaskStream(hub, policy) if stream else None

    def install(self, *, step_aside: bool) -> bool:
        """Serve the methods and say so in ``server/discover``, unless somebody serves tasks already; whether it does.

        Raises RuntimeError in that case unless it may `step_aside`.
        """
        handlers = {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}
        if self._stream is not None:
            handlers["tasks/stream"] = self._serve_stream
        taken = [name for name in handlers if self._server.get_request_handler(name) is not None]
        if taken or EXTENSION in self._server.extensions:
            found = ", ".join(taken) or EXTENSION
            if not step_aside:
                raise RuntimeError(f'this server has tasks already ({found}); leave tasks "off"')
            _log.warning("this server has tasks already (%s): they stay its own, and ours are off", found)
            return False
        _scoping.install()  # it knows which sessions are answered in JSON
        for name, handler in handlers.items():
            self._server.add_request_handler(name, _Any, handler)
        # The SDK shows extensions to 2026-07-28 only; to older clients the extension does not exist.
        self._server.extensions[EXTENSION] = {} if self._stream is None else {"eventStreams": {}}
        return True

    async def _get(self, ctx: ServerRequestContext[Any, Any], _: _Any) -> dict[str, Any]:
        _require(ctx)
        return task_result(self._find(ctx), self._policy)

    async def _update(self, ctx: ServerRequestContext[Any, Any], _: _Any) -> dict[str, Any]:
        _require(ctx)
        params = ctx.params or {}
        responses = params.get("inputResponses")
        if not isinstance(responses, Mapping):
            raise MCPError(INVALID_PARAMS, "inputResponses must be an object")
        outstanding = json.loads(self._find(ctx).json).get("inputRequests", {})
        # Answers to what was not asked, or to what has an answer, are to be ignored (SEP-2663).
        known = {key: response for key, response in responses.items() if key in outstanding}
        if known:
            # Told here, where somebody can mend it: the tool gets these answers in a request of its own.
            asked = {"name": "", "_meta": params.get("_meta"), "inputResponses": known}
            methods.validate_client_request("tools/call", ctx.protocol_version, asked)
            try:
                found = await self._hub.answer_task(_task_id(ctx), _wire.dumps(known), principal=asker(ctx)[0])
            except TidingsError as error:
                raise self._failed(error) from error
            if not found:
                raise _unknown()
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], _: _Any) -> dict[str, Any]:
        _require(ctx)
        name, _bound = asker(ctx)
        task_id = _task_id(ctx)
        self._require_store()
        try:
            found = await self._hub.cancel_task(task_id, principal=name)
        except TidingsError as error:
            raise self._failed(error) from error
        if not found:
            raise _unknown()
        return {}

    async def _serve_stream(self, ctx: ServerRequestContext[Any, Any], _: _Any) -> dict[str, Any]:
        assert self._stream is not None
        if not self._can_stream(ctx):
            raise MCPError(_METHOD_NOT_FOUND, "Method not found: this server answers without streams", "tasks/stream")
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            _require(ctx)
        try:
            await self._stream.serve(ctx, asker(ctx)[0], _task_id(ctx), self._find(ctx))
        except TidingsError as error:
            raise self._failed(error) from error
        return {}

    def _can_stream(self, ctx: ServerRequestContext[Any, Any]) -> bool:
        # With JSON responses the SDK takes notifications of a request and sends them nowhere.
        if _scoping.answers_in_json(_compat.connection(ctx.session).session_id):
            return False
        manager = _compat.existing_manager(self._server)
        if manager is not None and manager.json_response and ctx.request is not None:
            return False
        return _compat.has_stream(ctx.session)

    def _find(self, ctx: ServerRequestContext[Any, Any]) -> Task:
        name, _ = asker(ctx)
        task_id = _task_id(ctx)
        self._require_store()
        try:
            task = self._hub.task(task_id, principal=name)
        except TidingsError as error:
            raise self._failed(error) from error
        if task is None:
            raise _unknown()
        return task

    def _require_store(self) -> None:
        if not opening_of(self._hub).ready():
            raise self._failed(UnavailableError("the store is not open"))

    def _failed(self, error: TidingsError) -> Exception:
        if error.retryable:
            self._trouble.swallow("a request about a task failed", error)
        else:
            self._trouble.report("a request about a task failed", error)
        data = {"reason": error.code, "retryable": error.retryable}
        return MCPError(INTERNAL_ERROR, "The task could not be looked up", data)


def _require(ctx: ServerRequestContext[Any, Any]) -> None:
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        # To this client the extension, and with it the method, does not exist.
        raise MCPError(_METHOD_NOT_FOUND, "Method not found", ctx.method)
    _check_name(ctx)
    if not declared(ctx):
        raise undeclared()


def _check_name(ctx: ServerRequestContext[Any, Any]) -> None:
    """Over HTTP the header Mcp-Name has to name the task (SEP-2243); the SDK asks that of its own methods only.

    ``tasks/stream`` is none of the extension's methods yet, so there it may be left out.
    """
    task_id = (ctx.params or {}).get("taskId")
    headers = getattr(ctx.request, "headers", None)
    if headers is None or not isinstance(task_id, str):
        return
    named = headers.get(MCP_NAME_HEADER)
    if (named is None and ctx.method != "tasks/stream") or (
        named is not None and decode_header_value(named) != task_id
    ):
        raise MCPError(HEADER_MISMATCH, f"The {MCP_NAME_HEADER} header does not match the request body's taskId")


def _task_id(ctx: ServerRequestContext[Any, Any]) -> str:
    task_id = (ctx.params or {}).get("taskId")
    if not isinstance(task_id, str):
        raise MCPError(INVALID_PARAMS, "taskId must be a string")
    return task_id


def _unknown() -> Exception:
    # The same for one that never was, is over, or belongs to somebody else.
    return MCPError(INVALID_PARAMS, "Unknown task")

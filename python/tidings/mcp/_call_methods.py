"""``io.tidings/calls/cancel``: a client stops a call that went on without it."""

from __future__ import annotations

from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, RequestParams
from pydantic import ConfigDict

from .. import Hub, TidingsError
from ._opening import opening_of
from ._principal import principal_of
from ._trouble import Trouble

CANCEL: Final = "io.tidings/calls/cancel"


class _Any(RequestParams):
    """Parameters of a method of ours, which says itself what is wrong with them."""

    model_config = ConfigDict(extra="allow")


class CallMethods:
    """The handler; `install` registers it."""

    def __init__(self, server: Server[Any], hub: Hub, trouble: Trouble) -> None:
        self._server = server
        self._hub = hub
        self._trouble = trouble

    def install(self) -> None:
        """Serve the method."""
        self._server.add_request_handler(CANCEL, _Any, self._cancel)

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], _: _Any) -> dict[str, Any]:
        call_id = (ctx.params or {}).get("callId")
        if not isinstance(call_id, str):
            raise MCPError(INVALID_PARAMS, "callId must be a string")
        principal, _counted_as = principal_of(ctx)
        try:
            known = opening_of(self._hub).ready() and await self._hub.cancel_call(call_id, principal=principal)
        except TidingsError as error:
            self._trouble.report("a call could not be cancelled", error)
            data = {"reason": error.code, "retryable": error.retryable}
            raise MCPError(INTERNAL_ERROR, "The call could not be cancelled", data) from error
        if not known:
            # The same for one that never was, is forgotten, or belongs to somebody else.
            raise MCPError(INVALID_PARAMS, "Unknown call")
        return {}

"""What mcp 2.x has to be asked in its own way; `_sdk1` has the same names for mcp 1.x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

_FINAL: Final = frozenset({JSONRPCResponse, JSONRPCError})

DUMP: Final[dict[type, Callable[..., bytes]]] = {
    kind: kind.__pydantic_serializer__.to_json for kind in (JSONRPCNotification, JSONRPCRequest)
}
"""What a server sends before a stream's final response, and how it becomes JSON with the arguments of `wire_bytes`."""


def wire_bytes(message: JSONRPCMessage) -> bytes:
    """The JSON text of a message, byte for byte what ``model_dump_json(by_alias=True, exclude_unset=True)`` gives.

    That call is what the legacy transport puts on the wire. Asking the serialiser itself gives the bytes without
    the detour through `str`, in less than half the time.
    """
    return message.__pydantic_serializer__.to_json(message, by_alias=True, exclude_unset=True)


def is_final(message: JSONRPCMessage) -> bool:
    """Whether it is a response, which ends its request's stream."""
    # Exact types: `isinstance` asks a pydantic class in Python.
    return type(message) in _FINAL


def substitute(message: JSONRPCMessage) -> bytes | None:
    """What is stored for a message that has no JSON text: an error in place of a response, else nothing.

    A client that resumes must not wait for ever for a response that could not be written.
    """
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return None
    error = ErrorData(code=INTERNAL_ERROR, message="The response could not be serialised")
    return wire_bytes(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))


def make_error(code: int, message: str, data: Any = None) -> Exception:
    """The exception that the SDK answers with this JSON-RPC error."""
    return MCPError(code, message, data)


def error_dict(error: Exception, *, modern: bool) -> dict[str, Any]:
    """The JSON-RPC error the SDK answers with when a handler raised `error`."""
    if isinstance(error, MCPError):
        dumped: dict[str, Any] = error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
        return dumped
    if isinstance(error, ValidationError):
        return {"code": INVALID_PARAMS, "message": "Invalid request parameters", "data": ""}
    if modern:
        return {"code": INTERNAL_ERROR, "message": "Internal server error"}
    return {"code": 0, "message": str(error)}

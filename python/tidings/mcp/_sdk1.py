"""What mcp 1.x has to be asked in its own way; `_sdk2` has the same names for mcp 2.x."""

from __future__ import annotations

from typing import Any, Final

from mcp.shared.exceptions import McpError
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

_FINAL: Final = frozenset({JSONRPCResponse, JSONRPCError})

DUMP: Final[dict[type, Any]] = {}
"""Nothing goes the short way: all messages are of one type here, final responses too."""


def wire_bytes(message: JSONRPCMessage) -> bytes:
    """The JSON text of a message, byte for byte what ``model_dump_json(by_alias=True, exclude_none=True)`` gives.

    That call is what the transport puts on the wire.
    """
    return message.__pydantic_serializer__.to_json(message, by_alias=True, exclude_none=True)


def is_final(message: JSONRPCMessage) -> bool:
    """Whether it is a response, which ends its request's stream."""
    return type(message.root) in _FINAL


def substitute(message: JSONRPCMessage) -> bytes | None:
    """What is stored for a message that has no JSON text: an error in place of a response, else nothing."""
    if not is_final(message):
        return None
    error = ErrorData(code=INTERNAL_ERROR, message="The response could not be serialised")
    return wire_bytes(JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=message.root.id, error=error)))


def make_error(code: int, message: str, data: Any = None) -> Exception:
    """The exception that the SDK answers with this JSON-RPC error."""
    return McpError(ErrorData(code=code, message=message, data=data))


def error_dict(error: Exception, *, modern: bool) -> dict[str, Any]:
    """The JSON-RPC error the SDK answers with when a handler raised `error`."""
    if isinstance(error, McpError):
        return error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {"code": 0, "message": str(error)}

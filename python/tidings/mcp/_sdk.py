"""Which MCP SDK is installed, and what of it the adapter has to ask in its own way.

mcp 1.x and 2.x share the classes of Streamable HTTP, which the adapter imports by their common names; what differs stands
in `_sdk1` and `_sdk2` under the same names, and everything else takes it from here.
"""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


VERSION: Final = _version("mcp")
"""The version of the installed SDK, or None."""

_WANTED: Final = (
    "tidings.mcp needs the MCP SDK, mcp 2.3 or later or mcp 1.30; install it with: pip install 'tidings[mcp]'"
)

if VERSION is None or find_spec("mcp") is None:
    raise ImportError(_WANTED)

GENERATION: Final = 2 if find_spec("mcp_types") is not None else 1
"""2 for mcp 2.x, 1 for mcp 1.x."""

if not TYPE_CHECKING and GENERATION == 1:
    try:
        from ._sdk1 import DUMP, error_dict, is_final, make_error, substitute, wire_bytes
    except ImportError as error:
        raise ImportError(f"{_WANTED}; found mcp {VERSION}: {error}") from error
else:
    from ._sdk2 import DUMP, error_dict, is_final, make_error, substitute, wire_bytes

__all__ = [
    "DUMP",
    "GENERATION",
    "VERSION",
    "error_dict",
    "is_final",
    "make_error",
    "substitute",
    "wire_bytes",
]

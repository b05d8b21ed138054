"""What a server says it can do: put into the results of ``initialize`` and ``server/discover``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ._wire import CONFIG, EXTENSION

METHODS: Final = frozenset({"initialize", "server/discover"})
"""The requests whose result carries the server's capabilities, one of each era."""


def advertise(result: dict[str, Any], routes: Sequence[str]) -> dict[str, Any]:
    """`result` with the capability added, under the key for extensions and under SEP-992's own.

    The SDK keeps neither an unknown capability nor, in ``initialize``, extensions at all, so this happens to the
    finished result.
    """
    capability = {"supportedRouteTypes": list(routes)}
    before = result.get("capabilities")
    capabilities = dict(before) if isinstance(before, dict) else {}
    extensions = capabilities.get("extensions")
    capabilities["extensions"] = {**(extensions if isinstance(extensions, dict) else {}), EXTENSION: capability}
    capabilities[CONFIG] = dict(capability)
    return {**result, "capabilities": capabilities}

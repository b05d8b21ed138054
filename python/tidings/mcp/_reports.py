"""The rules for what a server says about a running request, as both generations of the SDK apply them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from .. import InvalidArgument
from .._native import Progress, log_passes

PROGRESS: Final = "notifications/progress"
MESSAGE: Final = "notifications/message"


def checked(progress: Progress, params: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """The parameters of a report as they are sent; None: it is not. ValueError: it is no number.

    The token is the request's own, whatever the tool named.
    """
    total = params.get("total")
    message = params.get("message")
    told, why = progress.report(
        float(params.get("progress", 0.0)),
        None if total is None else float(total),
        message if isinstance(message, str) else None,
        now,
    )
    if why == "not_finite":
        raise ValueError("progress: must be a finite number, and so must its total")
    return None if told is None else {**params, **json.loads(told)}


def rules(token: int | str | None, interval: float) -> Progress:
    """The rules for a request that brought that token, or none."""
    try:
        return Progress(token, interval)
    except InvalidArgument:
        return Progress(None, interval)  # beyond what an id may be: nothing is reported under it


def passes(level: str | None, params: Mapping[str, Any] | None) -> bool:
    """Whether a log message is sent to a session that asked for `level`, if for any."""
    said = (params or {}).get("level")
    if level is None or not isinstance(said, str):
        return True
    try:
        return log_passes(False, level, said)
    except InvalidArgument:
        return True  # a level that there is not is the SDK's to refuse

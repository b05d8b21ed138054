"""Names, codes and JSON texts of our own that go over the wire (DESIGN section 8), and errors made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pydantic_core
from pydantic import BaseModel

from .. import Ended
from ._sdk import make_error

INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
"""JSON-RPC 2.0, section 5.1."""

CONFIG: Final = "notificationConfig"
"""The key in the parameters of ``tools/call`` and in the capabilities (SEP-992)."""

EXTENSION: Final = "io.tidings/notification-config"
"""The same capability under the key the protocol keeps for extensions. The same key in the ``_meta`` of a ``tools/call`` may
hold the config, for clients whose SDK has no room for it in the parameters."""

ACKNOWLEDGED_METHOD: Final = "notifications/config/acknowledged"
ACKNOWLEDGED_META: Final = "io.tidings/acknowledged"
TRIGGERED_METHOD: Final = "notifications/io.tidings/triggered"
UNDELIVERED_META: Final = "io.tidings/undelivered"

RECORDED_TOKEN: Final = "io.tidings/recorded"
"""Stands in for the progress token of a client that gave none, as some SDKs drop progress without one before we see it.
What is said under it is recorded and sent to nobody."""

PROGRESS_EVENT: Final = "io.tidings.progress"
LOG_EVENT: Final = "io.tidings.log"


def dumps(value: Any) -> bytes:
    """Compact ASCII JSON: any string goes through it, lone surrogates too. Raises ValueError or TypeError."""
    return json.dumps(value, separators=(",", ":")).encode()


def result_dict(result: BaseModel | dict[str, Any] | None) -> dict[str, Any]:
    """A handler's result as the object the SDK would send, owned by the caller."""
    if result is None:
        return {}
    if isinstance(result, BaseModel):
        dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return dumped
    return dict(result)


def encode_result(result: dict[str, Any], *, modern: bool) -> bytes:
    """The one serialisation of a result that is recorded and delivered. Raises ValueError when there is none.

    The legacy wire is written by pydantic, which has no text for a lone surrogate; the modern one by `json`, which
    escapes it.
    """
    try:
        return pydantic_core.to_json(result, inf_nan_mode="null")
    except ValueError:
        if not modern:
            raise
    try:
        return json.dumps(result, separators=(",", ":"), allow_nan=False).encode()
    except TypeError as error:
        raise ValueError(str(error)) from error


def config_rejected(data: dict[str, Any]) -> Exception:
    """-32602 with `data` as the core words it: the faults (at most 20) and how many there were; nothing ran."""
    return make_error(
        INVALID_PARAMS,
        "notificationConfig was rejected and nothing ran; data.faults says why",
        data,
    )


def policy_failed() -> Exception:
    """Answered where the operator's policy did not come to a decision: nothing is sent anywhere on a guess."""
    return make_error(
        INTERNAL_ERROR,
        "notificationConfig could not be judged and nothing ran",
        {"reason": "policy_failed", "retryable": True},
    )


def config_not_stored() -> Exception:
    """A config that cannot be made durable is not accepted: the client is told and may try again."""
    return make_error(
        INTERNAL_ERROR,
        "notificationConfig could not be stored and nothing ran; try again later",
        {"reason": "unavailable", "retryable": True},
    )


def not_serialisable() -> Exception:
    """Answered for a result that no JSON text exists for."""
    return make_error(INTERNAL_ERROR, "The tool's result could not be serialised", {"reason": "unserialisable"})


def traceparent(params: Mapping[str, Any]) -> str | None:
    """The W3C trace context of a request, in its ``_meta``; the core ignores what is none."""
    meta = params.get("_meta")
    found = meta.get("traceparent") if isinstance(meta, Mapping) else None
    return found if isinstance(found, str) else None


def timed_out(seconds: float | None, call_id: str | None = None) -> Exception:
    """Answered for a tool that was stopped because its time was over."""
    data: dict[str, Any] = {"reason": "timeout"}
    if seconds is not None:
        data["timeoutMs"] = round(seconds * 1000)
    if call_id is not None:
        data["callId"] = call_id
    return make_error(INTERNAL_ERROR, "The tool call timed out", data)


def ended_elsewhere(ended: Ended, call_id: str) -> Exception:
    """Answered for a call that somebody else ended while its tool ran: its timer, or another process."""
    if ended.outcome == "timeout":
        return timed_out(None, call_id)
    data = {"reason": ended.reason or ended.outcome, "callId": call_id}
    return make_error(INTERNAL_ERROR, f"The tool call ended as {ended.outcome}", data)

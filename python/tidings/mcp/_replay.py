"""Messages that are already text, in the shape the SDK's replay path wants."""

from __future__ import annotations

import json
from typing import Any, Final

from .. import Gap

MESSAGE: Final = "message"
"""The type of a stored event that is a message of the protocol; others are the adapter's own and never go out."""

OPENED: Final = "io.tidings.opened"
"""The type of the event that stands for the priming event of a stream."""

GAP_METHOD: Final = "notifications/io.tidings/gap"
"""DESIGN section 8: tells a resumed legacy stream that it cannot be complete."""


class Replayed:
    """A stored message. The replay path only ever asks for its JSON, which is the stored text, unparsed."""

    __slots__ = ("_payload",)

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def model_dump_json(self, **_options: Any) -> str:
        """The stored text, byte for byte."""
        return self._payload.decode()


def gap_notice(gap: Gap) -> Replayed:
    """`gap_text` for the SDK."""
    return Replayed(gap_text(gap))


def gap_text(gap: Gap) -> bytes:
    """The notification that stands in for what is missing: `reason`, and the numbers the stream still has."""
    params: dict[str, Any] = {"reason": gap.reason}
    if gap.earliest_seq is not None:
        params["earliestSeq"] = gap.earliest_seq
    if gap.head_seq is not None:
        params["headSeq"] = gap.head_seq
    notice = {"jsonrpc": "2.0", "method": GAP_METHOD, "params": params}
    return json.dumps(notice, separators=(",", ":")).encode()

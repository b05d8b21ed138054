"""Standard Webhooks on the receiving side."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from . import _native
from ._errors import InvalidArgument

_HEADERS = frozenset(("webhook-id", "webhook-timestamp", "webhook-signature"))


class Webhook:
    """Checks webhooks by their sender's secrets (`whsec_…`); two of them while one replaces the other.

    Raises `InvalidArgument` for a secret that is malformed.
    """

    __slots__ = ("_native",)

    def __init__(self, *secrets: str) -> None:
        self._native = _native.Webhook(list(secrets))

    def verify(
        self, body: bytes, headers: Mapping[str, str], *, tolerance: float = 300.0, now: float | None = None
    ) -> None:
        """Checks that a webhook came from a holder of a secret, unchanged, and at most `tolerance` seconds ago (or ahead).

        `body` is the raw request body: JSON that was parsed and written again has other bytes. Headers are found
        whatever their case. A good signature does not make it new: remember the `webhook-id`s you have seen.

        Raises `WebhookError`, whose `code` names the rule.
        """
        if not (tolerance >= 0 and math.isfinite(tolerance)):
            raise InvalidArgument("tolerance: must be a number of seconds, 0 or more")
        pairs = [(name, value) for name, value in headers.items() if name.lower() in _HEADERS]
        self._native.verify(body, pairs, int(time.time() if now is None else now), int(tolerance))

    def sign(self, body: bytes, *, id: str, timestamp: float | None = None) -> dict[str, str]:
        """The headers of a webhook with this body, signed with every secret; for tests of a receiver."""
        return dict(self._native.sign(body, id, int(time.time() if timestamp is None else timestamp)))

    def __repr__(self) -> str:
        return "Webhook(…)"


class DecryptionKeys:
    """A receiver's private keys, for bodies that are encrypted to it (`publicKey` of a route); several while one replaces the
    other. Each is a JWK on P-256 or X25519, as JSON text or as the dict of it.

    Raises `InvalidArgument` for a key that is none; the message holds nothing of it.
    """

    __slots__ = ("_native",)

    def __init__(self, *keys: str | Mapping[str, Any]) -> None:
        texts = [key if isinstance(key, str) else json.dumps(dict(key)) for key in keys]
        self._native = _native.DecryptionKeys(texts)

    def decrypt(self, body: bytes) -> bytes:
        """What was encrypted to one of these keys: JWE in its compact form, ECDH-ES with A256GCM.

        Verify the body first: the signature is over what travels. Raises `WebhookError`, whose `code` names the rule.
        """
        return self._native.decrypt(body)

    def __repr__(self) -> str:
        return "DecryptionKeys(…)"

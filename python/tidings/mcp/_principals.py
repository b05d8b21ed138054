"""Principals as text: who asks, in one unambiguous form for every SDK and for the record of a session's owner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context

if TYPE_CHECKING:
    from starlette.types import Scope

ANONYMOUS: Final = "anonymous"
"""Where detached calls are counted whose principal lives no longer than one request."""


def principal(issuer: str | None, subject: str | None, client_id: str) -> str:
    """The text that names an authenticated principal, as the adapter puts it on record with a session."""
    return "auth:" + json.dumps([issuer, subject, client_id], separators=(",", ":"))


def principal_in(scope: Scope) -> str | None:
    """The principal that the SDK's own authentication found for a request; None without."""
    user = scope.get("user")
    if not isinstance(user, AuthenticatedUser):
        return None
    who = authorization_context(user)
    return principal(who["issuer"], who["subject"], who["client_id"])

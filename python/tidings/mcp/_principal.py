"""Who asks: the principal of a request, as one unambiguous text."""

from __future__ import annotations

import uuid
from typing import Any, Final

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, principal_components
from mcp.server.context import ServerRequestContext

from . import _compat
from ._principals import ANONYMOUS, principal

_STAND_IN: Final = "io.tidings/principal"


def principal_of(ctx: ServerRequestContext[Any, Any]) -> tuple[str, str]:
    """The principal of a request, and the name its detached calls are counted under.

    Issuer, subject and client id as the SDK authenticated them; without authentication the MCP session; without a
    session the connection (stdio: the process, modern HTTP: this one request).
    """
    token = _token(ctx)
    if token is not None:
        client, issuer, subject = principal_components(token)
        name = principal(issuer, subject, client)
        return name, name
    connection = _compat.connection(ctx.session)
    if connection.session_id is not None:
        name = "session:" + connection.session_id
        return name, name
    name = connection.state.setdefault(_STAND_IN, "connection:" + uuid.uuid4().hex)
    # A name that no second request can have would make a limit per principal none at all.
    return name, ANONYMOUS


def _token(ctx: ServerRequestContext[Any, Any]) -> AccessToken | None:
    scope = getattr(ctx.request, "scope", None)
    user = scope.get("user") if isinstance(scope, dict) else None
    if isinstance(user, AuthenticatedUser):
        return user.access_token
    return get_access_token()

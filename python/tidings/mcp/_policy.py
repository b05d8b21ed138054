"""Who may have what sent where: the operator's policy for the configs of clients."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
import anyio.to_thread


@dataclass(frozen=True)
class PolicyRequest:
    """A ``notificationConfig`` that is to be judged before its tool runs."""

    principal: str
    """Who asks, as `tidings.mcp.principal` writes it; a stand-in where nobody is authenticated."""
    tool: str
    """The tool that is called."""
    config: dict[str, Any]
    """The config as the client sent it, parsed; a copy. Not checked yet."""
    session: str | None
    """The MCP session, where there is one."""


@dataclass(frozen=True)
class Allow:
    """The config is good, as far as the rules hold as well."""

    open: Sequence[str] = ()
    """The names that its routes of type ``message`` and ``callback`` may have as ``endpoint``."""


@dataclass(frozen=True)
class Deny:
    """Nothing runs, and the client gets -32602 with a fault of rule ``denied``."""

    reason: str = "this server does not let you be told there"
    """What the client is told."""


@dataclass(frozen=True)
class Rewrite:
    """Another config takes the place of the client's. The rules hold for it all the same."""

    config: Mapping[str, Any]
    open: Sequence[str] = ()
    """As in `Allow`."""


Decision: TypeAlias = Allow | Deny | Rewrite | bool
Policy: TypeAlias = "Callable[[PolicyRequest], Decision | Awaitable[Decision]]"


async def ask(policy: Policy, request: PolicyRequest) -> Allow | Deny | Rewrite:
    """What the policy says; `True` is `Allow()`, `False` is `Deny()`. Raises what it raises, and TypeError for anything else.

    A policy that is not async may take its time: it runs in a thread.
    """
    called: Any = policy
    if inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(getattr(policy, "__call__", None)):  # noqa: B004 - asked whether it is async
        said = await called(request)
    else:
        said = await anyio.to_thread.run_sync(called, request)
        if inspect.isawaitable(said):
            said = await said
    if said is True:
        return Allow()
    if said is False:
        return Deny()
    if not isinstance(said, Allow | Deny | Rewrite):
        raise TypeError(f"a policy answers Allow, Deny, Rewrite, True or False, not {said!r}")
    return said

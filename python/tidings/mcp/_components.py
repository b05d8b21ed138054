"""Following a server's components: whoever adds or removes a tool need not say so.

`MCPServer` and `FastMCP` (that of mcp 1.x too) keep their components in plain dictionaries behind methods; these are wrapped on the one object,
and a change is published when what clients are shown has changed. Registering the same again changes nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ._sdk import GENERATION
from ._transports import assigns

if TYPE_CHECKING or GENERATION == 2:
    from mcp.server.mcpserver import MCPServer as _HighLevel
    from mcp.server.mcpserver.prompts.manager import PromptManager
    from mcp.server.mcpserver.resources.resource_manager import ResourceManager
    from mcp.server.mcpserver.tools.tool_manager import ToolManager
else:
    from mcp.server.fastmcp import FastMCP as _HighLevel
    from mcp.server.fastmcp.prompts.manager import PromptManager
    from mcp.server.fastmcp.resources.resource_manager import ResourceManager
    from mcp.server.fastmcp.tools.tool_manager import ToolManager

_FASTMCP_KINDS: Final = {
    "tool": "tools",
    "prompt": "prompts",
    "resource": "resources",
    "template": "resource_templates",
}

_SHOWN: Final = ("to_mcp_tool", "to_mcp_prompt", "to_mcp_resource", "to_mcp_template")


def follow(server: object, changed: Callable[[str], None]) -> None:
    """Call `changed` with the kind whenever a component of `server` is added, replaced or removed."""
    fastmcp = sys.modules.get("fastmcp")
    if fastmcp is not None and isinstance(server, fastmcp.FastMCP):
        _follow_fastmcp(server._local_provider, changed)
    elif isinstance(server, _HighLevel):
        for manager, names, kind in (
            (server._tool_manager, ("_tools",), "tools"),
            (server._prompt_manager, ("_prompts",), "prompts"),
            (server._resource_manager, ("_resources", "_templates"), "resources"),
        ):
            _follow_manager(manager, names, functools.partial(changed, kind))


def missing() -> list[str]:
    """The private names that following needs and the installed SDK does not have."""
    wanted = (
        (_HighLevel, "_tool_manager"),
        (_HighLevel, "_prompt_manager"),
        (_HighLevel, "_resource_manager"),
        (ToolManager, "_tools"),
        (PromptManager, "_prompts"),
        (ResourceManager, "_resources"),
        (ResourceManager, "_templates"),
    )
    return [f"{cls.__module__}.{cls.__qualname__}.{name}" for cls, name in wanted if not assigns(cls, name)]


def _follow_manager(manager: Any, names: tuple[str, ...], changed: Callable[[], None]) -> None:
    def sizes() -> list[int]:
        return [len(getattr(manager, name)) for name in names]

    for name in dir(type(manager)):
        if name.startswith(("add_", "remove_")):
            _wrap(manager, name, sizes, changed)


def _wrap(manager: Any, name: str, sizes: Callable[[], list[int]], changed: Callable[[], None]) -> None:
    original = getattr(manager, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before = sizes()
        result = original(*args, **kwargs)
        if sizes() != before:
            changed()
        return result

    setattr(manager, name, wrapped)


def _follow_fastmcp(provider: Any, changed: Callable[[str], None]) -> None:
    add, remove = provider._add_component, provider._remove_component

    @functools.wraps(add)
    def adding(component: Any) -> Any:
        before = provider._components.get(component.key)
        added = add(component)
        if before is None or _shown(before) != _shown(added):
            _tell(component.key, changed)
        return added

    @functools.wraps(remove)
    def removing(key: str) -> None:
        remove(key)
        _tell(key, changed)

    provider._add_component, provider._remove_component = adding, removing


def _tell(key: str, changed: Callable[[str], None]) -> None:
    if (kind := _FASTMCP_KINDS.get(key.partition(":")[0])) is not None:
        changed(kind)


def _shown(component: Any) -> Any:
    """What a client is shown of a component; an object equal to nothing else when that cannot be told."""
    for name in _SHOWN:
        if (show := getattr(component, name, None)) is not None:
            return show()
    return object()

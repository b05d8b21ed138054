"""The tools, prompts and resources of fixture.json on the Python SDK; README.md says what its members mean.

Results are what goes over the wire.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
Result = dict[str, Any]
Texts = dict[str, str]

DATA: Final[dict[str, dict[str, Any]]] = json.loads(Path(__file__).with_name("fixture.json").read_text())
BUS: Final = InMemorySubscriptionBus()
"""Where the tools that change a list say so."""

_CHANGES: Final = {"tools": ToolsListChanged, "prompts": PromptsListChanged}
_ASKED_BY: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""By the method of a question: the capability of a client that can be asked it."""
_STEP: Final = 0.05
"""Seconds between two messages of a tool that sends several."""


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def texts_of(arguments: dict[str, Any] | None) -> Texts:
    return {name: as_text(value) for name, value in (arguments or {}).items()}


def fill(part: Any, given: Texts) -> Any:
    """A part of the fixture, with the texts put in."""
    if isinstance(part, str):
        for name, text in given.items():
            part = part.replace(f"${{{name}}}", text)
        return part
    if isinstance(part, list):
        return [fill(item, given) for item in part]
    return {name: fill(member, given) for name, member in part.items()} if isinstance(part, dict) else part


def _can(ctx: Context, capability: str) -> bool:
    return getattr(ctx.session.client_capabilities, capability, None) is not None


# -- what is asked by InputRequiredResult


def _asked(ctx: Context, asking: Result, number: int) -> Result:
    """The questions of a round; none where there is no such round."""
    rounds = asking.get("asks", [])
    asked: Result = rounds[number] if number < len(rounds) else {}
    if asking.get("ifDeclared"):
        asked = {name: question for name, question in asked.items() if _can(ctx, _ASKED_BY[question["method"]])}
    return asked


def _answered(ctx: Context, asked: Result, given: Texts) -> bool:
    """Whether all questions were; a form counts when it was filled in. What it says is added to the texts."""
    all_were = True
    for name, question in asked.items():
        answer = ((ctx.params or {}).get("inputResponses") or {}).get(name)
        form = answer.get("content") if isinstance(answer, dict) else None
        if question["method"] == "elicitation/create":
            all_were &= isinstance(form, dict)
            given |= {f"{name}.{field}": as_text(value) for field, value in (form or {}).items()}
        else:
            all_were &= isinstance(answer, dict)
    return all_were


def ask(ctx: Context, asking: Result, given: Texts) -> Result | None:
    """What a tool or a prompt has to ask its client now; None when it has answered everything."""
    number = 0
    # What comes back is what was sent: the SDK's boundary seals it.
    state = (ctx.params or {}).get("requestState") if asking.get("sealed") else "0"
    if state is not None:
        asked = _asked(ctx, asking, int(state))
        if not asked:
            return None
        number = int(state) + _answered(ctx, asked, given)
    asked = _asked(ctx, asking, number)
    if not asked:
        return None
    result = {"resultType": "input_required", "inputRequests": asked}
    return {**result, "requestState": str(number)} if asking.get("sealed") else result


# -- tools, prompts, resources


async def _talk(ctx: Context, tool: Result, given: Texts) -> None:
    """What the tool says to its client, and asks of it while it runs; the answer is added to the texts."""
    for said in tool.get("logs", []):
        await ctx.session.send_log_message("info", said, related_request_id=ctx.request_id)
        await anyio.sleep(_STEP)
    for done in tool.get("progress", []):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(_STEP)
    if "elicits" in tool:
        asked = fill(tool["elicits"], given)
        form = await ctx.session.elicit(asked["message"], asked["requestedSchema"], related_request_id=ctx.request_id)
        given["answer"] = f"action={form.action}, content={json.dumps(form.content)}"
    if "samples" in tool:
        asked = fill(tool["samples"], given)
        messages = [types.SamplingMessage.model_validate(message) for message in asked["messages"]]
        answer = await ctx.session.create_message(
            messages, max_tokens=asked["maxTokens"], related_request_id=ctx.request_id
        )
        given["answer"] = getattr(answer.content, "text", "")


async def call(ctx: Context, tool: Result, arguments: dict[str, Any]) -> Result:
    """All that the fixture says of a tool, in its order."""
    needs = tool.get("needs")
    if needs and not _can(ctx, needs):
        raise MCPError(-32021, f"This tool needs {needs}", {"requiredCapabilities": {needs: {}}})
    given = texts_of(arguments)
    asked = ask(ctx, tool, given)
    if asked is not None:
        return asked
    await _talk(ctx, tool, given)
    if "changes" in tool:
        await BUS.publish(_CHANGES[tool["changes"]]())
    if tool.get("cuts") and ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
        await anyio.sleep(_STEP)
    takes = tool.get("takes", 0)
    await anyio.sleep(arguments.get(takes, 0) if isinstance(takes, str) else takes)
    if "error" in tool:
        raise MCPError(tool["error"]["code"], tool["error"]["message"])
    filled: Result = fill(tool["result"], given)
    return filled


def get(ctx: Context, prompt: Result, arguments: dict[str, str] | None) -> Result:
    """A prompt, or what it asks for first."""
    given = texts_of(arguments)
    filled: Result = ask(ctx, prompt, given) or fill(prompt["result"], given)
    return filled


def read(uri: str) -> Result:
    """The contents of a resource. Raises the protocol's error for one there is not."""
    if uri in DATA["resources"]:
        return {"contents": [{"uri": uri, **DATA["resources"][uri]}]}
    for template, part in DATA["templates"].items():
        before, after = template.split("{id}")
        if uri.startswith(before) and uri.endswith(after) and len(uri) > len(before) + len(after):
            return {"contents": [{"uri": uri, **fill(part, {"id": uri[len(before) : -len(after)]})}]}
    raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})

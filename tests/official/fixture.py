"""The tools, prompts and resources that the official conformance suite asks a server for, in its own words.

What each has to be stands in the suite's scenarios. A tool is a function from the request's context and the arguments to a
result as it goes over the wire.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
Result = dict[str, Any]
Tool = Callable[[Context, dict[str, Any]], Awaitable[Result]]

BUS: Final = InMemorySubscriptionBus()
"""Where the tools that change a list say so."""

_STEP: Final = 0.05
"""Seconds between two messages of a tool that sends several."""


def _png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return base64.b64encode(image).decode()


def _wav() -> str:
    """Two silent samples."""
    data = b"\0\0\0\0"
    body = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16) + b"data" + struct.pack("<I", 4) + data
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


PNG: Final = _png()

# -- results


def content(*blocks: dict[str, Any]) -> Result:
    return {"content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def resource(uri: str, mime: str, said: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": said}}


IMAGE: Final = {"type": "image", "data": PNG, "mimeType": "image/png"}


def elicitation(message: str, required: bool = True, **properties: Any) -> dict[str, Any]:
    """A request for input, as it stands in an InputRequiredResult."""
    schema = {"type": "object", "properties": properties, "required": list(properties) if required else []}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, most: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": {"type": "text", "text": prompt}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": most}}


ROOTS: Final = {"method": "roots/list", "params": {}}
STRING: Final = {"type": "string"}


def asks(state: str | None = None, **requests: Any) -> Result:
    result: Result = {"resultType": "input_required", "inputRequests": requests}
    return result if state is None else {**result, "requestState": state}


def answers(ctx: Context) -> dict[str, Any]:
    """What the client answered, by the name it was asked under; nothing that is no object."""
    given = (ctx.params or {}).get("inputResponses")
    return {key: answer for key, answer in (given or {}).items() if isinstance(answer, dict)}


def filled_in(ctx: Context, name: str, field: str) -> Any:
    """One field of an elicited form, or None while nobody filled it in."""
    form = answers(ctx).get(name, {}).get("content")
    return form.get(field) if isinstance(form, dict) else None


# -- tools of both eras

TOOLS: dict[str, tuple[dict[str, Any], Tool]] = {}
"""By name: the input schema and the function."""


def tool(**properties: Any) -> Callable[[Tool], Tool]:
    """Register a function under its own name."""

    def register(function: Tool) -> Tool:
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        TOOLS[function.__name__] = (schema, function)
        return function

    return register


@tool()
async def test_simple_text(ctx: Context, arguments: dict[str, Any]) -> Result:
    return content(text("This is a simple text response for testing."))


@tool()
async def test_image_content(ctx: Context, arguments: dict[str, Any]) -> Result:
    return content(IMAGE)


@tool()
async def test_audio_content(ctx: Context, arguments: dict[str, Any]) -> Result:
    return content({"type": "audio", "data": _wav(), "mimeType": "audio/wav"})


@tool()
async def test_embedded_resource(ctx: Context, arguments: dict[str, Any]) -> Result:
    return content(resource("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool()
async def test_multiple_content_types(ctx: Context, arguments: dict[str, Any]) -> Result:
    data = json.dumps({"test": "data", "value": 123})
    return content(
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", "application/json", data),
    )


@tool()
async def test_tool_with_logging(ctx: Context, arguments: dict[str, Any]) -> Result:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", said, related_request_id=ctx.request_id)
        await anyio.sleep(_STEP)
    return content(text("Three messages were logged."))


@tool()
async def test_logging_tool(ctx: Context, arguments: dict[str, Any]) -> Result:
    await ctx.session.send_log_message("info", "logged", related_request_id=ctx.request_id)
    return content(text("One message was logged."))


@tool()
async def test_error_handling(ctx: Context, arguments: dict[str, Any]) -> Result:
    return {**content(text("This tool intentionally returns an error for testing")), "isError": True}


@tool()
async def test_tool_with_progress(ctx: Context, arguments: dict[str, Any]) -> Result:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(_STEP)
    return content(text("All of it is done."))


@tool(prompt=STRING)
async def test_sampling(ctx: Context, arguments: dict[str, Any]) -> Result:
    prompt = types.TextContent(type="text", text=arguments["prompt"])
    answer = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=prompt)], max_tokens=100, related_request_id=ctx.request_id
    )
    said = getattr(answer.content, "text", "")
    return content(text(f"LLM response: {said}"))


async def _elicit(ctx: Context, message: str, schema: dict[str, Any]) -> str:
    answer = await ctx.session.elicit(message, schema, related_request_id=ctx.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"


@tool(message=STRING)
async def test_elicitation(ctx: Context, arguments: dict[str, Any]) -> Result:
    fields = {
        "username": {**STRING, "description": "User's response"},
        "email": {**STRING, "description": "User's email address"},
    }
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return content(text(f"User response: {await _elicit(ctx, arguments['message'], schema)}"))


@tool()
async def test_elicitation_sep1034_defaults(ctx: Context, arguments: dict[str, Any]) -> Result:
    fields = {
        "name": {**STRING, "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {**STRING, "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    schema = {"type": "object", "properties": fields, "required": []}
    return content(text(f"Elicitation completed: {await _elicit(ctx, 'Please confirm', schema)}"))


@tool()
async def test_elicitation_sep1330_enums(ctx: Context, arguments: dict[str, Any]) -> Result:
    def titled(names: list[str]) -> list[dict[str, str]]:
        return [{"const": f"value{n}", "title": name} for n, name in enumerate(names, 1)]

    options = ["option1", "option2", "option3"]
    fields = {
        "untitledSingle": {**STRING, "enum": options},
        "titledSingle": {**STRING, "oneOf": titled(["First Option", "Second Option", "Third Option"])},
        "legacyEnum": {
            **STRING,
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {**STRING, "enum": options}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": titled(["First Choice", "Second Choice", "Third Choice"])},
        },
    }
    schema = {"type": "object", "properties": fields, "required": []}
    return content(text(f"Elicitation completed: {await _elicit(ctx, 'Please choose', schema)}"))


@tool()
async def test_reconnection(ctx: Context, arguments: dict[str, Any]) -> Result:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await anyio.sleep(_STEP)
    return content(text("The client came back for this."))


# -- tools of 2026-07-28


@tool(region={**STRING, "x-mcp-header": "Region"})
async def test_custom_header(ctx: Context, arguments: dict[str, Any]) -> Result:
    return content(text(f"region={arguments['region']}"))


@tool()
async def test_missing_capability(ctx: Context, arguments: dict[str, Any]) -> Result:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(-32021, "This tool needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return content(text("sampling was declared"))


@tool()
async def test_streaming_elicitation(ctx: Context, arguments: dict[str, Any]) -> Result:
    if filled_in(ctx, "name", "name") is None:
        return asks(name=elicitation("What is your name?", name=STRING))
    return content(text("thank you"))


@tool()
async def test_trigger_tool_change(ctx: Context, arguments: dict[str, Any]) -> Result:
    await BUS.publish(ToolsListChanged())
    return content(text("the tools changed"))


@tool()
async def test_trigger_prompt_change(ctx: Context, arguments: dict[str, Any]) -> Result:
    await BUS.publish(PromptsListChanged())
    return content(text("the prompts changed"))


@tool()
async def test_input_required_result_elicitation(ctx: Context, arguments: dict[str, Any]) -> Result:
    name = filled_in(ctx, "user_name", "name")
    if not isinstance(name, str):
        return asks(user_name=elicitation("What is your name?", name=STRING))
    return content(text(f"Hello, {name}!"))


@tool()
async def test_input_required_result_sampling(ctx: Context, arguments: dict[str, Any]) -> Result:
    answer = answers(ctx).get("capital_question")
    if answer is None:
        return asks(capital_question=sampling("What is the capital of France?", 100))
    return content(text(f"The model said: {json.dumps(answer.get('content'))}"))


@tool()
async def test_input_required_result_list_roots(ctx: Context, arguments: dict[str, Any]) -> Result:
    answer = answers(ctx).get("client_roots")
    if answer is None:
        return asks(client_roots=ROOTS)
    return content(text(f"The roots are {json.dumps(answer.get('roots'))}"))


def _confirmed(ctx: Context) -> Result:
    params = ctx.params or {}
    if filled_in(ctx, "confirm", "ok") is None or params.get("requestState") != "asked":
        return asks("asked", confirm=elicitation("Please confirm", ok={"type": "boolean"}))
    return content(text("state-ok"))


@tool()
async def test_input_required_result_request_state(ctx: Context, arguments: dict[str, Any]) -> Result:
    return _confirmed(ctx)


@tool()
async def test_input_required_result_tampered_state(ctx: Context, arguments: dict[str, Any]) -> Result:
    return _confirmed(ctx)  # the SDK's boundary refuses a state that it did not seal


@tool()
async def test_input_required_result_multiple_inputs(ctx: Context, arguments: dict[str, Any]) -> Result:
    given = answers(ctx)
    if not {"user_name", "greeting", "client_roots"} <= given.keys():
        return asks(
            "asked",
            user_name=elicitation("What is your name?", name=STRING),
            greeting=sampling("Generate a greeting", 50),
            client_roots=ROOTS,
        )
    return content(text(f"Thank you, {filled_in(ctx, 'user_name', 'name')}."))


@tool()
async def test_input_required_result_multi_round(ctx: Context, arguments: dict[str, Any]) -> Result:
    state = (ctx.params or {}).get("requestState")
    if state == "round 2" and (colour := filled_in(ctx, "step2", "color")) is not None:
        return content(text(f"You like {colour}."))
    if state == "round 1" and filled_in(ctx, "step1", "name") is not None:
        return asks("round 2", step2=elicitation("Step 2: What is your favorite color?", color=STRING))
    return asks("round 1", step1=elicitation("Step 1: What is your name?", name=STRING))


@tool()
async def test_input_required_result_capabilities(ctx: Context, arguments: dict[str, Any]) -> Result:
    can = ctx.session.client_capabilities
    requests: dict[str, Any] = {}
    if can is not None and can.sampling is not None:
        requests["question"] = sampling("What is the capital of France?", 100)
    if can is not None and can.elicitation is not None:
        requests["name"] = elicitation("What is your name?", name=STRING)
    if not requests or answers(ctx):
        return content(text("nothing is asked"))
    return asks(**requests)


# -- tools that may become tasks (SEP-2663)


@tool(name=STRING)
async def greet(ctx: Context, arguments: dict[str, Any]) -> Result:
    return content(text(f"Hello, {arguments['name']}!"))


@tool(seconds={"type": "number"}, label=STRING)
async def slow_compute(ctx: Context, arguments: dict[str, Any]) -> Result:
    await anyio.sleep(arguments.get("seconds", 0))
    return content(text(f"{arguments.get('label', 'it')} was computed"))


@tool()
async def failing_job(ctx: Context, arguments: dict[str, Any]) -> Result:
    await anyio.sleep(1)
    return {**content(text("The job failed.")), "isError": True}


@tool()
async def protocol_error_job(ctx: Context, arguments: dict[str, Any]) -> Result:
    await anyio.sleep(_STEP)
    raise MCPError(types.INTERNAL_ERROR, "The job broke the protocol")


@tool(filename=STRING)
async def confirm_delete(ctx: Context, arguments: dict[str, Any]) -> Result:
    if not answers(ctx):
        return asks(confirm=elicitation("Delete it?", confirm={"type": "boolean"}))
    return content(text(f"{arguments.get('filename', 'it')} is deleted"))


@tool()
async def multi_input(ctx: Context, arguments: dict[str, Any]) -> Result:
    if len(answers(ctx)) < 2:
        return asks(
            name=elicitation("What is your name?", name=STRING), age=elicitation("How old are you?", age=STRING)
        )
    return content(text("both were answered"))


@tool()
async def test_tool_with_task(ctx: Context, arguments: dict[str, Any]) -> Result:
    name = filled_in(ctx, "user_name", "name")
    if name is None:
        return asks(user_name=elicitation("What is your name?", name=STRING))
    await anyio.sleep(1)
    return content(text(f"Worked for {name}."))


ALWAYS: Final = ("slow_compute", "protocol_error_job", "confirm_delete", "multi_input")
"""Tools whose every call becomes a task at once."""
REQUIRED: Final = ("failing_job", "test_tool_with_task")
"""Tools that a client without the extension may not call."""

for _name in ("slow_compute", "confirm_delete"):
    TOOLS[_name][0]["required"] = []


async def _nothing(ctx: Context, arguments: dict[str, Any]) -> Result:
    return content(text("the schema is the point"))


TOOLS["json_schema_2020_12_tool"] = (
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": STRING, "city": STRING},
            }
        },
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {**STRING, "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    _nothing,
)


# -- prompts


@dataclass(frozen=True)
class Prompt:
    arguments: tuple[str, ...]
    get: Callable[[Context, dict[str, str]], Result]


def _says(*blocks: dict[str, Any]) -> Result:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


def _asking_prompt(ctx: Context, arguments: dict[str, str]) -> Result:
    given = filled_in(ctx, "user_context", "context")
    if given is None:
        return asks(user_context=elicitation("What context should the prompt use?", context=STRING))
    return _says(text(f"Context: {given}"))


PROMPTS: Final = {
    "test_simple_prompt": Prompt((), lambda ctx, a: _says(text("This is a simple prompt for testing."))),
    "test_prompt_with_arguments": Prompt(
        ("arg1", "arg2"),
        lambda ctx, a: _says(text(f"Prompt with arguments: arg1='{a['arg1']}', arg2='{a['arg2']}'")),
    ),
    "test_prompt_with_embedded_resource": Prompt(
        ("resourceUri",),
        lambda ctx, a: _says(
            resource(a["resourceUri"], "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ),
    ),
    "test_prompt_with_image": Prompt((), lambda ctx, a: _says(IMAGE, text("Please analyze the image above."))),
    "test_input_required_result_prompt": Prompt((), _asking_prompt),
}


# -- resources

TEXT_URI: Final = "test://static-text"
BINARY_URI: Final = "test://static-binary"
WATCHED_URI: Final = "test://watched-resource"
TEMPLATE: Final = "test://template/{id}/data"


def read(uri: str) -> Result:
    """The contents of a resource. Raises the protocol's error for one there is not."""
    before, after = TEMPLATE.split("{id}")
    if uri in (TEXT_URI, WATCHED_URI):
        found = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
    elif uri == BINARY_URI:
        found = {"mimeType": "image/png", "blob": PNG}
    elif uri.startswith(before) and uri.endswith(after) and len(uri) > len(before) + len(after):
        id = uri[len(before) : -len(after)]
        data = {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
        found = {"mimeType": "application/json", "text": json.dumps(data)}
    else:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, **found}]}

"""What a server says about a running request, on every SDK: progress and log messages, on the request's own stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import tidings.mcp
from mcp_listen import TOOLS, Keep
from mcp_stage import ERAS, Context, plain_tool
from mcp_wire import LEGACY, Client, Served
from tidings import Hub

VERSIONS = [*ERAS, "2025-06-18"]
TOKENS: list[tuple[int, int | str]] = [(5, "abc"), (6, 6), (7, 0), (8, ""), (0, "of id 0")]


def reports(messages: list[Any]) -> list[tuple[Any, float]]:
    """The progress before an answer: each token and number."""
    *before, last = messages
    assert "result" in last
    assert {message["method"] for message in before} <= {"notifications/progress"}
    return [(message["params"]["progressToken"], message["params"]["progress"]) for message in before]


@pytest.fixture
def careless(plain: Any) -> Any:
    """A server whose tools report as they like: without naming the request, backwards, under a token of their own."""

    async def loose(ctx: Context, token: Any = "abc") -> str:
        for value in (1, 1, 2, 0.5, 3):
            await ctx.session.send_progress_notification(token, value, 3)
        return "done"

    async def worse(ctx: Context) -> str:
        raised = ""
        for value in (float("nan"), float("inf")):
            try:
                await ctx.report_progress(value, 3)
            except ValueError as error:
                raised = str(error)
        return raised

    for tool in (loose, worse):
        plain_tool(plain)(tool)
    return plain


@pytest.mark.parametrize("era", VERSIONS)
def test_progress_rises_and_ends_with_its_request(plain: Any, hub: Hub, serve: Callable[..., Served], era: str) -> None:
    """Field cases B47 and B49: on the call's own stream, under the call's own token, whatever that is."""
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, era)
    assert reports(client.call("steps", {"count": 3}, id=4).messages()) == []
    for id, token in TOKENS:
        answer = client.request("tools/call", {"name": "steps", "arguments": {"count": 3}}, id, progressToken=token)
        assert reports(answer.messages()) == [(token, 1), (token, 2), (token, 3)]


@pytest.mark.parametrize("era", ERAS)
def test_progress_needs_no_session(plain: Any, hub: Hub, serve: Callable[..., Served], era: str) -> None:
    """Field case B49: a stateless server has no stream but the call's own."""
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain, stateless_http=True).port, era)
    answer = client.request("tools/call", {"name": "steps", "arguments": {"count": 3}}, 5, progressToken=1)
    assert reports(answer.messages()) == [(1, 1), (1, 2), (1, 3)]


def test_progress_stays_off_the_sessions_own_stream(
    plain: Any, hub: Hub, serve: Callable[..., Served], keep: Keep
) -> None:
    """Field case B49, with a GET open: the first that comes on it is what belongs there."""
    tidings.mcp.attach(plain, hub)
    client = Client(serve(plain).port, LEGACY)
    standalone = keep(client.get())
    answer = client.request("tools/call", {"name": "steps", "arguments": {"count": 3}}, 5, progressToken=1)
    assert reports(answer.messages()) == [(1, 1), (1, 2), (1, 3)]
    tidings.mcp.notify(plain, "tools")
    assert standalone.take(1)[0].message["method"] == TOOLS


@pytest.mark.parametrize("stateless", [False, True])
@pytest.mark.parametrize("era", ERAS)
def test_a_report_finds_its_request_and_only_what_rises_is_sent(
    careless: Any, hub: Hub, serve: Callable[..., Served], keep: Keep, era: str, stateless: bool
) -> None:
    """Field cases B47 and B49: the tool names no request, and the client gave another token or none."""
    tidings.mcp.attach(careless, hub)
    client = Client(serve(careless, stateless_http=stateless).port, era)
    standalone = keep(client.get()) if era == LEGACY and not stateless else None
    for id, token in ((0, "abc"), ("", "abc")):
        answer = client.request("tools/call", {"name": "loose", "arguments": {}}, id, progressToken=token)
        assert reports(answer.messages()) == [("abc", 1), ("abc", 2), ("abc", 3)]
    assert reports(client.call("loose", id=7).messages()) == []
    if standalone is not None:
        tidings.mcp.notify(careless, "tools")
        assert standalone.take(1)[0].message["method"] == TOOLS


def test_progress_that_is_no_number_is_the_tools_fault(careless: Any, hub: Hub, serve: Callable[..., Served]) -> None:
    tidings.mcp.attach(careless, hub)
    client = Client(serve(careless).port, LEGACY)
    [answer] = client.request("tools/call", {"name": "worse", "arguments": {}}, 5, progressToken=1).messages()
    assert answer["result"]["content"][0]["text"] == "progress: must be a finite number, and so must its total"


def test_levels_are_each_sessions_own(plain: Any, hub: Hub, serve: Callable[..., Served]) -> None:
    """Field case B55."""
    levels = ["info", "warning", "emergency"]

    async def say(ctx: Context) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for level in levels:
                await ctx.session.send_log_message(level, "said", related_request_id=ctx.request_id)
        return "done"

    plain_tool(plain)(say)
    tidings.mcp.attach(plain, hub)
    port = serve(plain).port
    a, b, c = (Client(port, LEGACY) for _ in range(3))
    assert a.initialized["result"]["capabilities"]["logging"] == {}
    for client, level in ((a, "warning"), (b, "debug")):
        assert client.request("logging/setLevel", {"level": level}).messages()[-1]["result"] == {}
    assert a.request("logging/setLevel", {"level": "loud"}).messages()[-1]["error"]["code"] == -32602

    def said(client: Client) -> list[str]:
        *messages, last = client.call("say").messages()
        assert "result" in last
        return [message["params"]["level"] for message in messages]

    assert (said(a), said(b), said(c)) == (levels[1:], levels, levels)

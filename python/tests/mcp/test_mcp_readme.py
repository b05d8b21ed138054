"""The server that the READMEs print is served as it stands and does what they say of it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from mcp_wire import LEGACY, Client, Served

ROOT = Path(__file__).resolve().parents[3]
READMES = ("README.md", "python/README.md")
BLOCK = re.compile(
    r"^<!-- runnable server -->[ \t]*\n(?:[ \t]*\n)*```python[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL
)

ROUTE = {"id": "primary", "type": "webhook", "endpoint": "https://example.com/notifications", "triggers": ["timeout"]}


def blocks() -> list[tuple[str, str]]:
    return [(name, code) for name in READMES for code in BLOCK.findall((ROOT / name).read_text())]


def test_the_readme_has_a_server() -> None:
    assert [name for name, _ in blocks()].count("README.md") == 1


@pytest.mark.parametrize("code", [code for _, code in blocks()], ids=[name for name, _ in blocks()])
def test_server_resumes_and_acknowledges(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "server.py"
    script.write_text(code)
    # As `python server.py` would, up to the line that serves.
    made = runpy.run_path(str(script), run_name="server")
    served = Served(made["server"].streamable_http_app())
    try:
        client = Client(served.port, LEGACY)
        answer = client.call("report", {"quarter": "Q4"}, progress=True, notificationConfig={"routes": [ROUTE]})
        primed = answer.priming()
        answer.cut()
        resumed = [event.message for event in client.get(primed.id).rest()]
        methods = [message.get("method", "result") for message in resumed]
        assert methods == ["notifications/config/acknowledged", *["notifications/progress"] * 3, "result"]
        result = resumed[-1]["result"]
        assert result["content"][0]["text"] == "The report of Q4 is ready."
        assert result["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"] == ["primary"]
    finally:
        served.stop()
    assert (tmp_path / "tidings.db").exists()

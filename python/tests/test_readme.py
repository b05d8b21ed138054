"""The examples that the READMEs print work: each Python block behind `<!-- runnable -->` runs in a folder of its own."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "python/README.md")
MARKER = "<!-- runnable -->"
# The marker stands alone on its line; only blank lines may stand between it and the block's fence.
BLOCK = re.compile(
    r"^<!-- runnable -->[ \t]*\n(?:[ \t]*\n)*```python[ \t]*\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Example:
    """A block of code and where it stands."""

    name: str
    code: str


def examples(name: str, text: str) -> list[Example]:
    """The runnable blocks of a document, named by file and line."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        # Blank lines in front give a traceback the document's own line numbers.
        found.append(Example(f"{name}:{line}", "\n" * (line - 1) + match["code"]))
    return found


def all_examples() -> list[Example]:
    return [example for name in READMES for example in examples(name, (ROOT / name).read_text())]


def test_each_marker_has_a_block() -> None:
    for name in READMES:
        text = (ROOT / name).read_text()
        assert text.count(MARKER) == len(examples(name, text)), f"{name}: a {MARKER} without a ```python block after it"


def test_the_readme_has_an_example() -> None:
    assert examples("README.md", (ROOT / "README.md").read_text())


@pytest.mark.parametrize("example", all_examples(), ids=lambda example: example.name)
def test_example_runs(example: Example, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example.code)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{example.name}\n{done.stdout}{done.stderr}"


def test_a_marker_without_a_block_is_seen() -> None:
    text = f"{MARKER}\n```sh\nls\n```\n\n{MARKER}\n\n```python\nprint(1)\n```\n\n```python\nraise SystemExit(1)\n```\n"
    assert [(example.name, example.code.strip()) for example in examples("x", text)] == [("x:9", "print(1)")]
    assert text.count(MARKER) == 2

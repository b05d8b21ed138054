#!/usr/bin/env python3
"""Lists what the packages offer to people, and compares it with what is kept in api/, so that a change shows in review.

  tools/api.py            fails where the two differ, with the difference
  tools/api.py --write    keeps what there is now

Rust is read from rustdoc's pages (`make check-docs` makes them): every item of each crate with its signature, its methods and
the traits it implements. Python is asked for the signatures of what its public modules name in `__all__`. For Node.js the
declarations that the compiler writes are taken without their comments. A listing of Rust says which rustc it was made with, as
its pages differ; with another one it is not compared, and a line says so.
"""

from __future__ import annotations

import argparse
import difflib
import html
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LISTINGS = ROOT / "api"
DOCS = ROOT / "target" / "doc"
CRATES = ("tidings", "tidings_proto", "tidings_store", "tidings_store_sqlite")
MODULES = ("tidings", "tidings.mcp", "tidings.client", "tidings.webhook")
DECLARATIONS = ROOT / "node" / "dist"

TAG = re.compile(r"<[^>]+>")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def plain(markup: str) -> str:
    """The text of a piece of a page, on one line."""
    return re.sub(r"\s+", " ", html.unescape(TAG.sub("", markup))).strip()


def rust_page(path: str, page: str) -> Iterator[str]:
    """The item of one page, its methods, and the traits it implements."""
    declared = re.search(r'<pre class="rust item-decl"><code>(.*?)</code></pre>', page, re.DOTALL)
    if declared:
        yield f"{path}: {plain(declared[1])}"
    # What every type has by itself or by a blanket implementation says nothing.
    page = page.split('<h2 id="synthetic-implementations"')[0].split('<h2 id="blanket-implementations"')[0]
    own, _, traits = page.partition('<h2 id="trait-implementations"')
    _, _, own = own.partition('<h2 id="implementations"')
    for kind, section in (("", own), ("impl", traits)):
        for markup in re.findall(r'<h[34] class="code-header">(.*?)</h[34]>', section, re.DOTALL):
            text = plain(markup)
            if text.startswith("impl") == (kind == "impl"):
                yield f"{path}: {text}"


def rust(crate: str) -> list[str]:
    folder = DOCS / crate
    every = (folder / "all.html").read_text()
    lines: set[str] = set()
    for place in sorted(set(re.findall(r'href="([a-z_0-9/A-Z.]+\.html)"', every))):
        if (folder / place).is_file() and not place.endswith("index.html"):
            parts = place.removesuffix(".html").split("/")
            parts[-1] = parts[-1].split(".", 1)[1] if "." in parts[-1] else parts[-1]
            lines.update(rust_page("::".join((crate, *parts)), (folder / place).read_text()))
    for again in re.findall(r"<code>(pub use .*?)</code>", (folder / "index.html").read_text(), re.DOTALL):
        lines.add(f"{crate}: {plain(again)}")
    return sorted(lines)


def python_member(path: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"{path}: class({bases})"
        for name, member in sorted(vars(value).items()):
            if name.startswith("_") and name != "__init__":
                continue
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            if inspect.isroutine(member):
                yield f"{path}.{name}{signature(member)}"
            else:
                yield f"{path}.{name}"
    elif callable(value):
        yield f"{path}{signature(value)}"
    else:
        yield f"{path}: {type(value).__name__}"


def signature(function: Any) -> str:
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(…)"
    return re.sub(r" at 0x[0-9a-f]+", "", text) + (" async" if inspect.iscoroutinefunction(function) else "")


def python() -> list[str]:
    lines: list[str] = []
    for name in MODULES:
        module = importlib.import_module(name)
        for public in sorted(module.__all__):
            lines.extend(python_member(f"{name}.{public}", getattr(module, public)))
    return lines


def node() -> list[str]:
    lines: list[str] = []
    for place in sorted(DECLARATIONS.rglob("*.d.ts")):
        name = place.relative_to(DECLARATIONS).as_posix()
        if name == "native.d.ts":
            continue
        text = COMMENT.sub("", place.read_text())
        lines.extend(f"{name}: {line.rstrip()}" for line in text.splitlines() if line.strip())
    return lines


def rustc() -> str:
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true")
    write = arguments.parse_args().write

    version = rustc()
    listings: dict[str, list[str]] = {}
    for crate in CRATES:
        listings[f"{crate}.txt"] = [f"# rustc {version}", *rust(crate)]
    listings["python.txt"] = python()
    listings["node.txt"] = node()

    differ = 0
    LISTINGS.mkdir(exist_ok=True)
    for name, lines in listings.items():
        place = LISTINGS / name
        kept = place.read_text().splitlines() if place.is_file() else []
        if write:
            place.write_text("\n".join(lines) + "\n")
        elif kept and kept[0].startswith("# rustc ") and kept[0] != lines[0]:
            print(f"api: {name} is of {kept[0][2:]} and not compared with {lines[0][2:]}")
        elif kept != lines:
            differ += 1
            print(*difflib.unified_diff(kept, lines, f"api/{name}", "what there is", lineterm="", n=0), sep="\n")
    if differ:
        print(f"\napi: {differ} listings differ; if that is meant, run tools/api.py --write and commit api/")
        return 1
    print(f"api: {sum(map(len, listings.values()))} lines in {len(listings)} listings")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""tools/purity.py, tools/unused.py and tools/api.py find what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.loading import load

purity = load("purity.py")
unused = load("unused.py")
api = load("api.py")


@pytest.mark.parametrize(
    "line",
    [
        "let now = std::time::Instant::now();",
        "use std::fs;",
        "use std::net::TcpStream;",
        "std::thread::sleep(pause);",
        'std::env::var("HOME")',
        "getrandom::fill(&mut bytes)",
        '#[allow(clippy::disallowed_methods, reason = "just once")]',
    ],
)
def test_an_effect_in_a_source_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "clean.rs").write_text(
        "use std::net::IpAddr;\n// std::fs is not for us\n#[cfg(test)]\nmod tests {\nuse std::fs;\n}\n"
    )
    assert purity.source_faults(tmp_path) == []
    (tmp_path / "rule.rs").write_text(f"fn rule() {{\n    {line}\n}}\n")
    assert [fault.split(":")[:2] for fault in purity.source_faults(tmp_path)] == [["rule.rs", "2"]]


def test_a_lint_that_is_not_denied_is_found() -> None:
    both = '#![deny(clippy::disallowed_methods, reason = "x")]\n#![deny(clippy::disallowed_types)]\n'
    assert purity.lint_faults(both) == []
    assert len(purity.lint_faults(both.replace("#![deny(clippy::disallowed_types)]", ""))) == 1


def test_core_proto_depends_on_nothing_impure() -> None:
    found = purity.dependencies()
    assert "serde_json" in found
    assert not found & {"tokio", "rustix", "getrandom", "mio", "socket2", "proptest"}


def test_a_dependency_that_nothing_names_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused, "ROOT", tmp_path)
    crate = tmp_path / "crate"
    (crate / "src").mkdir(parents=True)
    (crate / "src" / "lib.rs").write_text("use serde_json::Value;\nfn now() { rustix::time::now() }\n")
    manifest = (
        '[dependencies]\nserde_json = "1"\nbytes = "1"\n\n[target."cfg(unix)".dependencies]\nrustix = "1"\nlibc = "1"\n'
    )
    (crate / "Cargo.toml").write_text(manifest)
    assert unused.unused_in(crate) == ["crate: dependencies: bytes", "crate: dependencies: libc"]
    (crate / "Cargo.toml").write_text(f'{manifest}\n[package.metadata.unused]\nbytes = "why"\nlibc = "why"\n')
    assert unused.unused_in(crate) == []


PAGE = """
<pre class="rust item-decl"><code>pub struct Place&lt;'a&gt; { <span>/* private fields */</span> }</code></pre>
<h2 id="implementations" class="section-header">Implementations</h2>
<h3 class="code-header">impl&lt;'a&gt; Place&lt;'a&gt;</h3>
<h4 class="code-header">pub fn <a>go</a>(&amp;self)
    -&gt; u64</h4>
<h2 id="trait-implementations" class="section-header">Trait Implementations</h2>
<h3 class="code-header">impl Clone for Place</h3><h4 class="code-header">fn clone(&amp;self) -&gt; Self</h4>
<h2 id="synthetic-implementations" class="section-header">Auto</h2><h3 class="code-header">impl Send for Place</h3>
"""


def test_a_page_of_rustdoc_is_its_item_its_methods_and_its_traits() -> None:
    assert list(api.rust_page("c::Place", PAGE)) == [
        "c::Place: pub struct Place<'a> { /* private fields */ }",
        "c::Place: pub fn go(&self) -> u64",
        "c::Place: impl Clone for Place",
    ]


def test_a_member_of_python_has_its_signature() -> None:
    class Sample:
        def __init__(self, a: int) -> None: ...

        async def go(self, *, b: str = "x") -> bool:
            return True

        def _private(self) -> None: ...

    assert list(api.python_member("m.Sample", Sample)) == [
        "m.Sample: class()",
        "m.Sample.__init__(self, a: 'int') -> 'None'",
        "m.Sample.go(self, *, b: 'str' = 'x') -> 'bool' async",
    ]

"""tools/licences.py: the rule it applies where cargo-deny is not installed."""

from pathlib import Path

import pytest
from tools.loading import load

licences = load("licences.py")
ALLOWED = {"MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"}


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only AND MIT OR Apache-2.0", True),  # AND binds tighter
        ("GPL-3.0-only AND (MIT OR Apache-2.0)", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("Unlicense/MIT", True),
        ("Unlicense / Zlib", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT WITH LLVM-exception", False),
        ("Apache-2.0+", False),
    ],
)
def test_expression(expression: str, allowed: bool) -> None:
    assert licences.Expression(expression, ALLOWED).is_allowed() is allowed


@pytest.mark.parametrize("text", [None, "", "  ", "MIT OR", "(MIT", "MIT Apache-2.0", "MIT)", "OR MIT", "MIT WITH"])
def test_what_is_no_expression_is_a_fault(text: str | None) -> None:
    assert licences.licence_fault(text, ALLOWED) is not None


def package(name: str, licence: str | None, source: str | None, root: Path, **more: object) -> dict[str, object]:
    manifest = str(root / name / "Cargo.toml")
    known = {"id": name, "name": name, "version": "1.0.0", "license": licence, "source": source}
    return {**known, "manifest_path": manifest, "dependencies": [], **more}


def test_crates_are_judged_by_how_they_come(tmp_path: Path) -> None:
    """Dev dependencies may have any licence, build dependencies may not; the source counts for all."""
    good = "registry+somewhere/crates.io-index"
    metadata = {
        "workspace_root": str(tmp_path),
        "workspace_members": ["ours"],
        "packages": [
            package("ours", "MIT", None, tmp_path, dependencies=[{"name": "normal", "req": "*"}]),
            package("normal", "MIT", good, tmp_path),
            package("built", "GPL-3.0-only", good, tmp_path),
            package("below", None, good, tmp_path),
            package("tested", "GPL-3.0-only", "git+somewhere", tmp_path),
            package("beside", "MIT", None, tmp_path.parent),
        ],
        "resolve": {
            "nodes": [
                {
                    "id": "ours",
                    "deps": [
                        {"pkg": "normal", "dep_kinds": [{"kind": None}]},
                        {"pkg": "built", "dep_kinds": [{"kind": "build"}]},
                        {"pkg": "tested", "dep_kinds": [{"kind": "dev"}]},
                        {"pkg": "beside", "dep_kinds": [{"kind": "dev"}]},
                    ],
                },
                {"id": "normal", "deps": []},
                {"id": "built", "deps": [{"pkg": "below", "dep_kinds": [{"kind": None}]}]},
                {"id": "below", "deps": []},
                {"id": "tested", "deps": []},
                {"id": "beside", "deps": []},
            ]
        },
    }
    policy = {"licenses": {"allow": sorted(ALLOWED), "exceptions": []}}
    assert list(licences.crate_faults(metadata, policy)) == [
        "ours 1.0.0: asks for any version of normal",
        "built 1.0.0: licence 'GPL-3.0-only' is not in deny.toml's list",
        "below 1.0.0: states no licence",
        "tested 1.0.0: comes from git+somewhere, and not from crates.io",
        "beside 1.0.0: comes from a path outside the workspace",
    ]
    policy["licenses"]["exceptions"] = [{"crate": "built", "allow": ["GPL-3.0-only"]}]
    assert not any(fault.startswith("built") for fault in licences.crate_faults(metadata, policy))

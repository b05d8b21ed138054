#!/usr/bin/env python3
"""Proves that core/proto is pure: no IO, clock, threads, randomness or environment of its own.

Three ways it could stop being so, each looked at: a dependency that does such things (the whole tree has to be on the list
below), a path of the standard library in its sources, and a lint that was switched off (clippy.toml's `disallowed-methods`).
A build without an operating system, wasm32-unknown-unknown, would prove it too, and is tried where that target is installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "core" / "proto"

# What may come along in a build of it, and why it is pure. Build tools of procedural macros never run in a user's process.
ALLOWED = {
    "base64": "text forms of bytes",
    "bytes": "shared slices",
    "serde": "shapes",
    "serde_core": "shapes",
    "serde_json": "JSON",
    "url": "the WHATWG parser",
    "hmac": "signatures",
    "sha2": "signatures",
    "subtle": "comparison in constant time",
    "itoa": "numbers as text",
    "ryu": "numbers as text",
    "zmij": "numbers as text",
    "memchr": "search in bytes",
    "percent-encoding": "of url",
    "form_urlencoded": "of url",
    "idna": "of url",
    "idna_adapter": "of url",
    "smallvec": "of url",
    "stable_deref_trait": "of url",
    "utf8_iter": "of url",
    "utf_types": "of url",
    "utf16_iter": "of url",
    "write16": "of url",
    "writeable": "of url",
    "litemap": "of url",
    "tinystr": "of url",
    "yoke": "of url",
    "zerofrom": "of url",
    "zerotrie": "of url",
    "zerovec": "of url",
    "potential_utf": "of url",
    "icu_collections": "of url",
    "icu_locale_core": "of url",
    "icu_normalizer": "of url",
    "icu_normalizer_data": "of url",
    "icu_properties": "of url",
    "icu_properties_data": "of url",
    "icu_provider": "of url",
    "digest": "of hmac and sha2",
    "block-buffer": "of hmac and sha2",
    "crypto-common": "of hmac and sha2",
    "hybrid-array": "of hmac and sha2",
    "typenum": "of hmac and sha2",
    "ctutils": "of hmac and sha2",
    "cmov": "of hmac and sha2",
    "const-oid": "of sha2",
    "cfg-if": "of sha2",
    "cpufeatures": "of sha2: asks the processor which instructions it has",
    "libc": "of cpufeatures, on some processors",
    "hkdf": "the keys of encrypted bodies",
    "aes-gcm": "encrypted bodies",
    "p256": "encrypted bodies",
    "x25519-dalek": "encrypted bodies",
    "curve25519-dalek": "of x25519-dalek",
    "fiat-crypto": "of curve25519-dalek",
    "elliptic-curve": "of p256",
    "primefield": "of p256",
    "primeorder": "of p256",
    "wnaf": "of p256",
    "crypto-bigint": "of p256",
    "num-traits": "of crypto-bigint",
    "ff": "of p256",
    "group": "of p256",
    "sec1": "of p256",
    "der": "of sec1",
    "base16ct": "of sec1",
    "rand_core": "of the curves: traits only, its source of randomness is a feature that is off",
    "zeroize": "of the ciphers and curves",
    "aead": "of aes-gcm",
    "aes": "of aes-gcm",
    "cipher": "of aes-gcm",
    "ctr": "of aes-gcm",
    "ghash": "of aes-gcm",
    "polyval": "of aes-gcm",
    "universal-hash": "of aes-gcm",
    "inout": "of aes-gcm",
    "cpubits": "of aes",
}

# In sources. `core::net` types are fine: an address is a value.
FORBIDDEN = re.compile(
    r"\b(?:std::(?:fs|io::(?:stdin|stdout|stderr)|env|process|thread|os|net::(?:Tcp\w+|Udp\w+|ToSocketAddrs))"
    r"|std::time::(?:Instant|SystemTime)|std::collections::hash_map::RandomState|tokio|getrandom|rand)\b"
)
ALLOW_LINT = re.compile(r"allow\([^)]*clippy::disallowed_(?:methods|types)")


def dependencies() -> set[str]:
    """Every crate that a build of it links, on any platform, without those of its build and its tests."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    names = {package["id"]: package for package in metadata["packages"]}
    macros = {
        key for key, package in names.items() if any("proc-macro" in target["kind"] for target in package["targets"])
    }
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    (start,) = (key for key, package in names.items() if package["name"] == "tidings-proto")
    seen, todo = {start}, [start]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in seen | macros:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return {names[key]["name"] for key in seen} - {"tidings-proto"}


def code(text: str) -> str:
    """Without comments, and without the tests, which may do as they like."""
    text = re.sub(r"//[^\n]*", "", text)
    return text.split("#[cfg(test)]\nmod tests {")[0]


def source_faults(folder: Path) -> list[str]:
    faults = []
    for place in sorted(folder.rglob("*.rs")):
        if place.name == "tests.rs" or "tests" in place.relative_to(folder).parts[:-1]:
            continue
        for number, line in enumerate(code(place.read_text()).splitlines(), 1):
            if found := FORBIDDEN.search(line) or ALLOW_LINT.search(line):
                faults.append(f"{place.relative_to(folder)}:{number}: {found[0]}")
    return faults


def lint_faults(lib: str) -> list[str]:
    wanted = ["clippy::disallowed_methods", "clippy::disallowed_types"]
    return [f"src/lib.rs does not deny {lint}" for lint in wanted if not re.search(rf"#!\[deny\([^\]]*{lint}", lib)]


def wasm_faults() -> list[str]:
    target = "wasm32-unknown-unknown"
    root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    if not (Path(root) / "lib" / "rustlib" / target / "lib").is_dir():
        print(f"purity: not built for {target}; `rustup target add {target}` has it built as well")
        return []
    command = ["cargo", "check", "--locked", "--quiet", "--package", "tidings-proto", "--target", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"it does not build for {target}:\n{done.stderr}"]


def main() -> int:
    found = dependencies()
    faults = [f"it depends on {name}, which is not known to be pure" for name in sorted(found - set(ALLOWED))]
    faults += source_faults(PROTO / "src")
    faults += lint_faults((PROTO / "src" / "lib.rs").read_text())
    faults += wasm_faults()
    for fault in faults:
        print(f"purity: core/proto: {fault}")
    if not faults:
        print(f"purity: core/proto and the {len(found)} crates it stands on have no effects")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

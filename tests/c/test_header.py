"""What `include/tidings.h` says is what the library has, in C and in C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from c.declared import HEADER, WARNINGS, functions, handles, need, structures

# The sizes and places of what the library fills, on machines of 64 bits: an ABI that programs were built for. The build of
# bindings/c asserts the same (src/layout.rs).
LAYOUTS = {
    "tidings_bytes": (16, {"data": 0, "len": 8}),
    "tidings_pair": (32, {"name": 0, "name_len": 8, "value": 16, "value_len": 24}),
    "tidings_event": (64, {"seq": 0, "time_ms": 8, "kind": 16, "payload": 32, "identity": 48}),
    "tidings_gap": (32, {"reason": 0, "has_earliest": 4, "has_head": 8, "earliest_seq": 16, "head_seq": 24}),
    "tidings_outcome": (12, {"outcome": 0, "ours": 4, "committed": 8}),
    "tidings_delivery": (
        136,
        {
            "id": 0,
            "event_id": 16,
            "call_id": 32,
            "principal": 48,
            "trigger": 64,
            "route": 80,
            "state": 96,
            "last_error": 112,
            "attempts": 128,
        },
    ),
    "tidings_fanout": (24, {"told": 0, "skipped": 8, "failed": 16}),
    "tidings_notice": (48, {"peer": 0, "listener": 8, "method": 16, "params": 32}),
    "tidings_failed_peer": (16, {"peer": 0, "outbox": 8}),
    "tidings_host_delivery_facts": (
        168,
        {
            "id": 0,
            "event_id": 16,
            "call_id": 32,
            "principal": 48,
            "trigger": 64,
            "route": 80,
            "route_type": 96,
            "endpoint": 112,
            "body": 128,
            "attempt": 144,
            "signal": 152,
        },
    ),
    "tidings_task_facts": (64, {"status": 0, "json": 16, "scope": 32, "name": 48}),
    "tidings_endpoint": (
        120,
        {
            "key": 0,
            "principal": 16,
            "host": 32,
            "state": 48,
            "proof": 64,
            "disabled": 80,
            "last_error": 96,
            "failures": 112,
            "tripped": 116,
        },
    ),
    "tidings_stats": (
        96,
        {
            "groups": 0,
            "events": 8,
            "lost": 16,
            "refused": 24,
            "failures": 32,
            "attempts": 40,
            "delivered": 48,
            "dead": 56,
            "expired": 64,
            "superseded": 72,
            "in_flight": 80,
            "failing": 88,
        },
    ),
}


def layouts(assertion: str) -> str:
    lines = []
    for name, (size, fields) in LAYOUTS.items():
        lines.append(f'{assertion}(sizeof({name}) == {size}, "{name}");')
        lines += [f'{assertion}(offsetof({name}, {field}) == {at}, "{name}.{field}");' for field, at in fields.items()]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("language", "standard", "assertion"),
    [
        ("c", "c99", "ASSERT"),
        ("c", "c11", "_Static_assert"),
        ("c", "c17", "_Static_assert"),
        ("c++", "c++17", "static_assert"),
    ],
)
def test_it_compiles_twice_in_one_unit_and_has_the_layouts_that_programs_were_built_for(
    language: str, standard: str, assertion: str, compiler: str, tmp_path: Path
) -> None:
    if language == "c++":
        need("c++", "g++")
    source = tmp_path / ("unit.c" if language == "c" else "unit.cpp")
    source.write_text(
        # C99 has no assertion of its own: an array of -1 elements.
        "#define ASSERT(holds, what) extern char asserted[(holds) ? 1 : -1]\n"
        f"#include <tidings.h>\n#include <tidings.h>\n{layouts(assertion)}\nint main(void) {{ return 0; }}\n"
    )
    flags = [flag for flag in WARNINGS if language == "c" or flag != "-Wstrict-prototypes"]
    command = [compiler if language == "c" else "c++", f"-std={standard}", *flags, "-I", str(HEADER.parent)]
    done = subprocess.run(
        [*command, "-c", str(source), "-o", str(tmp_path / "unit.o")], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_library_exports_what_the_header_declares_and_nothing_else(library: Path) -> None:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True)
    exported = {line.split()[2] for line in listed.stdout.splitlines()}
    exported.discard("tidings_testing_panic")  # of the feature that these tests are built with
    assert exported == {function.name for function in functions()}


def test_every_structure_s_layout_is_known() -> None:
    assert set(LAYOUTS) == structures()


def test_every_handle_can_be_made_and_has_its_free() -> None:
    made = {kind.split()[0] for function in functions() for kind, _ in function.parameters if kind.endswith("**")}
    made.discard("const")  # tidings_result_name and tidings_text_get give a `const char *`
    assert made == handles()
    assert {f"{handle}_free" for handle in made} <= {function.name for function in functions()}


def test_the_soname_holds_the_major_version(library: Path) -> None:
    shown = subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True, text=True)
    assert "[libtidings.so.0]" in shown.stdout

"""Every export of the header with objects that live: numbers that are no enumeration's (B82), a hub that was closed, and handles
that were freed twice (B80). An error comes back, the process lives, and nothing waits for ever."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from c.declared import Function, functions
from c.objects import OK, Objects, arguments, load

INVALID_ARGUMENT, INTERNAL = 1, 14
EXPORTS = [function for function in functions() if function.result == "tidings_result"]
ENUMERATED = [
    (function, index)
    for function in EXPORTS
    for index, (kind, name) in enumerate(function.parameters)
    if kind == "int32_t" or name == "flags"
]
NAMES = [f"{function.name}-{function.parameters[index][1]}" for function, index in ENUMERATED]
LOG = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int32, *[ctypes.c_void_p, ctypes.c_size_t] * 2])
WAKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# Kept as long as the library may call them.
CALLED = {"tidings_log": LOG(lambda *_: None), "tidings_wake": WAKE(lambda _: None)}


@pytest.fixture(scope="module")
def lib(library: Path) -> ctypes.CDLL:
    return load(str(library))


def made(lib: ctypes.CDLL) -> Objects:
    return Objects(lib, b"memory:", {name: ctypes.cast(one, ctypes.c_void_p) for name, one in CALLED.items()})


def freed(objects: Objects) -> list[int]:
    """What each handle's free answers."""
    return [getattr(objects.lib, f"tidings_{name}_free")(handle) for name, handle in objects.made.items()]


@pytest.fixture(scope="module")
def objects(lib: ctypes.CDLL) -> Iterator[Objects]:
    objects = made(lib)
    yield objects
    assert set(freed(objects)) == {OK}
    assert set(freed(objects)) == {INVALID_ARGUMENT}, "freed twice"


def message(lib: ctypes.CDLL) -> str:
    text, data, length = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_size_t()
    assert lib.tidings_last_error(ctypes.byref(text)) == OK
    assert lib.tidings_text_get(text, ctypes.byref(data), ctypes.byref(length)) == OK
    said = ctypes.string_at(data, length.value).decode()
    assert lib.tidings_text_free(text) == OK
    return said


@pytest.mark.parametrize(("function", "index"), ENUMERATED, ids=NAMES)
def test_numbers_that_are_no_enumeration_s(objects: Objects, function: Function, index: int) -> None:
    kind, name = function.parameters[index]
    for number in (999, 2**31 - 1, *([-1] if kind == "int32_t" else [2**31])):
        # At a port: what is accepted all the same does not hold up the test.
        values = arguments(function, objects, objects.made["port"])
        values[index] = number
        assert getattr(objects.lib, function.name)(*values) == INVALID_ARGUMENT, number
        assert message(objects.lib).startswith(f"{name}: "), number


def test_every_export_after_its_hub_was_closed(lib: ctypes.CDLL) -> None:
    objects = made(lib)
    hub, answer, in_time = objects.made["hub"], ctypes.c_void_p(), ctypes.c_int32()
    # Or the hub waits for it.
    assert lib.tidings_host_delivery_confirm(objects.made["host_delivery"], ctypes.byref(in_time)) == OK
    for _ in range(2):
        assert lib.tidings_hub_close(hub, 30_000, None, None, ctypes.byref(answer)) == OK, "closed twice"
        assert lib.tidings_answer_free(answer) == OK
    # Without a port: whoever waits is told the end.
    answers = {
        function.name: getattr(lib, function.name)(*arguments(function, objects, None))
        for function in EXPORTS
        if not function.name.endswith(("_free", "_close", "_close_all"))
    }
    assert INTERNAL not in answers.values(), answers
    closed = {name for name, result in answers.items() if result == 5}
    assert closed >= {
        "tidings_hub_open",
        "tidings_hub_stream",
        "tidings_hub_new_writer",
        "tidings_hub_outbox",
        "tidings_stream_append",
        "tidings_stream_read",
        "tidings_writer_append",
        "tidings_outbox_ready",
    }, answers
    for function in EXPORTS:
        if function.name.endswith("_close") and function.name != "tidings_hub_close":
            assert getattr(lib, function.name)(*arguments(function, objects, None)) != INTERNAL, function.name
    assert set(freed(objects)) == {OK}
    assert set(freed(objects)) == {INVALID_ARGUMENT}, "freed twice"

"""Every export of the header, called as no program should: an error code comes back, the process lives, and later calls
work (B80, B82)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from c.declared import Function, ctype, functions, handle_of

OK, INVALID_ARGUMENT, INTERNAL = 0, 1, 14
EXPORTS = [function for function in functions() if function.result == "tidings_result"]

ROOM = ctypes.create_string_buffer(4096)


def is_out(kind: str) -> bool:
    return "*" in kind and not kind.startswith("const ") and handle_of(kind) is None


@pytest.fixture(scope="module")
def lib(library: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(library))


@pytest.fixture(autouse=True)
def later_calls_work(lib: ctypes.CDLL) -> Iterator[None]:
    yield
    hub = ctypes.c_void_p()
    assert lib.tidings_hub_new(b"memory:", ctypes.c_size_t(7), None, ctypes.byref(hub)) == OK
    assert lib.tidings_hub_free(hub) == OK
    assert lib.tidings_hub_free(hub) == INVALID_ARGUMENT, "freed twice"


def call(lib: ctypes.CDLL, function: Function, values: list[object]) -> int:
    exported = getattr(lib, function.name)
    exported.argtypes = [ctype(kind) for kind, _ in function.parameters]
    exported.restype = ctypes.c_int32
    return int(exported(*values))


def nothing(function: Function) -> list[object]:
    return [None if ctype(kind) is ctypes.c_void_p else 0 for kind, _ in function.parameters]


def somewhere(function: Function) -> list[object]:
    """Room for what is answered, and nothing else."""
    values = nothing(function)
    for index, (kind, name) in enumerate(function.parameters):
        if is_out(kind):
            values[index] = ctypes.addressof(ROOM)
        elif name == "size":
            values[index] = 8
    return values


def message(lib: ctypes.CDLL) -> str:
    text, data, length = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_size_t()
    assert lib.tidings_last_error(ctypes.byref(text)) == OK
    assert lib.tidings_text_get(text, ctypes.byref(data), ctypes.byref(length)) == OK
    said = ctypes.string_at(data, length.value).decode()
    assert lib.tidings_text_free(text) == OK
    return said


def test_the_walk_sees_them_all() -> None:
    assert len(EXPORTS) > 80


@pytest.mark.parametrize("function", EXPORTS, ids=lambda function: function.name)
def test_null_everywhere(lib: ctypes.CDLL, function: Function) -> None:
    result = call(lib, function, nothing(function))
    if function.name.endswith("_free"):
        assert result == OK, "free(NULL) is fine"
        return
    assert result == INVALID_ARGUMENT
    names = {name for _, name in function.parameters}
    assert message(lib).split(":")[0] in names | {"begin"}, "the message names the argument"


@pytest.mark.parametrize("function", EXPORTS, ids=lambda function: function.name)
def test_a_panic_inside_does_not_cross(lib: ctypes.CDLL, function: Function) -> None:
    lib.tidings_testing_panic()
    assert call(lib, function, somewhere(function)) == INTERNAL
    said = message(lib)
    assert "a defect of tidings" in said
    assert "at bindings/c/src/entry.rs:" in said, "where it was, and never the panic's own text"
    assert "forced" not in said


WITH_HANDLES = [function for function in EXPORTS if any(handle_of(kind) for kind, _ in function.parameters)]


@pytest.mark.parametrize("function", WITH_HANDLES, ids=lambda function: function.name)
def test_handles_that_are_none(lib: ctypes.CDLL, function: Function) -> None:
    foreign, freed = ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.tidings_options_new(ctypes.byref(freed)) == OK
    assert lib.tidings_options_free(freed) == OK
    kind = "tidings_begin_new" if "options" in function.name else "tidings_options_new"
    assert getattr(lib, kind)(ctypes.byref(foreign)) == OK
    for handle in (1, 0xDEAD_BEEF, (1 << 64) - 1, freed.value, foreign.value):
        values = somewhere(function)
        for index, (kind, _) in enumerate(function.parameters):
            if handle_of(kind):
                values[index] = handle
        assert call(lib, function, values) == INVALID_ARGUMENT, hex(handle or 0)


def is_length(name: str) -> bool:
    return name.endswith(("_len", "_count")) or name == "count"


def lengths(function: Function) -> list[int]:
    """Where the lengths and counts of what is given stand; the pointer that each belongs to stands before it."""
    given = [is_length(name) and "*" not in kind for kind, name in function.parameters]
    return [index for index, length in enumerate(given) if length]


WITH_LENGTHS = [function for function in EXPORTS if lengths(function)]


@pytest.mark.parametrize("function", WITH_LENGTHS, ids=lambda function: function.name)
@pytest.mark.parametrize("length", [1 << 31, (1 << 63) - 1, (1 << 64) - 1])
def test_lengths_that_cannot_be(lib: ctypes.CDLL, function: Function, length: int) -> None:
    # The pointers are good for one byte: a call that looked at more would read what is not there.
    byte = ctypes.c_uint64()
    for index in lengths(function):
        values = somewhere(function)
        values[index] = length
        values[index - 1] = ctypes.addressof(byte)
        assert call(lib, function, values) == INVALID_ARGUMENT
        name = function.parameters[index - 1][1]
        assert message(lib).startswith(f"{name}: must be shorter"), name


WITH_TEXTS = [function for function in EXPORTS if any(kind == "const char *" for kind, _ in function.parameters)]
# Which of them is a text, and which any bytes, the field decides; and a request's id is JSON.
JUDGED_LATER = {"value", "request_id"}


@pytest.mark.parametrize("function", WITH_TEXTS, ids=lambda function: function.name)
def test_no_text_that_is_not_utf_8(lib: ctypes.CDLL, function: Function) -> None:
    byte = ctypes.create_string_buffer(b"\xff")
    for index, (kind, name) in enumerate(function.parameters):
        if kind != "const char *":
            continue
        values = somewhere(function)
        values[index] = ctypes.addressof(byte)
        values[index + 1] = 1
        assert call(lib, function, values) == INVALID_ARGUMENT
        assert message(lib).startswith(f"{name}: must be UTF-8") or name in JUDGED_LATER, name


def test_text_that_is_not_utf_8(lib: ctypes.CDLL) -> None:
    hub = ctypes.c_void_p()
    assert lib.tidings_hub_new(b"memory:", ctypes.c_size_t(7), None, ctypes.byref(hub)) == OK
    stream = ctypes.c_void_p()
    for bad in (b"\xff", b"a\xc3", b"\xed\xa0\x80"):
        got = lib.tidings_hub_stream(
            hub, bad, ctypes.c_size_t(len(bad)), b"n", ctypes.c_size_t(1), ctypes.byref(stream)
        )
        assert got == INVALID_ARGUMENT
        assert message(lib).startswith("scope: must be UTF-8")
    assert stream.value is None, "outputs on success only"
    assert lib.tidings_hub_free(hub) == OK


def test_enumerations_that_are_none(lib: ctypes.CDLL) -> None:
    hub, options, answer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.tidings_hub_new(b"memory:", ctypes.c_size_t(7), None, ctypes.byref(hub)) == OK
    assert lib.tidings_options_new(ctypes.byref(options)) == OK
    for number in (-1, 2, 999, 2**31 - 1):
        assert lib.tidings_hub_flush(hub, ctypes.c_int32(number), None, None, ctypes.byref(answer)) == INVALID_ARGUMENT
        assert message(lib).startswith("durability: ")
        assert lib.tidings_hub_set_paused(hub, ctypes.c_int32(number)) == INVALID_ARGUMENT
    for number in (-1, 0, 999):
        assert lib.tidings_options_set_number(options, ctypes.c_int32(number), ctypes.c_uint64(1)) == INVALID_ARGUMENT
        assert (
            lib.tidings_options_set_text(options, ctypes.c_int32(number), b"", ctypes.c_size_t(0)) == INVALID_ARGUMENT
        )
    assert lib.tidings_options_set_number(options, 4, ctypes.c_uint64(2)) == INVALID_ARGUMENT, "a flag is 1 or 0"
    for number in (-1, 2, 999):
        flag = ctypes.c_int32(number)
        assert lib.tidings_hub_set_endpoint(hub, b"00" * 32, ctypes.c_size_t(64), flag) == INVALID_ARGUMENT
        assert message(lib).startswith("enabled: ")
        passes = ctypes.c_int32(7)
        level = (b"info", ctypes.c_size_t(4))
        assert lib.tidings_log_passes(flag, None, ctypes.c_size_t(0), *level, ctypes.byref(passes)) == INVALID_ARGUMENT
        assert (message(lib)[:13], passes.value) == ("per_request: ", 7)
    assert lib.tidings_options_free(options) == OK
    assert lib.tidings_hub_free(hub) == OK


def test_peers_that_are_closed_or_freed(lib: ctypes.CDLL) -> None:
    hub, outbox, peer, profile = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    listener, gone, alive = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int32()
    server = b'{"tools":{"listChanged":true}}'
    assert lib.tidings_hub_new(b"memory:", ctypes.c_size_t(7), None, ctypes.byref(hub)) == OK
    assert lib.tidings_hub_outbox(hub, ctypes.byref(outbox)) == OK
    nobody = (None, ctypes.c_size_t(0))
    assert lib.tidings_outbox_join(outbox, *nobody, ctypes.c_uint64(0), ctypes.byref(peer)) == OK
    texts = (b"2025-11-25", ctypes.c_size_t(10), server, ctypes.c_size_t(len(server)), b"{}", ctypes.c_size_t(2))
    assert lib.tidings_profile_new(*texts, ctypes.byref(profile)) == OK
    for number in (-1, 2, 999):
        assert lib.tidings_peer_set_reachable(peer, ctypes.c_int32(number)) == INVALID_ARGUMENT
    assert lib.tidings_peer_attend(peer, profile, ctypes.byref(listener)) == OK
    assert lib.tidings_peer_close(peer, ctypes.byref(gone)) == OK
    assert gone.value == 1
    assert lib.tidings_peer_close(peer, ctypes.byref(gone)) == OK
    assert gone.value == 0, "closed twice"
    alive.value = 7
    assert lib.tidings_peer_written(peer, ctypes.c_uint32(1), ctypes.byref(alive)) == OK
    assert alive.value == 0, "too late"
    other = ctypes.c_void_p()
    assert lib.tidings_peer_attend(peer, profile, ctypes.byref(other)) == INVALID_ARGUMENT
    assert message(lib).startswith("sink: is gone"), "nothing is added to what is closed"
    assert lib.tidings_peer_free(peer) == OK
    assert lib.tidings_peer_free(peer) == INVALID_ARGUMENT
    assert lib.tidings_peer_close(peer, ctypes.byref(gone)) == INVALID_ARGUMENT
    assert lib.tidings_listener_cancel(listener, ctypes.byref(alive)) == OK
    assert alive.value == 0, "it had ended with its connection"
    for free, handle in (("listener", listener), ("profile", profile), ("outbox", outbox), ("hub", hub)):
        assert getattr(lib, f"tidings_{free}_free")(handle) == OK


def test_a_constructor_that_fails_frees_nothing_of_the_caller(lib: ctypes.CDLL) -> None:
    # B80: what is given stays the caller's, whether the call succeeds or not.
    options, hub = ctypes.c_void_p(), ctypes.c_void_p()
    assert lib.tidings_options_new(ctypes.byref(options)) == OK
    assert lib.tidings_options_set_text(options, 9, b"never", ctypes.c_size_t(5)) == OK
    assert lib.tidings_hub_new(b"memory:", ctypes.c_size_t(7), options, ctypes.byref(hub)) == INVALID_ARGUMENT
    assert message(lib).startswith("undeliverable: ")
    assert lib.tidings_options_set_text(options, 9, b"drop", ctypes.c_size_t(4)) == OK
    assert lib.tidings_hub_new(b"memory:", ctypes.c_size_t(7), options, ctypes.byref(hub)) == OK
    assert lib.tidings_options_free(options) == OK
    assert lib.tidings_options_free(options) == INVALID_ARGUMENT
    assert lib.tidings_hub_free(hub) == OK


def test_user_data_is_let_go_of_once(lib: ctypes.CDLL) -> None:
    # B81: each registration has its own, and its finalizer runs once, after the last call.
    calls: list[tuple[str, int]] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    wake = function(lambda data: calls.append(("wake", data or 0)))
    finalize = function(lambda data: calls.append(("finalize", data or 0)))
    ports = [ctypes.c_void_p(), ctypes.c_void_p()]
    for number, port in enumerate(ports, 1):
        assert lib.tidings_port_new_with_wake(wake, ctypes.c_void_p(number), finalize, ctypes.byref(port)) == OK
    assert lib.tidings_port_free(ports[0]) == OK
    assert lib.tidings_port_free(ports[0]) == INVALID_ARGUMENT
    assert lib.tidings_port_free(ports[1]) == OK
    assert [call for call in calls if call[0] == "finalize"] == [("finalize", 1), ("finalize", 2)]


def test_names_and_retryability_are_those_of_the_one_table(lib: ctypes.CDLL) -> None:
    name, retryable = ctypes.c_char_p(), ctypes.c_int32()
    said = []
    for number in range(15):
        assert lib.tidings_result_name(ctypes.c_int32(number), ctypes.byref(name)) == OK
        assert lib.tidings_result_retryable(ctypes.c_int32(number), ctypes.byref(retryable)) == OK
        said.append((name.value, retryable.value))
    assert said[0] == (b"ok", 0)
    assert [name for name, again in said if again] == [b"congested", b"unavailable", b"timeout"]
    assert lib.tidings_abi_version() == 1

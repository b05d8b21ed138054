"""One object of every kind of the header, and values that its functions take: for tests that walk it."""

from __future__ import annotations

import ctypes
import os
import socket

from c.declared import Function, callbacks, ctype, functions, handle_of, handles

OK = 0
CONFIG = b'{"routes":[{"id":"desk","type":"callback","triggers":["completed"],"endpoint":"desk"}]}'
SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
JWK = (
    b'{"kty":"OKP","crv":"X25519","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08",'
    b'"d":"XasIfmJKikt54X-Lg4AO5m87sSkmGLb9HC-LJ_-I4Os"}'
)
TEXTS = {
    "url": b"memory:",
    "kind": b"com.example.step",
    "principal": b"alice",
    "asker": b"alice",
    "version": b"2025-11-25",
    "server": b'{"tools":{"listChanged":true}}',
    "client": b"{}",
    "filter": b'{"toolsListChanged":true}',
    "request_id": b"7",
    "route_type": b"callback",
    "token": b"7",
    "level": b"error",
    "signal": b"SIGUSR1",
}
LISTS = {"secrets": SECRET, "jwks": JWK, "kinds": b"tools", "paths": b"/hook", "payloads": b"{}"}
NUMBERS = {
    "count": 1,
    "kinds_count": 1,
    "room": 4,
    "limit": 8,
    "most": 8,
    "index": 0,
    "after": -1,
    "size": 256,
    "why": 1,
}
ABSENT = {
    "token",
    "cursor",
    "key",
    "message",
    "headers",
    "identity",
    "reason",
    "error",
    "state",
    "peer",
    "asked",
    "call_id",
}
# Where one function wants another value.
OF_FUNCTION: dict[tuple[str, str], object] = {
    ("tidings_begin_set_number", "field"): 8,
    ("tidings_options_set_number", "option"): 13,
    ("tidings_hub_notify", "name"): None,
    ("tidings_hub_purge", "id"): None,
    ("tidings_call_fire", "name"): b"com.example.fired",
}


class Bytes(ctypes.Structure):
    """`tidings_bytes`."""

    _fields_ = (("data", ctypes.c_char_p), ("len", ctypes.c_size_t))


def load(path: str) -> ctypes.CDLL:
    lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)  # the hammer finds its functions there
    for function in functions():
        exported = getattr(lib, function.name)
        exported.argtypes = [ctype(kind) for kind, _ in function.parameters]
        exported.restype = ctype(function.result) if function.result != "void" else None
    return lib


class Objects:
    """One object of every kind, by the names of their types without `tidings_`."""

    def __init__(self, lib: ctypes.CDLL, url: bytes, callbacks: dict[str, ctypes.c_void_p]) -> None:
        """`callbacks`: the functions that the library may call, by their types; a type that is missing is NULL."""
        self.lib, self.callbacks = lib, callbacks
        self.made: dict[str, int] = {}
        for name in ("options", "port", "begin"):
            self.make(name, f"tidings_{name}_new")
        hub = self.make("hub", "tidings_hub_new", url, len(url), None)
        stream = self.make("stream", "tidings_hub_stream", hub, b"s", 1, b"n", 1)
        writer = self.make("writer", "tidings_hub_new_writer", hub, b"s", 1, b"w", 1)
        seq = ctypes.c_uint64()
        kind = TEXTS["kind"]
        self.do("tidings_writer_append", writer, kind, len(kind), b"{}", 2, None, 0, 0, ctypes.byref(seq))
        self.make("answer", "tidings_writer_flush", writer, 0, None, None)
        payloads = listed("payloads")
        appended = (kind, len(kind), *payloads, None, 0, None, 0, 0, 0, None, None)
        self.make("answer", "tidings_stream_append", stream, *appended)
        self.make("batch", "tidings_stream_read", stream, None, 0, -1, 8)
        self.make("tail", "tidings_stream_tail", stream, None, 0, -1)
        self.make("export", "tidings_stream_export", stream, None, 0, -1)
        self.make("text", "tidings_hub_prometheus", hub)
        self.call(hub)
        self.make("deliveries", "tidings_hub_deliveries", hub, None, 0, None, 0, None, 0, 8)
        self.make("endpoints", "tidings_hub_endpoints", hub, None, 0, 8)
        profile = self.make("profile", "tidings_profile_new", *texts("version", "server", "client"))
        outbox = self.make("outbox", "tidings_hub_outbox", hub)
        peer = self.make("peer", "tidings_outbox_join", outbox, None, 0, 0)
        self.make("listener", "tidings_peer_attend", peer, profile)
        self.make("notices", "tidings_outbox_take", outbox, 8)
        self.make("failed_peers", "tidings_hub_failed_peers", hub)
        self.make("progress", "tidings_progress_new", b"7", 1, 0)
        self.make("webhook", "tidings_webhook_new", *listed("secrets"))
        self.make("webhook_keys", "tidings_webhook_keys_new", *listed("jwks"))
        self.stdio_peer()
        self.make("logger", "tidings_logger_new", self.callbacks["tidings_log"], None, None)
        missing = handles() - {f"tidings_{name}" for name in self.made}
        assert not missing, missing

    def call(self, hub: int) -> None:
        """A call that is a task, and its delivery in this program's hands."""
        outlet = self.make("outlet", "tidings_hub_outlet", hub, b"callback", 8, b"desk", 4, None, 0, 0, 0)
        begin = self.make("begin", "tidings_begin_new")
        fields = ((1, CONFIG), (2, b"callback"), (10, b"desk"), (3, b"alice"), (5, b"7"), (6, b"tool"))
        for field, value in fields:
            self.do("tidings_begin_set_text", begin, field, value, len(value))
        self.do("tidings_begin_set_number", begin, 11, 60_000)
        begun = self.make("answer", "tidings_hub_begin_call", hub, begin, None, None)
        call = self.make("call", "tidings_answer_call", begun)
        self.make("texts", "tidings_call_accepted_routes", call)
        self.make("answer", "tidings_call_complete", call, b"{}", 2, None, None)
        handed = self.make("answer", "tidings_outlet_next", outlet, None, None)
        self.make("host_delivery", "tidings_answer_host_delivery", handed)
        id = self.make("text", "tidings_call_id", call)
        data, length = ctypes.c_char_p(), ctypes.c_size_t()
        self.do("tidings_text_get", id, ctypes.byref(data), ctypes.byref(length))
        self.make("task", "tidings_hub_task", hub, data.value, length.value, b"alice", 5)

    def stdio_peer(self) -> None:
        """This process, by a socket that is its stdin for a moment: what rings waits for nothing, and is not rung."""
        before = os.dup(0)
        ours, theirs = socket.socketpair()
        try:
            os.dup2(theirs.fileno(), 0)
            self.make("stdio_peer", "tidings_stdio_peer_new", 1)
        finally:
            os.dup2(before, 0)
            os.close(before)
            ours.close()
            theirs.close()

    def make(self, name: str, function: str, *given: object) -> int:
        handle = ctypes.c_void_p()
        self.do(function, *given, ctypes.byref(handle))
        assert handle.value, function
        self.made[name] = handle.value
        return handle.value

    def do(self, function: str, *given: object) -> None:
        result = getattr(self.lib, function)(*given)
        assert result == OK, f"{function}: {result}"


def texts(*names: str) -> list[object]:
    return [part for name in names for part in (TEXTS[name], len(TEXTS[name]))]


def listed(name: str) -> tuple[object, int]:
    return (Bytes * 1)(Bytes(LISTS[name], len(LISTS[name]))), 1


def arguments(function: Function, objects: Objects, port: int | None) -> list[object]:
    """What the function is called with: these objects, and values that it takes; where it may wait, at that port."""
    values: list[object] = []
    for kind, name in function.parameters:
        before = values[-1] if values else None
        if (function.name, name) in OF_FUNCTION:
            values.append(OF_FUNCTION[function.name, name])
        elif waits(function) and name == "port":
            values.append(port)
        elif handle := handle_of(kind):
            values.append(objects.made[handle.removeprefix("tidings_")])
        elif name in LISTS:
            values.append(listed(name)[0])
        elif kind in callbacks():
            values.append(objects.callbacks.get(kind))
        elif kind == "const char **" or ("*" in kind and not kind.startswith("const ")):
            values.append(ctypes.create_string_buffer(4096))
        elif "*" in kind and name in ABSENT:
            values.append(None)
        elif "*" in kind:
            values.append(TEXTS.get(name, b"{}" if "uint8_t" in kind else b"x"))
        elif name.endswith("_len"):
            values.append(len(before) if isinstance(before, bytes) else 0)
        else:
            values.append(NUMBERS.get(name, 0 if name.endswith("count") else 1))
    return values


def waits(function: Function) -> bool:
    """Whether it may be told a port to wait at."""
    return ("const tidings_port *", "port") in function.parameters[1:]

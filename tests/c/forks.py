"""A process that forks while other threads are inside every part of the library, and what each export answers in its children.

  python tests/c/forks.py LIBRARY HAMMER URL CHILDREN

LIBRARY is `libtidings_c.so` with the feature `testing`, HAMMER is `hammer.c` as a library, URL is the hub's. Prints a line for
every export that answered otherwise than the header's part on forks says, or that hung; then how many children there were.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from c.declared import Function, functions, handle_of
from c.objects import OK, Objects, arguments, load, waits

INVALID_ARGUMENT, INVALID_CONFIG, UNKNOWN_CURSOR, FORKED, UNVERIFIED = 1, 2, 3, 12, 1000
# The objects that live in the parent's threads.
OF_PROCESS = {
    "tidings_answer",
    "tidings_call",
    "tidings_export",
    "tidings_host_delivery",
    "tidings_listener",
    "tidings_outbox",
    "tidings_outlet",
    "tidings_peer",
    "tidings_port",
    "tidings_stream",
    "tidings_tail",
    "tidings_writer",
}
# What has another answer to what it is given here.
OTHERWISE = {
    "tidings_hub_new": INVALID_ARGUMENT,  # the hammer sets a key of another length
    "tidings_hub_begin_call": INVALID_CONFIG,  # and a config that is none
    "tidings_hub_check_config": INVALID_CONFIG,
    "tidings_webhook_verify": UNVERIFIED,  # no headers
    "tidings_webhook_decrypt": UNVERIFIED,  # no JWE
    "tidings_notices_get": INVALID_ARGUMENT,  # of an empty list
    "tidings_failed_peers_get": INVALID_ARGUMENT,
    "tidings_hub_resume": UNKNOWN_CURSOR,
    "tidings_hub_delivery_body": INVALID_ARGUMENT,
    "tidings_hub_send_again": INVALID_ARGUMENT,
    "tidings_hub_attempts": INVALID_ARGUMENT,
    "tidings_hub_set_endpoint": INVALID_ARGUMENT,
}
# The functions that the library calls, of `hammer.c`; a finalizer is not needed.
CALLED = ("log", "wake")
HAMMERED = ("options", "begin", "progress", "port", "hub", "stream", "writer")
# These end what the others are called with.
LAST = ("tidings_hub_close", "tidings_close_all")
HUNG_SECONDS = 90


class Hammered(ctypes.Structure):
    """`objects` of `hammer.c`."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in HAMMERED)


def expected(function: Function, port: int | None) -> int:
    if function.name.endswith("_free"):
        return OK
    if waits(function) and port is not None:
        return FORKED
    needed = {handle_of(kind) for kind, name in function.parameters if not (waits(function) and name == "port")}
    return FORKED if needed & OF_PROCESS else OTHERWISE.get(function.name, OK)


def order(function: Function) -> tuple[bool, bool]:
    return (function.name.endswith("_free"), function.name in LAST)


def be_the_child(parent: Objects, hammer: ctypes.CDLL, now: mmap.mmap) -> int:
    """Calls every export, those that may wait also at the parent's port; says how many answered otherwise."""
    lib, wrong = parent.lib, 0
    now[:] = b"the log".ljust(len(now))
    told = hammer.hammer_told()
    lib.tidings_testing_panic()
    lib.tidings_last_error(ctypes.byref(ctypes.c_void_p()))
    if hammer.hammer_told() == told:
        print("the parent's logger is told nothing", flush=True)
        wrong += 1
    exports = [function for function in functions() if function.result == "tidings_result"]
    for port in (parent.made["port"], None):
        for function in sorted(exports, key=order):
            if port is not None and not waits(function):
                continue
            now[:] = function.name.encode().ljust(len(now))
            result = getattr(lib, function.name)(*arguments(function, parent, port))
            if result != expected(function, port):
                print(f"{function.name}: {result}, not {expected(function, port)}", flush=True)
                wrong += 1
    return wrong


def main() -> None:
    path, hammer_path, url, children = sys.argv[1:]
    lib = load(path)
    os.register_at_fork(
        before=lib.tidings_before_fork,
        after_in_parent=lib.tidings_after_fork_in_parent,
        after_in_child=lib.tidings_after_fork_in_child,
    )
    # Somebody is at the other end of stdin: this process.
    _ours, theirs = socket.socketpair()
    os.dup2(theirs.fileno(), 0)
    hammer = ctypes.CDLL(hammer_path)
    hammer.hammer_told.restype = ctypes.c_long
    called = {f"tidings_{name}": ctypes.cast(hammer[f"hammer_{name}"], ctypes.c_void_p) for name in CALLED}
    parent = Objects(lib, url.encode(), called)
    given = Hammered(**{name: parent.made[name] for name in HAMMERED})
    assert hammer.hammer_start(ctypes.byref(given)) == 0
    now = mmap.mmap(-1, 64)
    failed = 0
    for _ in range(int(children)):
        child = os.fork()
        if child == 0:
            signal.alarm(HUNG_SECONDS)  # ends it, and its parent says where
            os._exit(min(be_the_child(parent, hammer, now), 100))
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(f"ended by signal {os.WTERMSIG(status)} in {now[:].decode().strip()}", flush=True)
        failed += status != 0
    stopped = hammer.hammer_stop()
    told = hammer.hammer_told()
    print(f"children: {children}, failed: {failed}, threads failed: {stopped}, told: {told > 0}")


if __name__ == "__main__":
    main()

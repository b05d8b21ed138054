"""A process that is rung by the one that it has started, as a client is by its stdio server.

  python tests/c/rings.py LIBRARY

It waits for SIGUSR1 and SIGRTMIN+3 only. Prints what the server said, then the signals that came, in order.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

AWAITED = (signal.SIGUSR1, signal.SIGRTMIN + 3)
SECONDS = 60


def server(path: str) -> None:
    """Rings as often as it is told to, by lines of its stdin."""
    lib = ctypes.CDLL(path)
    peer, refusal = ctypes.c_void_p(), ctypes.c_int32()
    if os.geteuid() == 0:
        print("as root", lib.tidings_stdio_peer_new(ctypes.c_int32(0), ctypes.byref(peer)), flush=True)
    assert lib.tidings_stdio_peer_new(ctypes.c_int32(1), ctypes.byref(peer)) == 0
    for line in sys.stdin:
        name = line.strip().encode()
        refusal.value = 77
        result = lib.tidings_stdio_peer_ring(peer, name, ctypes.c_size_t(len(name)), ctypes.byref(refusal))
        print(name.decode(), result, refusal.value, flush=True)
    assert lib.tidings_stdio_peer_free(peer) == 0


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    command = [sys.executable, __file__, sys.argv[1], "server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        said, _ = started.communicate("SIGUSR1\nSIGUSR2\nSIGRTMIN+3\nSIGRTMIN+4\nSIGTERM\n", timeout=SECONDS)
    print(said, end="")
    for _ in AWAITED:
        came = signal.sigtimedwait(AWAITED, SECONDS)
        print("came", came and came.si_signo, flush=True)


if __name__ == "__main__":
    server(sys.argv[1]) if len(sys.argv) > 2 else main()

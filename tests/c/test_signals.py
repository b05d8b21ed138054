"""Routes of type `signal`: the process at the other end of stdin is rung, where it waits for that signal (B28)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INVALID_ARGUMENT, UNSUPPORTED, NOT_READY = 1, 11, 4


def test_a_client_is_rung_and_survives_what_it_does_not_wait_for(library: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "rings.py"), str(library)], check=False, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    if os.geteuid() == 0:
        assert said.pop(0) == f"as root {UNSUPPORTED}", "unless that is allowed"
    assert said == [
        "SIGUSR1 0 0",
        f"SIGUSR2 0 {NOT_READY}",
        "SIGRTMIN+3 0 0",
        f"SIGRTMIN+4 0 {NOT_READY}",
        f"SIGTERM {INVALID_ARGUMENT} 77",
        f"came {int(signal.SIGUSR1)}",
        f"came {int(signal.SIGRTMIN) + 3}",
    ]


def test_where_nobody_is_at_the_other_end(library: Path) -> None:
    script = (
        "import ctypes, sys; lib, peer = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p();"
        "print(lib.tidings_stdio_peer_new(1, ctypes.byref(peer)), peer.value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(library)],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{UNSUPPORTED} None\n"

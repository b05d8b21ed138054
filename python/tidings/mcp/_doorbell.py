"""A signal for the process at the other end of stdio, on Linux.

The process is pinned by a pidfd before anything is sent: a number that comes over the wire is never used, and a process
that took the number of one that died never gets its signal. The default action of every signal that may ring ends a process
that does not handle it, so that each time it is looked whether the peer does.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import stat
import struct
import sys
from typing import Final

from .._routes import Refused

_log: Final = logging.getLogger("tidings.mcp")

_CREDENTIALS: Final = struct.Struct("3i")
"""``struct ucred`` of unix(7): pid, uid, gid."""

_MASKS: Final = (b"SigBlk:", b"SigIgn:", b"SigCgt:")
"""Lines of proc_pid_status(5): a signal in one of them does not end the process."""


class Doorbell:
    """The peer's process. Made by `of_stdio`."""

    def __init__(self, pid: int, fd: int) -> None:
        self._pid = pid
        self._fd = fd

    def ring(self, name: str) -> object:
        """Send the signal of that name, unless the peer is gone or would not survive it.

        True: sent. A `Refused` says why not. Raises BlockingIOError when the peer's queue is full, which may pass.
        """
        number = _number(name)
        waits = self._waits_for(number)
        if self._is_gone():  # asked last: what was read before was the peer's, if it is still there
            return Refused.UNREACHABLE
        if not waits:
            return Refused.NOT_READY
        try:
            signal.pidfd_send_signal(self._fd, number)  # type: ignore[attr-defined, unused-ignore]
        except ProcessLookupError:
            return Refused.UNREACHABLE
        except PermissionError:
            return False
        return True

    def _waits_for(self, number: int) -> bool:
        try:
            with open(f"/proc/{self._pid}/status", "rb") as status:
                masks = [line.split()[1] for line in status if line.startswith(_MASKS)]
        except OSError:
            return False
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)

    def _is_gone(self) -> bool:
        watch = select.poll()
        watch.register(self._fd, select.POLLIN)
        return bool(watch.poll(0))


def of_stdio(*, as_root: bool) -> Doorbell | None:
    """The doorbell of the process at the other end of stdin, or None, with a line in the log that says why."""
    try:
        pid = _peer(0)
        if os.geteuid() == 0 and not as_root:
            raise _No("this process is root's; signal_as_root=True allows it")
        return _open(pid)
    except _No as why:
        _log.warning("routes of type 'signal' are not offered: %s", why)
    except OSError as error:
        _log.warning("routes of type 'signal' are not offered: %s", error)
    return None


class _No(Exception):
    pass


def _peer(stdin: int) -> int:
    if sys.platform != "linux" or not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        raise _No("they need Linux")
    mode = os.fstat(stdin).st_mode
    if stat.S_ISSOCK(mode):
        with socket.socket(fileno=os.dup(stdin)) as wire:
            pid, _, _ = _CREDENTIALS.unpack(wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    elif stat.S_ISFIFO(mode):
        pid = os.getppid()
    else:
        raise _No("stdin is no pipe and no socket")
    if pid <= 1:
        raise _No("the process at the other end cannot be told")
    return int(pid)


def _open(pid: int) -> Doorbell:
    fd: int = os.pidfd_open(pid)  # type: ignore[attr-defined, unused-ignore]
    # Whose number it is now: the peer's, if it was the peer's after it was pinned, too.
    if _peer(0) != pid or _user(pid) != os.geteuid():
        os.close(fd)
        raise _No("the process at the other end is another user's, or gone")
    return Doorbell(pid, fd)


def _user(pid: int) -> int:
    with open(f"/proc/{pid}/status", "rb") as status:
        for line in status:
            if line.startswith(b"Uid:"):
                return int(line.split()[2])  # real, effective, saved, file system
    raise _No("/proc does not say whose process it is")


def _number(name: str) -> int:
    # The core lets no other names in.
    if name.startswith("SIGRTMIN+"):
        return int(signal.SIGRTMIN) + int(name.removeprefix("SIGRTMIN+"))
    return int(signal.Signals[name])

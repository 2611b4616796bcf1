"""Which process is meant by (host, pid, started), and whether it still runs.

A pid alone is not enough: it is given again after a while, and the same number means another
process in another container. ``started`` is therefore the boot of the machine, the pid namespace
and the time the process started, as Linux tells them; empty elsewhere.

Only what is certain counts as an end: a false one would let a second run begin. ``/proc`` may hide
the processes of other users (the mount option hidepid), and may be that of another pid namespace;
then nobody can tell from here, and who waits for the process waits until its lease expires.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_STAT_BYTES = 4_096
"""More than a process's line has."""


@dataclass(frozen=True)
class Process:
    """:param started: ``boot id/pid namespace/start in clock ticks``, or empty if unknown."""

    host: str
    pid: int
    started: str = ""

    @classmethod
    def current(cls) -> Process:
        """This process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process of this machine that has a pid now."""
        place = _place()
        ticks = _start_ticks(pid)
        return cls(socket.gethostname(), pid, f"{place}/{ticks}" if place and ticks else "")

    def is_running(self) -> bool | None:
        """Whether it runs; None if this process cannot tell, from another machine for example, or
        because a process of this number exists and its start cannot be seen."""
        place, _, ticks = self.started.rpartition("/")
        if self.host != socket.gethostname() or not place or place != _place():
            return None
        found = _start_ticks(self.pid)
        if found is None:
            return None if _may_exist(self.pid) else False
        return found == ticks


@cache
def _place() -> str:
    """The boot of this machine and the pid namespace of this process; empty if unknown, also where
    ``/proc`` counts the processes of another namespace than this one's."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = str((_PROC / "self/ns/pid").readlink())
        own_pid = str((_PROC / "self").readlink())
    except OSError:
        return ""
    if own_pid != str(os.getpid()):
        return ""
    return f"{boot}/{namespace.removeprefix('pid:').strip('[]')}"


def _start_ticks(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; empty if it has ended and nobody has
    waited for it; None if it is not to be seen."""
    try:
        # Few calls, each of which lets another thread go first: a page asks for 1,000 at once.
        descriptor = os.open(_PROC / f"{pid}/stat", os.O_RDONLY)
        try:
            line = os.read(descriptor, _STAT_BYTES)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    # The command, in parentheses, may hold any bytes; behind it come fields 3 to 52.
    state, *fields = line.rpartition(b")")[2].decode().split()
    return "" if state in ("Z", "X") else fields[18]


def _may_exist(pid: int) -> bool:
    """Whether there may be a process of this number, of any user: the kernel tells, also where
    ``/proc`` hides it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user, or the system forbids the question
        return True
    return True

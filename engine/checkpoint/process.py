"""Which process is meant by (host, pid, started), and whether it still runs.

A pid alone is not enough: it is given again after a while, and the same number means another
process in another container. ``started`` is therefore the boot of the machine, the pid namespace
and the time the process started, as Linux tells them; empty elsewhere.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """:param started: ``boot id/pid namespace/start in clock ticks``, or empty if unknown."""

    host: str
    pid: int
    started: str = ""

    @classmethod
    def current(cls) -> Process:
        """This process."""
        pid = os.getpid()
        ticks = _start_ticks(pid)
        place = _place()
        return cls(socket.gethostname(), pid, f"{place}/{ticks}" if place and ticks else "")

    def is_running(self) -> bool | None:
        """Whether it runs; None if this process cannot tell, from another machine for example."""
        place, _, ticks = self.started.rpartition("/")
        if self.host != socket.gethostname() or not place or place != _place():
            return None
        return _start_ticks(self.pid) == ticks


@cache
def _place() -> str:
    """The boot of this machine and the pid namespace of this process; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
    return f"{boot}/{namespace.removeprefix('pid:').strip('[]')}"


def _start_ticks(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty if it does not run."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command, in parentheses, may hold anything; behind it come fields 3 to 52.
    state, *fields = line.rpartition(")")[2].split()
    return "" if state in ("Z", "X") else fields[18]

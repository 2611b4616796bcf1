"""Ports for servers that are told theirs, and that bind it some time later."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_HELD: Final[dict[int, socket.socket]] = {}
"""By port, what says to other processes whose it is, as long as this one lives."""


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on, and that are this process's until it ends.

    Each is returned once, also to processes beside this one (on Linux). They are below those that
    the system gives to whoever asks for any, or connects somewhere. So a server may begin late, or
    end and begin again, and who tries its port in vain is not connected to itself.
    """
    candidates = [*range(_LOWEST, _first_of_the_system())]
    random.SystemRandom().shuffle(candidates)
    ports = filter(_take, chain(candidates, _of_the_system()))
    return [next(ports) for _ in range(count)]


def _first_of_the_system() -> int:
    with suppress(OSError, ValueError):
        return int(_RANGE.read_text().split()[0])
    return 32_768


def _of_the_system() -> Iterator[int]:
    """What it gives, where none is left below."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        yield port


def _take(port: int) -> bool:
    """Hold a port, if it is free."""
    if port in _HELD:
        return False
    holder = socket.socket(socket.AF_UNIX)
    try:
        if sys.platform == "linux":  # elsewhere there are no names that end with their process
            holder.bind(f"\0continuous queries, port {port}")
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return False
    _HELD[port] = holder
    return True

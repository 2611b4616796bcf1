"""Ports for servers that are told theirs, and that bind it some time later."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_GIVEN: Final = set[int]()


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on now, each one once in a process.

    They are below those that the system gives to whoever asks for any, or connects somewhere: such
    a one may be taken again before its server comes, or while it is restarted.
    """
    choice, found = random.SystemRandom(), list[int]()
    candidates = [*range(_LOWEST, _first_of_the_system())]
    choice.shuffle(candidates)
    ports = chain(candidates, repeat(0))  # where none is left, any of the system's
    while len(found) < count:
        free = _bound(next(ports))
        if free is not None and free not in _GIVEN:
            found.append(free)
            _GIVEN.add(free)
    return found


def _first_of_the_system() -> int:
    with suppress(OSError, ValueError):
        return int(_RANGE.read_text().split()[0])
    return 32_768


def _bound(port: int) -> int | None:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return None
        return int(probe.getsockname()[1])

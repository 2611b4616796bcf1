"""Has the system notice that the machine at the other end is gone: such a machine sends no FIN and
no RST, and who waits for its word would wait for ever."""

from __future__ import annotations

import socket
from typing import Final

_SILENT_S: Final = 10
_PROBE_S: Final = 5
_PROBES: Final = 4
_TIMEOUT_MAX_MS: Final = 2**31 - 1
"""What the system takes: 24 days."""


def ask_when_silent(sock: socket.socket) -> None:
    """Have the connection break when the other machine says nothing, and does not answer for half
    a minute. What has been sent to it and not arrived is not asked for: see
    :func:`give_up_sending`."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {"TCP_KEEPIDLE": _SILENT_S, "TCP_KEEPINTVL": _PROBE_S, "TCP_KEEPCNT": _PROBES}
    for name, value in settings.items():
        _set(sock, name, value)


def give_up_sending(sock: socket.socket, seconds: float) -> None:
    """Have the connection break when nothing that is sent has arrived for so long, in place of some
    fifteen minutes. Nor may the other end leave it unread for so long: this is not for rows, which
    wait for whoever takes them.

    Systems that do not know of this keep their own time.
    """
    _set(sock, "TCP_USER_TIMEOUT", min(round(seconds * 1000), _TIMEOUT_MAX_MS))


def _set(sock: socket.socket, name: str, value: int) -> None:
    if (option := getattr(socket, name, None)) is not None:  # not every system has them
        sock.setsockopt(socket.IPPROTO_TCP, option, value)

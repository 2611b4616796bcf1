"""A server process: its log, its end, and what else can happen to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from tests.waiting import wait_until

STOP_S = 30.0
LOG_SHOWN = 4_000
_PORT_MIN = 10_000
_SYSTEMS_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_held: list[socket.socket] = []
"""Whose names say which ports are this process's, as long as it lives."""


class NoServerError(Exception):
    """A server cannot be had here."""


class Process:
    """One that was started, in a session of its own: a Ctrl-C of the tests is not for it.

    :ivar pid: its id.
    :param log: where it writes; what was there stays.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=None if environment is None else dict(environment),
                user=user,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def await_ready(self, is_ready: Callable[[], object], seconds: float = 60) -> None:
        """Wait until it serves.

        :raises AssertionError: it has ended, or does not in time; with the end of its log.
        """

        def looked() -> object:
            assert self.is_alive, f"{self._popen.args} has ended:\n{self.said()}"
            return is_ready()

        try:
            wait_until(looked, f"{self._popen.args} serves", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-LOG_SHOWN:]

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._popen.poll()

    def stop(self) -> None:
        """Ask it to end, and see that it does. Again is fine."""
        if not self.is_alive:
            return
        self._popen.send_signal(signal.SIGCONT)
        self._popen.terminate()
        try:
            self._popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """As a crash would."""
        self._popen.kill()
        self._popen.wait()

    def suspend(self) -> None:
        """It is there, and does not answer: none of its threads runs any more."""
        self._popen.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._popen.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self._popen.send_signal(signal.SIGCONT)


def answers(url: str, timeout_s: float = 5) -> bool:
    """Whether a web server does by now, and not with an error."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s):
            return True
    except OSError:  # one that has taken the request, and says nothing in time, too
        return False


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, and that are this process's until it ends: no other
    process of the tests gets them, and the system gives them to no connection. So a server may
    begin late, or end and begin again; and who tries a port in vain is not connected to itself."""
    low, high = map(int, _SYSTEMS_PORTS.read_text().split())
    assert low > _PORT_MIN, f"connections have the ports {low} to {high}: none is left for servers"
    begin = _PORT_MIN + os.getpid() * 101 % (low - _PORT_MIN)
    ports = filter(_take, chain(range(begin, low), range(_PORT_MIN, begin)))
    return [next(ports) for _ in range(count)]


def _take(port: int) -> bool:
    """Hold a port, if it is free."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0tests of continuous queries, port {port}")  # gone with its last process
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return False
    _held.append(holder)
    return True

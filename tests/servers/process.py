"""A server process: its log, its end, and what else can happen to it."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.local_airflow.ports import free_ports
from tests.waiting import wait_until

__all__ = ["NoServerError", "Process", "answers", "free_ports"]
STOP_S = 30.0
LOG_SHOWN = 4_000


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


def answers(url: str, seconds: float = 5) -> bool:
    """Whether a server of the web does; one that comes up may be silent at first.

    :param seconds: it is waited for no longer.
    """
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

"""Starts processes within milliseconds: it has everything imported and forks.

Each request comes on a connection of its own to a Unix socket in a private folder; the child keeps
the connection, so its end, also by a signal, is the end of the connection.
"""

from __future__ import annotations

import os
import pickle
import selectors
import shutil
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0
_REAP_S = 0.02
STRACE = shutil.which("strace")


@dataclass(frozen=True)
class Trace:
    """Lets strace interfere with a process.

    :param log: what it does is told here.
    :param calls: the system calls that it sees.
    :param inject: as in ``-e inject=``; None only to look.
    """

    log: str
    calls: str
    inject: str | None = None

    @property
    def done(self) -> Path:
        """A file that is there when the log is complete."""
        return Path(f"{self.log}.done")

    def command(self, pid: int) -> list[str]:
        assert STRACE is not None
        inject = [] if self.inject is None else ["-e", f"inject={self.inject}"]
        what = ["-o", self.log, "-e", f"trace={self.calls}", *inject]
        return [STRACE, "-f", "-qq", *what, "-p", str(pid)]


class Child:
    """A process that was asked for.

    :ivar pid: its id.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self.pid: int = pickle.load(self._file)

    def result(self) -> Any:
        """Wait for its end; what the function returned, None if the process was killed.

        :raises TimeoutError: it does not end.
        """
        try:
            return pickle.load(self._file)
        except (EOFError, ConnectionResetError):
            return None
        finally:
            self._file.close()
            self._connection.close()


def start(address: str, function: Callable[..., Any], *args: Any, log: str = "") -> Child:
    """Run a function in a process of its own.

    :param log: a file for its stderr.
    """
    return Child(_ask(address, (function, args, log)))


def attach(address: str, trace: Trace | None) -> None:
    """Let strace attach to this process; returns when it has."""
    if trace is not None:
        with _ask(address, (trace, os.getpid(), "")) as connection:
            assert connection.recv(1) == b"+", "strace does not attach"


def _ask(address: str, request: Any) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(DEADLINE_S)
    connection.connect(address)
    connection.sendall(pickle.dumps(request))
    return connection


def environment() -> dict[str, str]:
    """For child processes: they import the tests, wherever they run."""
    root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, inherited]))}


class Server:
    """The server as a process; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "server")

    def __enter__(self) -> str:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self.address

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=DEADLINE_S)  # its stdin ends, and so does it


def serve(address: str) -> None:
    """Until stdin ends."""
    import tests.faults.l2_query  # noqa: F401  what the children need

    tracers: list[_Tracer] = []
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(address)
        listener.listen(64)
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            ready = [key.fileobj for key, _ in selector.select(timeout=_REAP_S)]
            tracers = [tracer for tracer in tracers if not tracer.has_ended()]
            with suppress(ChildProcessError):
                while not tracers and os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if sys.stdin in ready:
                return
            if listener in ready:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as file:
                    what, args, log = pickle.load(file)
                    if isinstance(what, Trace):
                        tracers.append(_Tracer(what, args))
                        with suppress(ConnectionError):  # who asked was killed before
                            connection.sendall(b"+")
                    elif os.fork() == 0:
                        _run(connection, what, args, log)


class _Tracer:
    """A strace that has attached."""

    def __init__(self, trace: Trace, pid: int) -> None:
        self._trace = trace
        self._process = subprocess.Popen(trace.command(pid))
        status = Path(f"/proc/{pid}/status")
        with suppress(FileNotFoundError, ProcessLookupError):  # it was killed before
            while self._process.poll() is None and "TracerPid:\t0\n" in status.read_text():
                pass

    def has_ended(self) -> bool:
        if self._process.poll() is None:
            return False
        self._trace.done.touch()
        return True


def _run(connection: socket.socket, function: Callable[..., Any], args: Any, log: str) -> None:
    """The child. Never returns."""
    try:
        if log:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        connection.sendall(pickle.dumps(os.getpid()))
        found = function(*args)
        with suppress(BrokenPipeError):  # who asked may be gone
            connection.sendall(pickle.dumps(found))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


if __name__ == "__main__":
    from tests.faults import l2_server  # the module that the pickles name

    l2_server.serve(sys.argv[1])

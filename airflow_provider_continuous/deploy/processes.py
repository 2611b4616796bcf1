"""Processes of this machine that were started for a submission, and are found again by its name."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.launch import launch_detached
from engine.checkpoint.process import Process

MARK = "CONTINUOUS_SUBMISSION"
"""The variable that tells which submission a process was started for."""
_PROC = Path("/proc")
_children: dict[int, subprocess.Popen[bytes]] = {}


def start(command: list[str], handle: Handle, environment: Mapping[str, str]) -> Handle:
    """Start a command in a session of its own, under a submission's name."""
    pid = launch(command, Path(handle.log), {**environment, MARK: handle.name})
    return replace(handle, pid=pid, started=Process.of(pid).started)


def launch(command: list[str], log_path: Path, environment: Mapping[str, str]) -> int:
    """Start a command in a session of its own; return its pid."""
    process = launch_detached(command, log_path, environment)
    _children[process.pid] = process
    return process.pid


def child(handle: Handle) -> subprocess.Popen[bytes] | None:
    """Return the process if it was started by this one."""
    found = None if handle.pid is None else _children.get(handle.pid)
    return found if found is not None and Process.current().host == handle.host else None


def find(handle: Handle) -> Handle:
    """Look on this machine for a process that was started and never noted."""
    if handle.pid is not None or handle.host != socket.gethostname():
        return handle
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            process = Process.of(int(entry.name))
            if _leads(process.pid) and _is_of(process.pid, handle):
                return replace(handle, pid=process.pid, started=process.started)
    return handle


def status(handle: Handle) -> DriverStatus:
    """Tell whether the process runs."""
    process, own = handle.process, child(handle)
    if process is None:
        return _before(handle)
    code = None if own is None else own.poll()
    if code is not None:
        return DriverStatus(DriverState.ENDED, f"exit code {code}", code)
    told = f"process {process.pid} on {process.host}"
    runs = True if own is not None else process.is_running()
    if runs is None:
        return DriverStatus(DriverState.UNKNOWN, told)
    return DriverStatus(DriverState.RUNNING if runs else DriverState.ENDED, told)


def end(handle: Handle, *, hard: bool = False) -> bool:
    """Ask the process to end, if it is here and was started for this submission; tell whether it
    was asked. spark-submit is asked with all that it has started, a driver alone: it lets its own
    processes end in order.

    :param hard: end it at once, with all that it has started.
    """
    group = hard or handle.backend != "local"
    process, own = handle.process, child(handle)
    if process is None:
        return False
    if own is None and not (process.is_running() and _is_of(process.pid, handle)):
        return False
    if own is not None and own.poll() is not None and not group:
        return False  # what it has started may still run
    try:
        number = signal.SIGKILL if hard else signal.SIGTERM
        (os.killpg if group else os.kill)(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def _before(handle: Handle) -> DriverStatus:
    """The status of a submission of which no process is known."""
    pid, started = handle.submitter
    submits = Process(handle.host, pid, started).is_running()
    if submits is None:
        return DriverStatus(DriverState.UNKNOWN, f"submitted on {handle.host}")
    if submits:
        return DriverStatus(DriverState.STARTING, f"being submitted by process {pid}")
    return DriverStatus(DriverState.ENDED, "nothing was started")


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def _is_of(pid: int, handle: Handle) -> bool:
    try:
        environment = (_PROC / f"{pid}/environ").read_bytes()
    except OSError:  # of another user, or ended
        return False
    return f"{MARK}={handle.name}".encode() in environment.split(b"\0")

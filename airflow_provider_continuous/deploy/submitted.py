"""A submission with the backend that knows it: followed until its run holds the checkpoint."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import Backend, DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.driver_log import tail
from airflow_provider_continuous.deploy.submission import (
    LOG_SUFFIX,
    PROPERTIES_SUFFIX,
    SPEC_SUFFIX,
)
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.commands.result import WRONG_USE
from engine.errors import ConfigError, ContinuousError

_TERMINATE_S = 10.0
_CLUSTER_TERMINATE_S = 60.0
"""A cluster is asked by a program of its own, which takes its time to start."""
_LOOK_S = 0.1


class QueryStartError(ContinuousError):
    """The query's driver ended, or did not come, before it held its checkpoint."""

    retryable = True


class SubmittedQuery:
    """See the module.

    :param changed: is told each time when more is known about the submission.
    :ivar handle: what is known about it by now.
    :ivar own: whether who waits for it has submitted it; somebody else's is not ended for being
        late.
    """

    def __init__(
        self,
        checkpoint_location: str,
        handle: Handle,
        backend: Backend,
        changed: Callable[[Handle], None],
    ) -> None:
        self.checkpoint_location = checkpoint_location
        self.handle = self._noted = handle
        self.own = True
        self._backend = backend
        self._changed = changed

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The driver's process, or spark-submit's; of a submission by this process alone."""
        found = processes.child(self.handle)
        assert found is not None, "submitted by another process"
        return found

    @property
    def log_path(self) -> Path:
        """What the process writes."""
        return Path(self.handle.log)

    @property
    def spec_path(self) -> Path:
        """The specification, until it is read."""
        return self._file(SPEC_SUFFIX)

    @property
    def has_read_its_files(self) -> bool:
        """Whether nobody has to stay on this machine: for spark-submit until it has submitted the
        driver, to delete what the driver has read."""
        if self.handle.host != socket.gethostname():
            return True
        if self.is_on_cluster and self.handle.pid is None:  # no process of this machine submits it
            return True
        if self.is_on_cluster:  # its id may be known before any file was read
            submits = processes.status(self.handle).state
            return submits not in (DriverState.STARTING, DriverState.RUNNING)
        try:
            return not self.spec_path.exists()
        except PermissionError:
            return True

    def look(self) -> DriverStatus:
        """Look once, and note what has become known.

        :raises CheckpointError: it could not be noted; the next look does that.
        """
        found = self._backend.find(self.handle)
        status = self._backend.status(found)
        if status.state is DriverState.ENDED:
            found = replace(found, ended=True)
        self._learn(found)
        return status

    def new_lines(self, *, ended: bool) -> list[str]:
        """Return what it has written since the last call."""
        lines, position = self._backend.logs(self.handle, self.handle.log_position, ended=ended)
        self.handle = replace(self.handle, log_position=position)  # noted with the next change
        return lines

    def runs(self, status: CheckpointStatus) -> bool:
        """Tell whether the run that holds, or held, the checkpoint is the one that was submitted.

        A driver on the cluster cannot be told from one that somebody else has started since.
        """
        return is_run_of(self.handle, status)

    def started(self, status: CheckpointStatus) -> None:
        """Note the run: from now on, its lease tells everything.

        :raises CheckpointError: it could not be noted.
        """
        self._learn(replace(self.handle, run_id=status.run_id))

    def kill(self) -> bool:
        """Ask it to end; return at once, and tell whether there was somebody to ask."""
        return self._backend.kill(self.handle)

    def end(self) -> bool:
        """End it, and all that it has started; tell whether it has ended indeed."""
        patience_s = _CLUSTER_TERMINATE_S if self.is_on_cluster else _TERMINATE_S
        ended = self._backend.kill(self.handle) and self._ends_within(patience_s)
        if ended and self.is_on_cluster:
            return True
        # Also when the process has ended: what it has started may go on.
        if self._backend.kill(self.handle, hard=True) and not ended:
            return self._ends_within(patience_s)
        return ended or self.look().state is DriverState.ENDED

    def forget_secrets(self) -> None:
        """Delete the files that the query has read by now, if they are on this machine."""
        if self.handle.log and self.handle.host == socket.gethostname():
            for suffix in (SPEC_SUFFIX, PROPERTIES_SUFFIX):
                with suppress(PermissionError):  # another user has submitted it, and deletes them
                    self._file(suffix).unlink(missing_ok=True)

    def last_words(self) -> str:
        """Return the end of what its driver has written on a cluster; empty where that cannot be
        read."""
        return self._backend.last_words(self.handle)

    def start_error(
        self, reason: str, exit_code: int | None = None, words: str | None = None
    ) -> ContinuousError:
        """Return the error of a query that did not start, with the end of its log.

        :param exit_code: of its process, if it has ended; it tells whether a retry can help.
        :param words: its :meth:`last_words`, where they went with it; None: ask for them.
        """
        output, words = tail(self.log_path), self.last_words() if words is None else words
        ends = [f"The end of its log, {self.log_path}:\n{output}"] if output else []
        if words:
            ends.append(f"The end of what the driver has written on the cluster:\n{words}")
        wrong = exit_code == WRONG_USE and not self.is_on_cluster
        return (ConfigError if wrong else QueryStartError)(
            f"The query of {self.checkpoint_location} {reason} before it held its checkpoint.",
            hint="\n".join(ends) or None,
        )

    @property
    def is_on_cluster(self) -> bool:
        """Whether the driver's machine is the cluster's choice."""
        return not self.handle.is_process

    def _ends_within(self, seconds: float) -> bool:
        never, until = Event(), time.monotonic() + seconds
        while self.look().state is not DriverState.ENDED:
            if time.monotonic() >= until:
                return False
            never.wait(_LOOK_S)
        return True

    def _learn(self, handle: Handle) -> None:
        self.handle = handle
        if replace(handle, log_position=self._noted.log_position) != self._noted:
            self._changed(handle)
            self._noted = handle

    def _file(self, suffix: str) -> Path:
        return Path(self.handle.log.removesuffix(LOG_SUFFIX) + suffix)


def is_run_of(handle: Handle, status: CheckpointStatus) -> bool:
    """Tell whether a run is the one that was submitted.

    Exact once the handle knows its run. Without it, a driver on the cluster cannot be told from one
    that somebody else has started since, unless it has ended, and the run goes on.
    """
    if status.run_id is None or status.run_id == handle.previous_run_id:
        return False
    if handle.run_id:
        return bool(status.run_id == handle.run_id)
    if not handle.is_process:
        return not (handle.ended and status.state.is_active)
    if status.pid is None or status.host != handle.host or handle.pid is None:
        return False
    if handle.backend == "local":
        return bool(status.pid == handle.pid)
    if handle.host != socket.gethostname():
        return True
    try:
        return bool(os.getsid(status.pid) == handle.pid)
    except ProcessLookupError:
        return not _runs(handle.pid)


def _runs(pid: int) -> bool:
    try:
        os.getsid(pid)
    except ProcessLookupError:
        return False
    return True

"""One query's submissions: at most one is on its way.

1. Whoever wants to submit looks at the last note in the checkpoint. A submission that may still
   come to run is waited for.
2. Else the next number is taken, and only then something started.
3. What becomes known, the process, the driver's id, is noted before anything is waited for.
4. The run that holds the lease is noted. From then on the lease tells everything.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from airflow_provider_continuous.deploy.backends import backend_of, backend_that_knows
from airflow_provider_continuous.deploy.contract import (
    UNSEEN_MAX_S,
    DriverState,
    DriverStatus,
    Handle,
    label_of,
)
from airflow_provider_continuous.deploy.leftovers import tidy
from airflow_provider_continuous.deploy.notes import FOLDER, Notes
from airflow_provider_continuous.deploy.options import SIZES, SubmitOptions
from airflow_provider_continuous.deploy.settings import ConnectionSettings
from airflow_provider_continuous.deploy.standbys import (
    STANDBYS,
    all_notes,
    check_mode,
    handle_of_run,
)
from airflow_provider_continuous.deploy.submission import LOG_SUFFIX, Submission
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.errors import is_final
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.process import Process
from engine.checkpoint.storage.contract import FileInfo
from engine.errors import CheckpointError, ContinuousError

_POLL_S = 0.2


class Deployment:
    """See the module.

    :param location: of the checkpoint, as the user writes it.
    :param settings: of the connection.
    :param log_dir: where the logs of this query's processes are.
    :param log: of the task.
    :param standby: of those that stand by, which are submissions of their own.
    """

    def __init__(
        self,
        location: str,
        checkpoint: Checkpoint,
        settings: ConnectionSettings,
        log_dir: Path,
        log: Any,
        *,
        standby: bool = False,
    ) -> None:
        self._location, self._checkpoint = str(location), checkpoint
        self._settings, self._log_dir, self._log = settings, log_dir, log
        self._stands_by = standby
        self._notes = Notes(checkpoint.storage, STANDBYS if standby else FOLDER)

    def submit(
        self, made: Callable[[], Submission], by: str, document: Mapping[str, str]
    ) -> SubmittedQuery:
        """Start a driver, or return the submission that is on its way; see the hook.

        :param made: makes what is to be started, with its secrets.
        :param document: what that is, without them.
        """
        while True:
            number = self._notes.next_number()
            known = self.find(or_running=True)
            if known is not None:
                known.own = known.handle.by == by
                self._log.info("Waiting for what %s has submitted", known.handle.by or "somebody")
                return known
            backend, place = backend_of(self._settings)
            if self._stands_by:
                check_mode(backend.name)
            backend.check()
            if backend.name == "local":
                self._tell_what_is_not_looked_at()
            submission = made()
            handle = Handle(
                backend.name,
                label_of(f"{self._checkpoint.url}{'#standby' if self._stands_by else ''}"),
                number,
                by,
                submission.started_at.timestamp(),
                str(submission.path(LOG_SUFFIX)),
                previous_run_id=submission.previous_run_id,
                host=socket.gethostname(),
                submitter=(os.getpid(), Process.current().started),
                cluster=place,
                document=document,
                stands_by=self._stands_by,
            )
            if self._notes.take(handle):
                break
        try:
            handle = backend.submit(submission, handle)
        except Exception:  # but if it was interrupted, there may be a driver: the next look tells
            self._notes.write(replace(handle, ended=True))
            raise
        self._notes.write(handle)
        what = "a standby" if self._stands_by else "the query"
        where = handle.driver_id or f"process {handle.pid}, log {handle.log}"
        self._log.info("Started %s of %s: %s", what, self._location, where)
        self._tidy()
        return SubmittedQuery(self._location, handle, backend, self._notes.write)

    def _tell_what_is_not_looked_at(self) -> None:
        """A DAG may be for a cluster, and run on somebody's machine: that is no error."""
        given = SubmitOptions.read(self._settings.spark_submit).given
        if given:
            self._log.log(
                logging.INFO if set(given) <= set(SIZES) else logging.WARNING,
                "A local process is not submitted: of spark_submit %s not looked at, only conf is",
                ", ".join(given) + (" is" if len(given) == 1 else " are"),
            )

    def _tidy(self) -> None:
        try:
            files, size = tidy(self._log_dir, self._checkpoint.url, self._checkpoint.storage)
        except (OSError, CheckpointError) as error:
            self._log.warning("Old logs stay in %s: %s", self._log_dir, error)
        else:
            if files:
                self._log.info("Removed %d old files, %d bytes, of %s", files, size, self._log_dir)

    def find(self, *, or_running: bool = False) -> SubmittedQuery | None:
        """Return the last submission if it may still come to run.

        :param or_running: or if it runs: whoever submits has seen no run, so it has begun just now.
        :raises QueryStartError: one of the last minutes has a note that cannot be read.
        """
        note = self._notes.last_file()
        if note is None:
            return None
        handle = self._notes.read(int(note.name))
        if handle is None:
            self._refuse_beside(note)
            return None
        if handle.ended or handle.run_id:
            return None
        found = self._noted(replace(handle, noted_at=note.modified_s))
        driver = found.look()
        if driver.state is DriverState.STARTING:
            return found
        if driver.state is DriverState.ENDED:
            return None
        status = self._checkpoint.status()
        if found.runs(status):
            if self._stands_by:
                found.started(status)  # it has taken over, and nobody was there to note it
            elif or_running and status.state.is_active:
                return found
            return None
        is_unseen = driver.state is DriverState.UNKNOWN and found.handle.driver_id is None
        if is_unseen and not found.handle.may_be_unseen:
            self._log.warning("Given up after %d s: %s", found.handle.age_s, driver.detail)
            return None
        return found

    def _refuse_beside(self, note: FileInfo) -> None:
        """:raises QueryStartError: the note, which cannot be read, is of the last minutes."""
        path = f"{self._checkpoint.url}/{self._notes.folder}/{note.name}"
        age_s = time.time() - note.modified_s
        if note.modified_s and age_s > UNSEEN_MAX_S:
            self._log.warning("Given up after %d s: %s cannot be read", age_s, path)
            return
        raise QueryStartError(
            f"{path} notes a submission of the query of {self._location}, and cannot be read: its "
            "driver may still come to run.",
            hint=f"{UNSEEN_MAX_S:g} s after the file was written a retry submits the query anew. "
            "Delete the file if that driver has surely ended.",
        )

    def of_run(self, status: CheckpointStatus) -> Handle | None:
        """Return the submission of the run that holds, or held, the checkpoint; None: it was
        started by other means, or long ago."""
        handle = handle_of_run(self._checkpoint.storage, status)
        if handle is not None and (handle.run_id or handle.is_process):
            return handle
        last = handle or self._notes.last()
        if last is None or last.ended or last.run_id:
            return None
        # Whoever has submitted it may have died before it knew more, its end for example.
        found = self._noted(last)
        found.look()
        return found.handle if found.runs(status) else None

    def submission(self, number: int) -> SubmittedQuery | None:
        """Return a submission, whatever has become of it; None if it is not noted any more."""
        handle = self._notes.read(number)
        return None if handle is None else self._noted(handle)

    def _noted(self, handle: Handle) -> SubmittedQuery:
        noted_log = handle.log
        handle = replace(handle, log=self._own_log(handle))
        return SubmittedQuery(
            self._location,
            handle,
            backend_that_knows(handle, self._settings),
            lambda known: self._notes.write(replace(known, log=noted_log)),
        )

    def log_of_run(self, run_id: str) -> Path | None:
        """Return the log of a run that was submitted, if it is on this machine and can be read."""
        noted = all_notes(self._checkpoint.storage)
        handle = next((each for each in noted if each.run_id == run_id), None)
        log = "" if handle is None else self._own_log(handle)
        try:
            with Path(log).open("rb"):
                return Path(log)
        except OSError:  # it is none, elsewhere, or another user's
            return None

    def _own_log(self, handle: Handle) -> str:
        """A note could name any file."""
        return handle.log if Path(handle.log).parent == self._log_dir else ""

    def wait_until_started(
        self, submitted: SubmittedQuery, timeout_s: float, linger_s: float = math.inf
    ) -> CheckpointStatus | None:
        """Wait until the submission's run holds the lease; see the hook."""
        now = time.monotonic()
        deadline, leaves_at = now + timeout_s, now + linger_s
        never, told, is_interrupted = Event(), "", False
        try:
            while True:
                try:
                    driver = submitted.look()
                except CheckpointError as error:  # its note, which the next look writes
                    _bear(error, deadline)
                    never.wait(_POLL_S)
                    continue
                ended = driver.state is DriverState.ENDED
                for line in submitted.new_lines(ended=ended):
                    self._log.info("%s", line)
                if driver.detail != told:
                    told = driver.detail
                    self._log.info("The driver: %s, %s", driver.state.value, told)
                try:
                    status = self._checkpoint.status()
                    if submitted.runs(status):
                        submitted.started(status)
                        return status
                except CheckpointError as error:
                    _bear(error, deadline)
                if ended:
                    how = "ended with" if driver.exit_code is not None else "has ended:"
                    raise submitted.start_error(f"{how} {driver.detail}", driver.exit_code)
                if time.monotonic() >= deadline:
                    raise _taken_back(submitted, driver, timeout_s)
                if time.monotonic() >= leaves_at and submitted.has_read_its_files:
                    return None
                never.wait(_POLL_S)
        except BaseException as error:
            is_interrupted = not isinstance(error, ContinuousError)
            raise
        finally:
            # After an execution_timeout the driver may go on, and has to read them yet.
            if not is_interrupted or submitted.has_read_its_files:
                submitted.forget_secrets()


def _bear(error: CheckpointError, deadline: float) -> None:
    """The storage may answer at the next look, if there is one."""
    if is_final(error) or time.monotonic() >= deadline:
        raise error


def _taken_back(
    submitted: SubmittedQuery, driver: DriverStatus, timeout_s: float
) -> ContinuousError:
    hung = f"hung for {timeout_s:g} s ({driver.detail})"
    if not submitted.own:
        return submitted.start_error(f"{hung}, and is left to {submitted.handle.by},")
    words = submitted.last_words()  # a pod is deleted with its log
    if submitted.end():
        return submitted.start_error(hung, words=words)
    return submitted.start_error(
        f"{hung}, and could not be ended: a retry waits for it,", words=words
    )

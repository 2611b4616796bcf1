"""A query that is being started: its process, and the files beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from airflow_provider_continuous import configuration
from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.deploy.driver_log import DriverLog, tail
from airflow_provider_continuous.deploy.launch import query_environment
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.commands.result import WRONG_USE
from engine.errors import ConfigError, ContinuousError

ENGINE = (sys.executable, "-m", "engine")
"""The engine's command line."""
Driver = Literal["process", "child", "elsewhere"]
"""Where the query's driver is: it is the process that was started, or a child of it (spark-submit's
client mode), or on the cluster."""
SPEC_SUFFIX = ".spec.json"
_TERMINATE_S = 10.0


class QueryStartError(ContinuousError):
    """The query's process ended, or hung, before it held its checkpoint."""

    retryable = True


@dataclass(frozen=True)
class Submission:
    """What is to be started, and where its files go.

    :param document: a valid specification with its checkpoint_location.
    :param log_dir: created if missing.
    :param previous_run_id: the run that held the checkpoint before, if there was one.
    :param variables: environment variables of the query, besides those of the task.
    :param python: the interpreter of the driver; None: the one that runs this.
    """

    document: Mapping[str, Any]
    log_dir: Path
    previous_run_id: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    python: str | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @property
    def name(self) -> str:
        """The query's name, as far as it can be part of a file's name."""
        return re.sub(r"[^\w.-]+", "-", str(self.document.get("name") or "query"))

    def path(self, suffix: str) -> Path:
        """Return the path of one of this submission's files."""
        return self.log_dir / f"{self.name}-{self.started_at:%Y%m%dT%H%M%S.%fZ}{suffix}"

    def write(self, suffix: str, text: str) -> Path:
        """Write one of its files. It may hold secrets: only its owner can read it."""
        self.log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.path(suffix)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def write_specification(self, document: Mapping[str, Any] | None = None) -> Path:
        """Write the specification, or what has become of it."""
        return self.write(SPEC_SUFFIX, json.dumps(document or self.document))

    def environment(self) -> dict[str, str]:
        """Return the whole environment of a process on this machine."""
        own = query_environment(other_python=self.python is not None)
        return {**own, **self.variables}

    def engine(self) -> tuple[str, ...]:
        """Return the engine's command line on this machine."""
        return ENGINE if self.python is None else (self.python, "-m", "engine")


@dataclass(frozen=True)
class SubmittedQuery:
    """A query's process, just started.

    :param process: the driver, or spark-submit.
    :param spec_path: deleted once the query has started.
    :param previous_run_id: the run that held the checkpoint before, if there was one.
    :param driver: what the process is to the query.
    :param private_files: deleted together with the specification.
    """

    checkpoint_location: str
    process: subprocess.Popen[bytes]
    log_path: Path
    spec_path: Path
    previous_run_id: str | None
    driver: Driver = "process"
    private_files: tuple[Path, ...] = ()

    def runs(self, status: CheckpointStatus) -> bool:
        """Tell whether the run that holds, or held, the checkpoint is the one that was submitted.

        A driver on the cluster cannot be told from one that somebody else has started since.
        """
        return is_run_of(self.record(), status)

    def record(self) -> dict[str, Any]:
        """Return what a later attempt of the task needs, in JSON; see :func:`is_run_of`."""
        return {
            "host": socket.gethostname(),
            "pid": self.process.pid,
            "log": str(self.log_path),
            "driver": self.driver,
            "log_position": self.driver_log.position,
            "previous_run_id": self.previous_run_id,
        }

    @cached_property
    def driver_log(self) -> DriverLog:
        """What its process writes, followed from the beginning."""
        return DriverLog(self.log_path)

    def signal(self, number: int) -> None:
        """Send a signal to the driver, and to spark-submit before it if there is one."""
        if self.driver == "process":
            self.process.send_signal(number)
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> None:
        """End a process that hangs, and what it has started in its session."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_TERMINATE_S)

    def forget_secrets(self) -> None:
        """Delete the files that the query has read by now."""
        for path in (self.spec_path, *self.private_files):
            path.unlink(missing_ok=True)

    def start_error(self, reason: str, exit_code: int | None = None) -> ContinuousError:
        """Return the error of a query that did not start, with the end of its log.

        :param exit_code: the engine's, if it has ended; it tells whether a retry can help.
        """
        output = tail(self.log_path)
        wrong = exit_code == WRONG_USE and self.driver != "elsewhere"
        return (ConfigError if wrong else QueryStartError)(
            f"The query of {self.checkpoint_location} {reason} before it held its checkpoint.",
            hint=f"The end of its log, {self.log_path}:\n{output}" if output else None,
        )


def is_run_of(record: Mapping[str, Any], status: CheckpointStatus) -> bool:
    """Tell whether a run is the one that was submitted.

    :param record: :meth:`SubmittedQuery.record`; with the key ``run_id``, once the run is known,
        the answer is exact. Without it, a driver on the cluster cannot be told from one that
        somebody else has started since.
    """
    if status.run_id is None or status.run_id == record.get("previous_run_id"):
        return False
    if record.get("run_id"):
        return bool(status.run_id == record["run_id"])
    driver = record.get("driver", "process")
    if driver == "elsewhere":
        return True
    if status.pid is None or status.host != record["host"]:
        return False
    if driver == "process":
        return bool(status.pid == record["pid"])
    if record["host"] != socket.gethostname():
        return True
    try:
        return bool(os.getsid(status.pid) == record["pid"])
    except ProcessLookupError:
        return not _runs(record["pid"])


def _runs(pid: int) -> bool:
    try:
        os.getsid(pid)
    except ProcessLookupError:
        return False
    return True


def default_log_dir(checkpoint_url: str) -> Path:
    """Return the folder for a query's logs: the configured one, else beside a local checkpoint,
    else Airflow's own."""
    configured = configuration.log_dir()
    if configured:
        return Path(configured)
    parts = urlsplit(checkpoint_url)
    if parts.scheme in ("", "file"):
        return Path(parts.path.rstrip("/") + ".logs")
    return Path(conf.get("logging", "base_log_folder")) / "continuous"

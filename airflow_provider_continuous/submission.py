"""A query's process and the files beside it: its specification, its log."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.launch import launch_detached, tail
from engine.commands.result import WRONG_USE
from engine.errors import ConfigError, ContinuousError

ENGINE = (sys.executable, "-m", "engine")
"""The engine's command line."""


class QueryStartError(ContinuousError):
    """The query's process ended, or hung, before it held its checkpoint."""

    retryable = True


@dataclass(frozen=True)
class SubmittedQuery:
    """A query's process, just started.

    :param previous_run_id: the run that held the checkpoint before, if there was one.
    """

    checkpoint_location: str
    process: subprocess.Popen[bytes]
    log_path: Path
    spec_path: Path
    previous_run_id: str | None

    def start_error(self, reason: str, exit_code: int | None = None) -> ContinuousError:
        """Return the error of a query that did not start, with the end of its log.

        :param exit_code: the engine's, if it has ended; it tells whether a retry can help.
        """
        output = tail(self.log_path)
        kind = ConfigError if exit_code == WRONG_USE else QueryStartError
        return kind(
            f"The query of {self.checkpoint_location} {reason} before it held its checkpoint.",
            hint=f"The end of its log, {self.log_path}:\n{output}" if output else None,
        )


def start_process(
    document: Mapping[str, Any],
    log_dir: Path,
    previous_run_id: str | None,
) -> SubmittedQuery:
    """Start ``python -m engine run`` on a specification, detached from the task.

    The specification may hold secrets: it lies in a file that only its owner can read, until the
    query has read it.

    :param document: a valid specification with its checkpoint_location.
    :param log_dir: created if missing.
    """
    log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = re.sub(r"[^\w.-]+", "-", str(document.get("name") or "query"))
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
    spec_path = log_dir / f"{name}-{now}.spec.json"
    log_path = log_dir / f"{name}-{now}.log"
    descriptor = os.open(spec_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file)
    process = launch_detached([*ENGINE, "run", str(spec_path)], log_path)
    return SubmittedQuery(
        document["checkpoint_location"], process, log_path, spec_path, previous_run_id
    )


def default_log_dir(checkpoint_url: str) -> Path:
    """Return the folder for a query's logs: beside a local checkpoint, else Airflow's own."""
    parts = urlsplit(checkpoint_url)
    if parts.scheme in ("", "file"):
        return Path(parts.path.rstrip("/") + ".logs")
    return Path(conf.get("logging", "base_log_folder")) / "continuous"

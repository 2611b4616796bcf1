"""A query that is to be started, and the files that go with it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_continuous import configuration
from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.connections.location import DEFAULT
from airflow_provider_continuous.deploy.half_written import whole
from airflow_provider_continuous.deploy.launch import query_environment
from airflow_provider_continuous.deploy.settings import ConnectionSettings, settings_of
from engine.checkpoint.find import LOGS_SUFFIX
from engine.errors import ConfigError

ENGINE = (sys.executable, "-m", "engine")
"""The engine's command line."""
SPEC_SUFFIX = ".spec.json"
LOG_SUFFIX = ".log"
PROPERTIES_SUFFIX = ".properties"
_NAME_MAX = 50


@dataclass(frozen=True)
class Submission:
    """What is to be started, and where its files go.

    :param document: a valid specification with its checkpoint_location.
    :param log_dir: created if missing.
    :param previous_run_id: the run that held the checkpoint before, if there was one.
    :param variables: environment variables of the query, besides those of the task.
    :param tag: what tells its files from those of other checkpoints, see :mod:`.leftovers`.
    :param stands_by: it only waits for the lease of the run that there is.
    :param python: the interpreter of the driver; None: the one that runs this.
    """

    document: Mapping[str, Any]
    log_dir: Path
    previous_run_id: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    python: str | None = None
    stands_by: bool = False
    tag: str = ""
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @property
    def name(self) -> str:
        """The query's name, as far as it can be part of a file's name: 255 bytes, of letters that
        Java knows without a locale, and no option of a command line."""
        name = re.sub(r"[^\w.-]+", "-", str(self.document.get("name") or ""), flags=re.ASCII)
        return name[:_NAME_MAX].strip("-") or "query"

    @property
    def run_options(self) -> tuple[str, ...]:
        """Options of ``continuous run``: how it runs, and that its specification is deleted."""
        return ("--forget", "--only-standby") if self.stands_by else ("--forget",)

    def path(self, suffix: str) -> Path:
        """Return the path of one of this submission's files."""
        name = "-".join(filter(None, (self.name, self.tag)))
        return self.log_dir / f"{name}-{self.started_at:%Y%m%dT%H%M%S.%fZ}{suffix}"

    def write(self, suffix: str, text: str) -> Path:
        """Write one of its files. It may hold secrets: only its owner can read it.

        :raises ConfigError: this user may not write there.
        """
        path = self.path(suffix)
        try:
            self.log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except PermissionError as error:
            raise ConfigError(
                f"{self.log_dir} belongs to another user: the files of this query cannot be "
                f"written there: {error}.",
                hint="Give the connection a log-dir of this user's own, or have one user run the "
                "query.",
            ) from error
        with whole(path), os.fdopen(descriptor, "w", encoding="utf-8") as file:
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


def log_dir_of(settings: ConnectionSettings, checkpoint_url: str) -> Path:
    """Return the folder for a query's logs: the connection's, else the default one."""
    return Path(settings.log_dir) if settings.log_dir else default_log_dir(checkpoint_url)


def default_log_dir(checkpoint_url: str) -> Path:
    """Return the folder for a query's logs where no connection names one: the configured one, else
    beside a local checkpoint, else Airflow's own."""
    configured = configuration.log_dir()
    if configured:
        return Path(configured)
    parts = urlsplit(checkpoint_url)
    if parts.scheme in ("", "file"):
        return Path(parts.path.rstrip("/") + LOGS_SUFFIX)
    return Path(conf.get("logging", "base_log_folder")) / "continuous"


def log_folders(checkpoint_url: str) -> Iterator[Path]:
    """Yield the folders for a query's logs that can be told by its checkpoint alone: the default
    one, and that of the connection ``continuous_default``."""
    yield default_log_dir(checkpoint_url)
    try:
        own = settings_of(DEFAULT).log_dir
    except Exception:  # the list of queries tells what is wrong with the connection
        return
    if own:
        yield Path(own)

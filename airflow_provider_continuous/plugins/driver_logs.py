"""The end of a query's driver's log, where the api-server can read it.

The note of a submission, which says where the log is, can be written by whoever may write the
checkpoint: so only a file below a folder is shown that logs of this checkpoint go to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_continuous.deploy.driver_log import tail
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.standbys import handle_of_run
from airflow_provider_continuous.deploy.submission import LOG_SUFFIX, log_folders
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ContinuousError

LINES_SHOWN = 60


def log_tail(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Return ``{path, host, text, backend}``; the text is empty if the log is not to be read from
    here. None: nobody has noted a submission."""
    try:
        last = Notes(checkpoint.storage).last()
        found = handle_of_run(checkpoint.storage, checkpoint.status())
        handle = found if found is not None and found.stands_by else last
    except ContinuousError:
        return None
    if handle is None:
        return None
    path = Path(handle.log)
    shown = bool(handle.log) and _is_a_log(path, checkpoint.url)
    return {
        "path": handle.log,
        "host": handle.host,
        "backend": handle.backend,
        "text": tail(path, LINES_SHOWN) if shown else "",
    }


def _is_a_log(path: Path, checkpoint_url: str) -> bool:
    real = path.resolve()
    if real.suffix != LOG_SUFFIX:
        return False
    return any(real.is_relative_to(folder.resolve()) for folder in log_folders(checkpoint_url))

"""The end of a query's driver's log, where the api-server can read it.

The note of a submission, which says where the log is, can be written by whoever may write the
checkpoint: so only a file below a folder is shown that logs of this checkpoint go to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_continuous.deploy.driver_log import tail
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.standbys import standby_that_runs
from airflow_provider_continuous.deploy.submission import LOG_SUFFIX, log_folders
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.errors import ContinuousError

LINES_SHOWN = 60


def log_tail(
    checkpoint: Checkpoint, status: CheckpointStatus | None = None
) -> dict[str, Any] | None:
    """Return ``{path, host, text, backend}``; the text is empty if the log is not to be read from
    here. None: nobody has noted a submission.

    :param status: of a look of just now, if there was one.
    """
    try:
        last = Notes(checkpoint.storage).last()
        if last is None:
            return None
        # A standby that has taken over tells its run from then on.
        standby = standby_that_runs(checkpoint.storage, status or checkpoint.status())
        handle = standby or last
    except ContinuousError:
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

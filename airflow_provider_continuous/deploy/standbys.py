"""The standby of a query: a second driver, ready to run, that waits for the lease.

It is a submission of its own, noted in ``control/standbys`` as those of drivers are in
``control/submissions`` (:mod:`~airflow_provider_continuous.deploy.notes`): so it is found again
when the worker that started it has died, and never doubled. Whether it waits already is told by
itself (:mod:`engine.checkpoint.standing_by`). When the run that it waits for dies it becomes the
query's driver, by the lease alone; then its note tells what runs.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_continuous.deploy.contract import PROCESSES, Handle
from airflow_provider_continuous.deploy.notes import FOLDER, Notes
from airflow_provider_continuous.deploy.submitted import is_run_of
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.standing_by import standing_by
from engine.checkpoint.storage.contract import Storage
from engine.errors import ConfigError

STANDBYS: Final = "control/standbys"


def check_mode(backend: str) -> None:
    """Refuse a way to run drivers that cannot have a standby: only on one machine a second one can
    wait.

    :raises ConfigError: it is one.
    """
    if backend not in PROCESSES:
        raise ConfigError(
            f"standby=True, and the connection submits drivers to the cluster ({backend}).",
            hint="A standby is a process of the worker's machine: use the deploy mode local, or "
            "spark-submit in client mode; or leave standby out, and let restarts do.",
        )


def is_followed(storage: Storage) -> bool:
    """Tell whether a standby may take over from a run that is lost: one that waits, or is on its
    way, as far as anybody has noted. It does not if that run is asked to end.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    last = Notes(storage, STANDBYS).last()
    is_on_its_way = last is not None and not (last.ended or last.run_id)
    return is_on_its_way or bool(standing_by(storage))


def all_notes(storage: Storage) -> list[Handle]:
    """Return what is noted, of drivers and then of standbys, the last ones first.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    return [*Notes(storage, FOLDER).all(), *Notes(storage, STANDBYS).all()]


def handle_of_run(storage: Storage, status: CheckpointStatus) -> Handle | None:
    """Return the submission of the run that holds, or held, the checkpoint, as a driver or as a
    standby that has taken over; None: it was started by other means, or long ago.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    return _of_run(all_notes(storage), status)


def _of_run(noted: list[Handle], status: CheckpointStatus) -> Handle | None:
    surely = (each for each in noted if each.run_id and each.run_id == status.run_id)
    open_ones = (each for each in noted if not each.run_id and not each.ended)
    return next(surely, next((each for each in open_ones if is_run_of(each, status)), None))


def standby_that_runs(storage: Storage, status: CheckpointStatus) -> Handle | None:
    """Return the standby that has become the run which holds the checkpoint, if it was one.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    return _of_run(Notes(storage, STANDBYS).all(), status)

"""Which DAG runs use a query, noted in its checkpoint::

    control/users/<digest>    {"dag_id":"orders","run_id":"scheduled__2026-...","by":"start"}

A DAG run enters before it starts or adopts the query, and leaves when it would end it: who leaves
while others are still there leaves the query to them. It also leaves when the task by which it came
in is refused, or has failed for good: it never had the query; and when a task that has started the
query, or stays with it, has seen its end and does not start it again. A DAG run that is over, as
Airflow says, or that is not there any more, uses nothing, whether it has left or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from engine.base.json_text import dump, load_object
from engine.checkpoint.storage.contract import Storage

FOLDER = "control/users"
_ON = ("queued", "running")


class Users:
    """See the module.

    :param dag_id: with ``run_id`` the DAG run that enters and leaves.
    """

    def __init__(self, storage: Storage, dag_id: str, run_id: str) -> None:
        self._storage = storage
        self._dag_run = (dag_id, run_id)

    def enter(self, by: str = "") -> None:
        """Note this DAG run.

        :param by: the task of it that comes in; only the first one is noted.
        :raises CheckpointError: the checkpoint cannot be written.
        """
        dag_id, run_id = self._dag_run
        text = dump({"dag_id": dag_id, "run_id": run_id, "by": by})
        self._storage.create(self._name(self._dag_run), text.encode())

    def came_in(self, by: str) -> bool:
        """Tell whether this DAG run is noted because of a task."""
        try:
            noted = load_object(self._storage.read(self._name(self._dag_run)))
        except (FileNotFoundError, ValueError):
            return False
        return noted.get("by") == by

    def leave(self) -> bool:
        """Forget this DAG run; tell whether it was noted."""
        name = self._name(self._dag_run)
        noted = self._storage.exists(name)
        if noted:
            self._storage.delete(name)
        return noted

    def leave_to_others(self) -> tuple[bool, Sequence[str]]:
        """Leave; return whether this DAG run was noted, and the :meth:`others`.

        Where these cannot be told it has not left: who asks again would have no part in the query.
        """
        # Not the other way round: of two who leave at once each would leave it to the other.
        own = self.leave()
        try:
            return own, self.others()
        except BaseException:
            if own:
                self.enter()
            raise

    def others(self) -> Sequence[str]:
        """Return the other DAG runs that use the query, for people.

        Those that are over are forgotten.
        """
        found = []
        for file in self._storage.list(FOLDER):
            name = f"{FOLDER}/{file.name}"
            try:
                noted = load_object(self._storage.read(name))
                dag_run = str(noted["dag_id"]), str(noted["run_id"])
            except (FileNotFoundError, ValueError, LookupError):
                continue  # it has just left
            if dag_run == self._dag_run:
                continue
            if is_on(*dag_run):
                found.append(f"{dag_run[0]}, {dag_run[1]}")
            else:
                self._storage.delete(name)
        return sorted(found)

    def _name(self, dag_run: tuple[str, str]) -> str:
        digest = hashlib.sha256("\n".join(dag_run).encode()).hexdigest()
        return f"{FOLDER}/{digest[:20]}"


def is_on(dag_id: str, run_id: str) -> bool:
    """Ask Airflow whether a DAG run goes on. Blocks; of a triggerer, call it in a thread."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    count = RuntimeTaskInstance.get_dr_count(dag_id=dag_id, run_ids=[run_id], states=list(_ON))
    return bool(count)

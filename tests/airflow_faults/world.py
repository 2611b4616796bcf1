"""A real Airflow for the scenarios, and who belongs to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from scripts.local_airflow.processes import AirflowProcesses
from scripts.local_airflow.rest import AirflowClient, wait_for
from tests.airflow_faults.query import WAIT_S

_HERE = Path(__file__).parent
_MARK = "AIRFLOW_FAULTS_FOLDER"
HEARTBEAT_S = 10
"""A triggerer that is silent for so long loses its triggers to another one (Airflow: 30)."""
_SETTINGS = {
    # Nobody changes them; one that took too long would not be read again in time.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": str(HEARTBEAT_S),
    # How soon the tasks of a lost scheduler, and of a lost worker, are seen to be lost.
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
}
_UNFINISHED = ("scheduled", "queued", "running", "restarting", "deferred")


class World:
    """One Airflow, shared by the scenarios.

    :param folder: for everything that is written.
    :param sensors: how many tasks of the DAG ``many_wait`` wait at once.
    :param database: settings of another database than SQLite.
    """

    def __init__(self, folder: Path, sensors: int, database: dict[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self.sensors = sensors
        self.database = "PostgreSQL" if database else "SQLite"
        environment = {
            **_SETTINGS,
            **(database or {}),
            _MARK: str(self.folder),
            "AIRFLOW_FAULTS_ENGINE": str(_HERE.parent / "airflow" / "stand_in.py"),
            "AIRFLOW_FAULTS_SENSORS": str(sensors),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONWARNINGS": "ignore",
        }
        self.processes = AirflowProcesses(
            self.folder / "airflow", _HERE / "dags", environment=environment
        )
        self.airflow: AirflowClient

    @contextmanager
    def up(self) -> Iterator[World]:
        """Airflow runs until the end of the block, and nothing of it, nor a query, afterwards."""
        try:
            with self.processes as self.airflow:
                yield self
        finally:
            for process in self._marked():
                with suppress(psutil.NoSuchProcess):  # it may end at any moment
                    process.kill()

    def run(self, dag_id: str, params: dict[str, str]) -> Run:
        """Start a DAG run."""
        wait_for(lambda: self.airflow.dag_known(dag_id), WAIT_S, f"the DAG {dag_id}")
        return Run(self.airflow, dag_id, self.airflow.trigger(dag_id, params))

    def log(self, name: str) -> Path:
        """The log of one of Airflow's processes."""
        return self.processes.logs / f"{name}.log"

    def strangers(self, queries: set[int]) -> list[psutil.Process]:
        """Return what neither Airflow's processes nor these queries answer for.

        :param queries: process ids; each leads a session of its own.
        """
        own = {
            process.pid
            for name in self.processes.names()
            for process in self.processes.family(name)
        }
        return [p for p in self._marked() if p.pid not in own and _session(p) not in queries]

    def _marked(self) -> list[psutil.Process]:
        """All processes that have inherited our mark, a JVM for example, except zombies."""
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(_MARK) == str(self.folder)
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


class Run:
    """One DAG run, followed through the REST API."""

    def __init__(self, airflow: AirflowClient, dag_id: str, run_id: str) -> None:
        self.airflow = airflow
        self.dag_id = dag_id
        self.run_id = run_id

    def states(self, task_id: str) -> list[str | None]:
        """The states of a task, of all its mapped instances."""
        return [task["state"] for task in self._instances(task_id)]

    def attempts(self, task_id: str) -> int:
        """How often it was tried, the most of its mapped instances."""
        return max((int(task["try_number"]) for task in self._instances(task_id)), default=0)

    def wait(self, task_id: str, state: str, count: int = 1) -> None:
        """Wait until all instances of a task are in a state."""
        what = f"{count} x {self.dag_id}.{task_id} to be {state}"
        wait_for(lambda: self.states(task_id) == [state] * count, WAIT_S, what)

    def triggerer(self, task_id: str) -> str | None:
        """The triggerer that holds the one deferred instance of a task, None while none does."""
        (task,) = self._instances(task_id)
        job = task["triggerer_job"]
        return str(job["id"]) if job else None

    def end(self) -> None:
        """End it, if it has not ended: nobody restarts the query any more."""
        if self.airflow.run_state(self.dag_id, self.run_id) not in ("success", "failed"):
            self.airflow.fail_run(self.dag_id, self.run_id)
            wait_for(self._has_ended, WAIT_S, f"the tasks of {self.dag_id} to end")

    def mark(self, task_id: str, state: str) -> None:
        """Mark it as success or failed."""
        self.airflow.set_task_state(self.dag_id, self.run_id, task_id, state)

    def clear(self, task_id: str) -> None:
        """Clear it."""
        self.airflow.clear(self.dag_id, self.run_id, task_id)

    def _has_ended(self) -> bool:
        tasks = self.airflow.tasks(self.dag_id, self.run_id)
        return not any(task["state"] in _UNFINISHED for task in tasks)

    def _instances(self, task_id: str) -> list[dict[str, Any]]:
        tasks = self.airflow.tasks(self.dag_id, self.run_id)
        return [task for task in tasks if task["task_id"] == task_id]


def _session(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return -1

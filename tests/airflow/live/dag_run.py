"""A run of a DAG in a real Airflow, followed by a test."""

from __future__ import annotations

from typing import Any

from scripts.local_airflow.rest import AirflowClient, wait_for

RUN_S = 600.0


class DagRun:
    """One run of a DAG, followed through the REST API.

    :param scheduled: the run that the DAG's schedule begins once it is unpaused; otherwise one is
        triggered.
    """

    def __init__(
        self, airflow: AirflowClient, dag_id: str, scheduled: bool = False, **params: Any
    ) -> None:
        wait_for(lambda: airflow.dag_known(dag_id), RUN_S, f"the DAG {dag_id}")
        self.airflow = airflow
        self.dag_id = dag_id
        if scheduled:
            airflow.pause(dag_id, paused=False)
            running = wait_for(lambda: airflow.runs(dag_id, "running"), RUN_S, f"a run of {dag_id}")
            (self.run_id,) = running
        else:
            self.run_id = airflow.trigger(dag_id, params)

    @classmethod
    def of(cls, airflow: AirflowClient, dag_id: str, run_id: str) -> DagRun:
        """One that there is."""
        run = cls.__new__(cls)
        run.airflow, run.dag_id, run.run_id = airflow, dag_id, run_id
        return run

    def wait_for_trigger(self, task_id: str) -> None:
        """Wait until the triggerer runs the task's trigger: an attempt may have had others."""

        def is_running() -> bool:
            task = self.task(task_id)
            log = self.airflow.log(self.dag_id, self.run_id, task_id, task["try_number"])
            return bool(task["trigger"]) and f"(ID {task['trigger']['id']}) starting" in log

        wait_for(is_running, RUN_S, f"the trigger of {task_id}")

    def wait_for_task(self, task_id: str, state: str) -> None:
        wait_for(lambda: self.task(task_id)["state"] == state, RUN_S, f"{task_id} to be {state}")

    def task(self, task_id: str) -> dict[str, Any]:
        tasks = self.airflow.tasks(self.dag_id, self.run_id)
        return next((task for task in tasks if task["task_id"] == task_id), {"state": None})

    def succeeds(self) -> DagRun:
        state = self.airflow.wait_for_run(self.dag_id, self.run_id, RUN_S)
        assert state == "success", self.airflow.failures(self.dag_id, self.run_id)
        return self

    def fails(self) -> str:
        """The logs of what failed."""
        state = self.airflow.wait_for_run(self.dag_id, self.run_id, RUN_S)
        assert state == "failed", (state, self.logs())
        return self.airflow.failures(self.dag_id, self.run_id)

    def logs(self) -> dict[str, str]:
        """Every task's state and the log of its newest attempt."""
        return {
            f"{task['task_id']} is {task['state']}": self.airflow.log(
                self.dag_id, self.run_id, task["task_id"], max(1, task["try_number"])
            )
            for task in self.airflow.tasks(self.dag_id, self.run_id)
        }

    def result(self, task_id: str) -> Any:
        return self.airflow.xcom(self.dag_id, self.run_id, task_id)

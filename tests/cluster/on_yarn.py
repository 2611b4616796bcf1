"""A query on YARN with its checkpoint on HDFS, as the guide in docs/airflow/deploy-modes.md has
it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyspark
import pytest

from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.rest import wait_for
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState
from tests.servers.hadoop import Hadoop
from tests.sink_files import committed

WAIT_S = 300.0


class OnYarn:
    """One query: what its document says, and its hook.

    :param mode: ``client`` or ``cluster``.
    :ivar location: of its checkpoint.
    """

    def __init__(
        self, hadoop: Hadoop, python: Path, folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.hadoop, self.out = hadoop, folder / "out"
        self.location = f"{hadoop.hdfs}/checkpoints/{folder.name}"
        for name, value in hadoop.environment.items():
            monkeypatch.setenv(name, value)
        connections: dict[str, Any] = {
            "continuous_default": {
                "conn_type": "continuous",
                "extra": {
                    "deploy-mode": "spark-submit",
                    "spark-conn-id": "yarn",
                    "log-dir": str(folder / "logs"),
                    "environment": {"SPARK_LOCAL_IP": "127.0.0.1"},
                    "conf": {
                        "spark.pyspark.python": str(python),
                        "spark.pyspark.driver.python": str(python),
                    },
                    "spark_submit": {
                        "driver_memory": "512m",
                        "executor_memory": "512m",
                        "executor_cores": 2,
                        "num_executors": 1,
                        "conf": _OF_THIS_MACHINE,
                    },
                },
            },
            "yarn": {
                "conn_type": "spark",
                "host": "yarn",
                "extra": {
                    "deploy-mode": mode,
                    "yarn_resourcemanager_webapp_address": hadoop.web,
                },
            },
        }
        for name, content in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(content))
        self.hook = ContinuousQueryHook()
        self.document: dict[str, Any] = {
            "name": f"numbers on YARN, {mode}",
            "source": {"format": "rate", "options": {"rowsPerSecond": 20, "numPartitions": 1}},
            "sql": "SELECT value, timestamp FROM source",
            "sink": {"format": "parquet", "options": {"path": str(self.out)}},
            "trigger": {"continuous": "500 milliseconds"},
            "checkpoint_location": self.location,
        }

    def start(self) -> tuple[SubmittedQuery, CheckpointStatus]:
        """Submit it, and wait until it runs."""
        submitted = self.hook.submit(self.hook.specification(self.document))
        try:
            return submitted, self.hook.wait_until_started(submitted, WAIT_S)
        except BaseException:
            print(submitted.log_path.read_text()[-20_000:], self.hadoop.containers_said(), sep="\n")
            raise

    def await_epochs(self, more: int) -> int:
        """Wait for so many more; return the last one's number."""
        begun = self.hook.status(self.location).epoch

        def committed() -> bool:
            status = self.hook.status(self.location)
            assert not status.state.is_over, status.error
            return status.epoch >= begun + more

        wait_for(committed, WAIT_S, f"{more} epochs behind {begun}", 0.1)
        return self.hook.status(self.location).epoch

    def drain(self) -> None:
        """Ask it to drain, and see that it does."""
        self.hook.drain(self.location, by="a test")
        wait_for(lambda: self.hook.find(self.location) is None, WAIT_S, "the end of the query", 0.1)
        ended = self.hook.status(self.location)
        assert (ended.state, ended.error) == (QueryState.STOPPED, None)

    def applications(self) -> dict[str, str]:
        """Their states, by their ids."""
        apps = (self.hadoop.ask("cluster/apps")["apps"] or {}).get("app") or []
        return {app["id"]: app["state"] for app in apps}

    def assert_each_once(self) -> list[int]:
        """Return the numbers in the sink: all from 0, each once."""
        numbers = sorted(committed(self.out, "value"))
        assert numbers == list(range(len(numbers)))
        assert numbers
        return numbers


_OF_THIS_MACHINE = {
    # Spark lies at the same place on all nodes, for there is one machine: nothing is uploaded.
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
    "spark.yarn.am.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}

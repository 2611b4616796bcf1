"""A query on YARN with its checkpoint on HDFS, by the guide."""

from __future__ import annotations

from pathlib import Path

import psutil
import pyspark
import pytest

from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from tests.cluster.guide import NODE_PYTHON, follow
from tests.cluster.one_query import OneQuery, command_line
from tests.servers.hadoop import Hadoop

GUIDE = "YARN and HDFS"
_OF_THIS_MACHINE = {
    # Spark lies at the same place on all nodes, for there is one machine: nothing is uploaded.
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
    "spark.yarn.am.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class OnYarn(OneQuery):
    """See the module.

    :param mode: ``client`` or ``cluster``.
    """

    def __init__(
        self, hadoop: Hadoop, python: Path, folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.hadoop = hadoop
        for name, value in hadoop.environment.items():
            monkeypatch.setenv(name, value)
        here = {NODE_PYTHON: str(python), "http://resourcemanager:8088": hadoop.web}
        follow(GUIDE, monkeypatch, here, _OF_THIS_MACHINE, mode)
        monkeypatch.setenv("AIRFLOW__CONTINUOUS__LOG_DIR", str(folder / "logs"))
        location = f"{hadoop.hdfs}/checkpoints/{folder.name}"
        super().__init__(ContinuousQueryHook(), location, folder / "out")

    def end(self) -> None:
        super().end()
        print(self.hadoop.containers_said())

    def processes(self, what: str, application: str | None) -> list[psutil.Process]:
        """Java processes of an application that have this on their command line."""
        return [
            process
            for process in psutil.Process(self.hadoop.pid).children(recursive=True)
            if (line := command_line(process))
            and line[0].endswith("java")
            and what in line
            and any(f"/{application}/" in word for word in line)
        ]

    def applications(self) -> dict[str, str]:
        """Their states, by their ids."""
        apps = (self.hadoop.ask("cluster/apps")["apps"] or {}).get("app") or []
        return {app["id"]: app["state"] for app in apps}

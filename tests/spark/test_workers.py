"""Which Python the tasks of a user's own session run with."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.spark.java import find_java, use_java
from tests.first_query import first_query, without_activation

pytestmark = pytest.mark.spark
ON_EXECUTORS = """
import json, sys
from pyspark.sql import SparkSession
from engine import ContinuousError, write_stream
from engine.spark import workers

spark = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
context, check, version = spark.sparkContext, workers.check_workers, spark.sparkContext.pythonVer
for line in sys.stdin:
    interpreter, checkpoint, trouble = json.loads(line)
    context.pythonExec = interpreter  # what PYSPARK_PYTHON does when a session begins
    # As where no slot is free when the query starts.
    workers.check_workers = (lambda *_: None) if trouble == "unasked" else check
    context.pythonVer = "3.99" if trouble == "other minor version" else version
    df = spark.readStream.format("rate").option("numPartitions", 1).load()
    writer = write_stream(df).format("noop").option("checkpointLocation", checkpoint)
    try:
        query = writer.start()
        query.awaitEpoch(0)
        query.drain()
        told = {"epoch": query.status["epoch"]}
    except ContinuousError as error:
        told = {"error": str(error), "kind": type(error).__name__}
    print("TOLD", json.dumps(told), flush=True)
spark.stop()
"""


def python(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """This interpreter, by its path."""
    java = find_java()
    assert java is not None
    use_java(java)
    return subprocess.run(
        [sys.executable, *arguments],
        env={**without_activation(), **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


ASKED_FOR_A_SCHEMA = """
from engine import register

register(spark)
print(spark.readStream.format("tail").option("fileFormat", "text").load("in").schema)
"""
"""Spark's planner starts a Python for it."""


def test_the_first_query_runs_in_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    ran = python("-c", first_query(tmp_path) + ASKED_FOR_A_SCHEMA, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "timestamp" in ran.stdout
    assert "StructField('value', StringType()" in ran.stdout


class Sessions:
    """For each master a process with a session, which starts one query after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def start(
        self, master: str, interpreter: str | Path, checkpoint: Path, trouble: str = ""
    ) -> dict[str, Any]:
        """What became of a query whose tasks run with an interpreter."""
        if master not in self._processes:
            self._processes[master] = self._process(master)
        process = self._processes[master]
        assert process.stdin is not None
        assert process.stdout is not None
        print(
            json.dumps([str(interpreter), str(checkpoint), trouble]), file=process.stdin, flush=True
        )
        lines = iter(process.stdout.readline, "")
        answer = next((line for line in lines if line.startswith("TOLD ")), None)
        assert answer is not None, (self._folder / "said").read_text()
        told: dict[str, Any] = json.loads(answer.removeprefix("TOLD "))
        return told

    def _process(self, master: str) -> subprocess.Popen[str]:
        with (self._folder / "said").open("a") as said:
            return subprocess.Popen(
                [sys.executable, "-c", ON_EXECUTORS, master],
                env={**without_activation(), "PYSPARK_PYTHON": sys.executable},
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def stop(self) -> None:
        for process in self._processes.values():
            process.communicate(timeout=60)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    java = find_java()
    assert java is not None
    use_java(java)
    sessions = Sessions(tmp_path_factory.mktemp("sessions"))
    yield sessions
    sessions.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("environment") / "bare"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin/python"


LOCAL, CLUSTER = "local[2]", "local-cluster[1,1,1024]"


def test_a_start_refuses_executors_that_have_no_engine(
    sessions: Sessions, bare: Path, tmp_path: Path
) -> None:
    told = sessions.start(CLUSTER, bare, tmp_path / "checkpoint")
    assert told["kind"] == "ConfigError"
    assert "cannot import engine" in told["error"]
    assert str(bare) in told["error"]
    assert "PYSPARK_PYTHON" in told["error"], "what to do"
    assert not (tmp_path / "checkpoint").exists(), "before anything else"


def test_a_start_refuses_an_interpreter_that_is_not_there(
    sessions: Sessions, tmp_path: Path
) -> None:
    told = sessions.start(LOCAL, "/nowhere/python", tmp_path / "checkpoint")
    assert told["kind"] == "ConfigError"
    assert "/nowhere/python" in told["error"]


def test_a_start_refuses_another_minor_version_of_python(
    sessions: Sessions, tmp_path: Path
) -> None:
    link = tmp_path / "python"  # another path: this very interpreter would not be asked
    link.symlink_to(sys.executable)
    told = sessions.start(LOCAL, link, tmp_path / "checkpoint", "other minor version")
    assert told["kind"] == "ConfigError"
    assert "than that in driver: 3.99" in told["error"]
    assert "PYSPARK_PYTHON" in told["error"]
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("master", [LOCAL, CLUSTER])
def test_each_task_looks_at_its_own_python(
    sessions: Sessions, bare: Path, tmp_path: Path, master: str
) -> None:
    """The start asks one executor, if there is a slot: the task may land on another."""
    told = sessions.start(master, bare, tmp_path / "checkpoint", "unasked")
    assert told["kind"] == "ConfigError"
    assert "cannot import engine" in told["error"]
    assert str(bare) in told["error"]
    assert "PYSPARK_PYTHON" in told["error"], "what to do"


def test_a_task_whose_interpreter_is_not_there(sessions: Sessions, tmp_path: Path) -> None:
    told = sessions.start(LOCAL, "/nowhere/python", tmp_path / "checkpoint", "unasked")
    assert told["kind"] == "ConfigError"
    assert "/nowhere/python" in told["error"]


def test_a_start_takes_executors_that_have_all(sessions: Sessions, tmp_path: Path) -> None:
    told = sessions.start(CLUSTER, sys.executable, tmp_path / "checkpoint")
    assert told == {"epoch": told.get("epoch")}, told

"""Which Python the tasks of a user's own session run with; each test has a Spark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
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

master, checkpoint, trouble = sys.argv[1:]
if trouble == "unasked":  # as where no slot is free when the query starts
    workers.check_workers = lambda *_: None
spark = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
if trouble == "other minor version":
    spark.sparkContext.pythonVer = "3.99"
df = spark.readStream.format("rate").option("numPartitions", 1).load()
writer = write_stream(df).format("noop").option("checkpointLocation", checkpoint)
try:
    query = writer.start()
    query.awaitEpoch(0)
    query.drain()
    told = {"epoch": query.status["epoch"]}
except ContinuousError as error:
    told = {"error": str(error), "kind": type(error).__name__}
finally:
    spark.stop()
print(json.dumps(told))
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


def start_on(master: str, folder: Path, trouble: str = "", **variables: str) -> dict[str, Any]:
    """What became of a query that was started with a session of its own."""
    arguments = (master, str(folder / "checkpoint"), trouble)
    ran = python("-c", ON_EXECUTORS, *arguments, folder=folder, **variables)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return told


def test_a_start_refuses_executors_that_have_no_engine(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    told = start_on("local-cluster[1,1,1024]", tmp_path, PYSPARK_PYTHON=str(bare / "bin/python"))
    assert told["kind"] == "ConfigError"
    assert "cannot import engine" in told["error"]
    assert str(bare / "bin/python") in told["error"]
    assert "PYSPARK_PYTHON" in told["error"], "what to do"
    assert not (tmp_path / "checkpoint").exists(), "before anything else"


def test_a_start_refuses_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    told = start_on("local[2]", tmp_path, PYSPARK_PYTHON="/nowhere/python")
    assert told["kind"] == "ConfigError"
    assert "/nowhere/python" in told["error"]


def test_a_start_refuses_another_minor_version_of_python(tmp_path: Path) -> None:
    link = tmp_path / "python"  # another path: this very interpreter would not be asked
    link.symlink_to(sys.executable)
    told = start_on("local[2]", tmp_path, "other minor version", PYSPARK_PYTHON=str(link))
    assert told["kind"] == "ConfigError"
    assert "than that in driver: 3.99" in told["error"]
    assert "PYSPARK_PYTHON" in told["error"]
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]"])
def test_each_task_looks_at_its_own_python(tmp_path: Path, master: str) -> None:
    """The start asks one executor, if there is a slot: the task may land on another."""
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    told = start_on(master, tmp_path, "unasked", PYSPARK_PYTHON=str(bare / "bin/python"))
    assert told["kind"] == "ConfigError"
    assert "cannot import engine" in told["error"]
    assert str(bare / "bin/python") in told["error"]
    assert "PYSPARK_PYTHON" in told["error"], "what to do"


def test_a_task_whose_interpreter_is_not_there(tmp_path: Path) -> None:
    told = start_on("local[2]", tmp_path, "unasked", PYSPARK_PYTHON="/nowhere/python")
    assert told["kind"] == "ConfigError"
    assert "/nowhere/python" in told["error"]


def test_a_start_takes_executors_that_have_all(tmp_path: Path) -> None:
    told = start_on("local-cluster[1,1,1024]", tmp_path, PYSPARK_PYTHON=sys.executable)
    assert told == {"epoch": told.get("epoch")}, told

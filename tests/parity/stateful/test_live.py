"""Some of the queries as they are started by their users, in Spark's tasks, fed step by step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from engine import write_stream
from engine.errors import ConfigError
from engine.query.writer import ContinuousStreamWriter
from tests.parity.stateful.comparing import made
from tests.parity.stateful.feeding import BY_NAME, WAIT_S, differences_when_fed, reading
from tests.parity.stateful.spark_side import run_in_spark
from tests.parity.stateful.steps import steps

pytestmark = pytest.mark.spark

CASES = [
    ("windows sliding", "append"),
    ("windows sliding", "complete"),
    ("count(*)", "update"),
    ("sessions of five minutes", "append"),
    ("deduplicated by k", "append"),
    ("deduplicated within", "append"),
]


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_fed_step_by_step(spark: SparkSession, tmp_path: Path, name: str, mode: str) -> None:
    assert differences_when_fed(spark, tmp_path, name, mode) == []


@pytest.mark.sampled(0.3)
def test_tasks_that_send_to_tasks_that_send(tmp_path: Path) -> None:
    """They take three task slots, and the session of the tests has two."""
    module = "tests.parity.stateful.feeding"
    command = [sys.executable, "-m", module, "windows of windows", "append", str(tmp_path)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=5 * WAIT_S
    )
    assert done.returncode == 0, done.stdout


def test_state_stays_with_its_engine(spark: SparkSession, tmp_path: Path) -> None:
    reading(spark, tmp_path / "in")
    df = made(spark, BY_NAME["windows sliding"].sql)
    run_in_spark(df, "append", tmp_path / "in", steps()[:2])
    of_spark = str(tmp_path / "in" / "checkpoint")
    with pytest.raises(ConfigError, match="read by Spark alone"):
        into(df, "spark_s", of_spark).trigger(continuous="100 milliseconds").start()

    ours = str(tmp_path / "ours")
    query = into(df, "ours", ours).trigger(continuous="100 milliseconds").start()
    assert query.awaitEpoch(1, WAIT_S)
    assert query.drain(WAIT_S)
    with pytest.raises(ConfigError, match="Spark's micro-batches do not read"):
        into(df, "ours", ours).trigger(processingTime="1 second").start()
    changed = made(spark, BY_NAME["windows short"].sql.replace("sum(n)", "max(n)"))
    with pytest.raises(ConfigError, match=r"stage\.aggregates: .* → .*max\(e\.n\)"):
        into(changed, "changed", ours).trigger(continuous="100 milliseconds").start()


def into(df: DataFrame, name: str, checkpoint: str) -> ContinuousStreamWriter:
    writer = write_stream(df).format("memory").queryName(name)
    return writer.option("checkpointLocation", checkpoint)

"""A query as it is started by its users, in Spark's tasks, fed step by step, beside Spark's.

``python -m tests.parity.stateful.feeding NAME MODE FOLDER``: one template, in a session of its own
with three task slots. Differences are printed; exits with 1 if there are any.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from engine import write_stream
from engine.sinks import memory
from tests.parity.stateful.comparing import last_of_each, made
from tests.parity.stateful.spark_side import hand_out, run_in_spark
from tests.parity.stateful.steps import EVENTS, steps
from tests.parity.stateful.templates import TEMPLATES
from tests.spark.conftest import start
from tests.spark.queries import compare_tables

WAIT_S = 60
BY_NAME = {template.name: template for template in TEMPLATES}


def reading(spark: SparkSession, folder: Path) -> None:
    """The view ``e`` is what comes to the folder."""
    (folder / "events").mkdir(parents=True)
    schema = spark.createDataFrame(EVENTS.empty_table()).schema
    df = spark.readStream.schema(schema).parquet(str(folder / "events"))
    df.createOrReplaceTempView("e0")
    df.withWatermark("at", "5 minutes").createOrReplaceTempView("e")


def differences_when_fed(spark: SparkSession, folder: Path, name: str, mode: str) -> list[str]:
    """Between the rows of the engine and Spark's.

    :param name: of a template that reads one stream.
    """
    template, given = BY_NAME[name], steps()
    reading(spark, folder / "spark")
    theirs = run_in_spark(made(spark, template.sql), mode, folder / "spark", given)
    reading(spark, folder / "here")
    table = f"live {name} {mode}".replace(" ", "_").replace("(*)", "")
    writer = write_stream(made(spark, template.sql)).format("memory").queryName(table)
    writer = writer.outputMode(mode).trigger(continuous="50 milliseconds")
    query = writer.option("checkpointLocation", str(folder / "ours")).start()
    for number, step in enumerate(given):
        hand_out(folder / "here", number, step)
        query.processAllAvailable()
        # In the first one the watermark of these rows begins, which closes rows at its end.
        assert query.awaitEpoch(query.status["epoch"] + 3, WAIT_S)
    assert query.drain(WAIT_S)
    mine = memory.table(table)
    if mode == "complete":
        theirs = theirs[-1:]
    elif mode == "update":
        theirs, (mine,) = last_of_each(theirs, template.keys), last_of_each([mine], template.keys)
    wanted = pa.concat_tables(theirs)
    assert wanted.num_rows, "Spark has answered nothing"
    return compare_tables(wanted, mine.cast(wanted.schema))


if __name__ == "__main__":
    _, name, mode, folder = sys.argv
    found = differences_when_fed(start(slots=3), Path(folder), name, mode)
    print(*found, sep="\n")
    sys.exit(1 if found else 0)

"""A query in Spark's micro-batches: a step is what is there when it starts, once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tests.parity.stateful.steps import Step


def hand_out(folder: Path, number: int, step: Step) -> None:
    """One more file of each stream."""
    for name, table in (("events", step.events), ("others", step.others)):
        (folder / name).mkdir(exist_ok=True)
        part = folder / f"{name}-{number}.parquet"
        pq.write_table(table, part)
        part.rename(folder / name / part.name)


def run_in_spark(
    df: DataFrame, mode: str, folder: Path, given: list[Step], *, goes_by_clock: bool = False
) -> list[pa.Table]:
    """The rows of each batch that had some.

    :param folder: where ``df`` reads; a checkpoint is kept there, too.
    :param goes_by_clock: Spark makes batches for ever, whether there are rows or not: one of a
        step is enough.
    :raises StreamingQueryException: the query failed.
    """
    batches: list[pa.Table] = []

    def take(batch: DataFrame, _: int) -> None:
        rows = batch.toArrow()
        if rows.num_rows:
            batches.append(rows)

    writer = df.writeStream.outputMode(mode).foreachBatch(take)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if goes_by_clock:
        for number, step in enumerate(given):
            hand_out(folder, number, step)
            writer.trigger(once=True).start().awaitTermination()
        return batches
    query = writer.start()
    try:
        for number, step in enumerate(given):
            hand_out(folder, number, step)
            query.processAllAvailable()
    finally:
        query.stop()
    return batches

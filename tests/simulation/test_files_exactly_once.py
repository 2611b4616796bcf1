"""A real source and a real sink, stopped and started again and again: nothing lost or repeated."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.opening import open_storage
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.files.data_source import ParquetDataSource
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sources.rate import RateDataSource

STARTS = 20
WAIT_S = 30
SPARK_SCHEMA = StructType(
    [StructField("timestamp", TimestampType()), StructField("value", LongType())]
)
SCHEMA = to_arrow(SPARK_SCHEMA, "test")


def start(folder: Path) -> ContinuousQuery:
    """A query from ``rate`` to Parquet files, on threads."""
    source = RateDataSource({"rowsPerSecond": "2000", "numPartitions": "2"})
    sink = ParquetDataSource({"path": str(folder / "out")})
    definition = QueryDefinition(
        name=None,
        streams=(
            StreamBinding(
                Pipeline(SourceRelation("rate", {}, SCHEMA), (), SCHEMA),
                source.continuousReader(SPARK_SCHEMA),
                "rate",
            ),
        ),
        sink=bind_writer(sink.streamWriter(SPARK_SCHEMA, overwrite=False), "parquet"),
        checkpoint=Checkpoint(str(folder / "checkpoint")),
        epoch_interval_ms=30,
        options=EngineOptions(lease_heartbeat_ms=50),
    )
    execution = ContinuousExecution(definition, ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


def committed_values(folder: Path) -> list[int]:
    log = FileSinkLog(open_storage(str(folder / "out" / FOLDER)))
    return sorted(
        value
        for file in log.files()
        for value in pq.read_table(file.path.removeprefix("file://"))["value"].to_pylist()
    )


def test_twenty_restarts_lose_and_repeat_no_row(tmp_path: Path) -> None:
    for turn in range(STARTS):
        query = start(tmp_path)
        assert query.awaitEpoch(query.status["epoch"] + 1 + turn % 3, WAIT_S)
        if turn % 2:
            query.stop()
        else:
            query.drain(WAIT_S)
    query = start(tmp_path)
    query.processAllAvailable()
    query.drain(WAIT_S)
    values = committed_values(tmp_path)
    offsets = Checkpoint(str(tmp_path / "checkpoint")).committed_offsets()
    assert offsets is not None
    read = {int(p): part["value"] for p, part in offsets[0].items()}
    expected = sorted(v for p, last in read.items() for v in range(p, last + 1, 2))
    assert len(expected) > 100
    assert values == expected

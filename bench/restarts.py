"""A restart in place, from the lease until it is known where to go on: what an attempt does before
its tasks start. The last epoch is prepared and logged, and not committed.

- S3, 50 ms per call: 100 epochs of two partitions are kept; ``calls`` are all requests, some of
  them at once;
- local disk: 100 epochs of 10,000 partitions are kept.
"""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

import pyarrow as pa

from bench.commits import RUN_ID, Query
from bench.size import sized
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.execution.admission import admit
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.survey import plan_restart
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.contract import DriverSink, SinkBinding
from engine.sinks.files.data_source import FilesWriter
from engine.sources.rate import RateDataSource

_S3, _LOCAL = "S3, 50 ms per call", "local disk, 10,000 partitions"
ENGINES = (_S3, _LOCAL)
_DELAY_MS = 50.0
_KEPT = sized(100, 100, 3)


def main(engine: str) -> None:
    """Measure one case in this process and print its figures as JSON."""
    figures = _far_away() if engine == _S3 else _many_partitions()
    print(json.dumps(figures))


def _far_away() -> dict[str, float]:
    from bench.slow_s3 import SlowS3

    with SlowS3() as s3:
        checkpoint = Checkpoint(s3.url, s3.options)
        _leave(checkpoint, 2)
        s3.delay_ms = _DELAY_MS
        s3.take()
        took_s = _restart(checkpoint)
        return {"seconds": took_s, "calls": len(s3.take())}


def _many_partitions() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-restarts-") as folder:
        checkpoint = Checkpoint(folder)
        _leave(checkpoint, 10_000)
        return {"seconds": _restart(checkpoint)}


def _leave(checkpoint: Checkpoint, partitions: int) -> None:
    """What a run leaves behind that was killed before the last commit was logged."""
    query = Query(checkpoint, partitions, 0, kept=_KEPT)
    admit(_definition(checkpoint), query.lease)
    for _ in range(_KEPT + 1):
        query.commit()
    query.end()
    checkpoint.storage.delete(f"commits/{_KEPT}")


def _restart(checkpoint: Checkpoint) -> float:
    definition = _definition(checkpoint)
    began = time.perf_counter()
    lease = Lease.acquire(checkpoint, run_id=RUN_ID)
    admit(definition, lease)
    plan = plan_restart(checkpoint, definition.sink, lease.check)
    took_s = time.perf_counter() - began
    assert plan.recommit == (_KEPT,)
    return took_s


def _definition(checkpoint: Checkpoint) -> QueryDefinition:
    source: Any = RateDataSource({"rowsPerSecond": "1"})
    schema = pa.schema([pa.field("value", pa.int64())])
    pipeline = Pipeline(SourceRelation("rate", {}, schema), (), schema)
    writer: Any = None  # no task ever starts
    return QueryDefinition(
        name="bench",
        streams=(StreamBinding(pipeline, source.continuousReader(None), "rate"),),
        sink=SinkBinding(DriverSink.of(_Sink()), writer, "files"),
        checkpoint=checkpoint,
        epoch_interval_ms=1_000,
    )


class _Sink:
    messageTypes = FilesWriter.messageTypes

    def commit(self, messages: list[Any], epoch: int) -> None:
        return None

    def abort(self, messages: list[Any], epoch: int) -> None:
        return None

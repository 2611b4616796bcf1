"""The commit of an epoch: by the number of partitions, and by how far away the storage is.

The runner, logs, lease and messages are the engine's own; the sink does nothing, so what is
measured is the checkpoint. Each partition leaves one file behind, as the files sink does.

- local disk: 2, 1,000 and 10,000 partitions, epochs back to back; ``epoch 1,000,000`` begins there.
- S3: a real server on this machine that answers each request 50 or 100 ms late, one epoch per
  second. ``calls`` are those until the epoch is committed; ``late`` is how long after its second an
  epoch began, in the end: 0 if the pace is kept.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from bench.measure import percentile
from bench.size import sized
from engine.base.background import Background
from engine.base.clock import SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.execution.lease_keeper import LeaseKeeper
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from engine.sinks.files.data_source import FilesMessage, FilesWriter
from engine.sinks.files.file_sink_log import SinkFile
from engine.sources.rate import RateDataSource

_LOCAL = {
    "local disk, 2 partitions": (2, 0, sized(500, 200, 10)),
    "local disk, 2 partitions, epoch 1,000,000": (2, 1_000_000, sized(500, 200, 10)),
    "local disk, 1,000 partitions": (1_000, 0, sized(100, 50, 8)),
    "local disk, 10,000 partitions": (10_000, 0, sized(50, 25, 7)),
}
_S3 = {"S3, 50 ms per call": 50.0, "S3, 100 ms per call": 100.0}
ENGINES = (*_LOCAL, *_S3)
RUN_ID = "bench"
_WARM_UP = 5
_S3_EPOCHS = sized(15, 8, 2)


def main(engine: str) -> None:
    """Measure one case in this process and print its figures as JSON."""
    if engine in _S3:
        figures = _far_away(_S3[engine])
    else:
        partitions, first_epoch, epochs = _LOCAL[engine]
        with tempfile.TemporaryDirectory(prefix="bench-commits-") as folder:
            query = Query(Checkpoint(folder), partitions, first_epoch)
            for _ in range(epochs):
                query.commit()
            query.end()
            figures = query.figures()
    print(json.dumps(figures))


def _far_away(delay_ms: float) -> dict[str, float]:
    from bench.slow_s3 import SlowS3

    with SlowS3(delay_ms) as s3:
        query = Query(Checkpoint(s3.url, s3.options), 2, 0)
        for _ in range(_WARM_UP):
            query.commit()
        never, began, late_s = threading.Event(), time.monotonic(), 0.0
        for number in range(_S3_EPOCHS):
            never.wait(max(0.0, began + number - time.monotonic()))
            late_s = time.monotonic() - began - number
            query.commit()
        commits = [call for call in s3.take() if call.startswith("PUT commits/")]
        query.end()
        assert len(commits) == _WARM_UP + _S3_EPOCHS
        s3.take()
        calls = _calls(query, s3.take)
        return {**query.figures(), "late": round(late_s * 1000), "calls": calls}


def _calls(query: Query, take: Callable[[], list[str]]) -> int:
    later, query.later = query.later, None
    query.commit()
    query.later = later
    return len(take())


def _nothing(messages: Any, epoch: int) -> None:
    """What the sink does."""


class Query:
    """All that commits epochs, without tasks.

    :param kept: so many epochs stay in the logs.
    """

    def __init__(
        self, checkpoint: Checkpoint, partitions: int, first_epoch: int, kept: int = 2
    ) -> None:
        checkpoint.create_or_read_query_id("bench")
        self.lease = Lease.acquire(checkpoint, run_id=RUN_ID)
        self._keeper = LeaseKeeper(self.lease, checkpoint, print, SystemClock())
        self._keeper.start(dict)
        self._epoch = first_epoch
        self._took_ms: list[float] = []
        self._cleaning = Background("bench")
        self.later: Any = self._cleaning
        source: Any = RateDataSource({"rowsPerSecond": "1"})
        sink = DriverSink(_nothing, _nothing, message_types=FilesWriter.messageTypes)
        binding = SinkBinding(sink, PlainTaskWriter(list), "nothing")
        self._runner = EpochRunner(
            checkpoint,
            self.lease,
            QueryEnds("bench", [source.continuousReader(None)], binding),
            min_epochs_to_retain=kept,
            later=lambda kind, work: self.later(kind, work) if self.later else None,
        )
        self._offsets = [
            {str(number): {"value": number, "runTimeMs": 1_795_174_660_561}}
            for number in range(partitions)
        ]
        self._messages = [
            FilesMessage((SinkFile(f"file:///data/out/part-{n:05}-7-c000.parquet", n, 1),))
            for n in range(partitions)
        ]

    def commit(self) -> None:
        """The next epoch."""
        began = time.perf_counter()
        self._runner.commit(self._epoch, [self._offsets], self._messages)
        self._took_ms.append((time.perf_counter() - began) * 1000)
        self._epoch += 1

    def end(self) -> None:
        """Finish what nobody waits for."""
        self._keeper.stop()
        self._cleaning.close(60)

    def figures(self) -> dict[str, float]:
        """Of all commits but the first."""
        took = self._took_ms[_WARM_UP:]
        return {"p50": percentile(took, 50), "p99": percentile(took, 99)}

"""How a query that Spark runs is drained: what it has begun is committed, and nothing after it.

Records that Spark has not taken into a batch, or an epoch, are read at the next start.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.1


def finish_batch(query: StreamingQuery, checkpoint: Checkpoint, ended: threading.Event) -> None:
    """Let a query of micro-batches, real-time ones included, finish the one that runs, if one does.

    ``StreamingQuery.stop`` cancels a running batch, and between two batches it always comes too
    late. So Spark is told what ``stop`` would tell it first, that no batch is to follow; the batch
    itself is left alone.

    :param ended: set once the query has ended.
    """
    from pyspark import SparkContext

    assert SparkContext._jvm is not None
    state = query._jsq.streamingQuery().state()
    states = state.get().getClass().getPackageName()
    state.set(getattr(getattr(SparkContext._jvm, f"{states}.TERMINATED$"), "MODULE$"))
    # A batch that was just beginning then is seen by the first look.
    while not ended.wait(_POLL_S):
        if not query.status["isTriggerActive"]:
            query.stop()  # it waits for its next trigger


def finish_epoch(query: StreamingQuery, checkpoint: Checkpoint, ended: threading.Event) -> None:
    """Let a query of Spark's continuous mode commit the epoch that is open.

    Its tasks go on reading until they are stopped: what is behind that epoch is read again.

    :param ended: set once the query has ended.
    """
    # The epoch behind the last logged one is being closed, and the one behind that is open.
    open_epoch = max(checkpoint.offsets.latest_id() or 0, checkpoint.committed_epoch()) + 1
    while checkpoint.committed_epoch() < open_epoch and not ended.wait(_POLL_S):
        pass
    query.stop()

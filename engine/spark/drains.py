"""How a query that Spark runs is drained: what it has begun is committed, and nothing after it.

Records that Spark has not taken into a batch, or an epoch, are read at the next start.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.1
_ASLEEP_POLLS = 50
"""A query that sleeps for so many looks has its next trigger further away than a few seconds."""


def finish_batch(query: StreamingQuery, checkpoint: Checkpoint, ended: threading.Event) -> None:
    """Let a query of micro-batches, real-time ones included, finish the one that runs, if one does.

    ``StreamingQuery.stop`` cancels a running batch, and between two batches it always comes too
    late. So Spark is told what ``stop`` would tell it first, that no batch is to follow; the batch
    itself is left alone. A query that is between two triggers may begin one last batch, which is
    left alone as well; one that sleeps for seconds until its next trigger is woken, by ``stop``.

    :param ended: set once the query has ended.
    """
    from pyspark import SparkContext

    assert SparkContext._jvm is not None
    execution = query._jsq.streamingQuery()
    states = execution.state().get().getClass().getPackageName()
    no_more = getattr(getattr(SparkContext._jvm, f"{states}.TERMINATED$"), "MODULE$")
    execution.state().set(no_more)
    asleep = 0
    while not ended.wait(_POLL_S):
        # Not by the query's status: it says the same when a batch is just about to begin.
        asleep = asleep + 1 if _sleeps_until_its_trigger(execution.queryExecutionThread()) else 0
        if asleep >= _ASLEEP_POLLS:
            query.stop()
            return


def _sleeps_until_its_trigger(thread: Any) -> bool:
    top = [(frame.getClassName(), frame.getMethodName()) for frame in thread.getStackTrace()[:5]]
    return any(
        method == "waitTillTime" and caller.endswith("ProcessingTimeExecutor")
        for (_, method), (caller, _) in pairwise(top)
    )


def finish_epoch(query: StreamingQuery, checkpoint: Checkpoint, ended: threading.Event) -> None:
    """Let a query of Spark's continuous mode commit the epoch that is open.

    Its tasks go on reading until they are stopped: what is behind that epoch is read again.

    :param ended: set once the query has ended.
    """
    # The epoch behind the last logged one is being closed, and the one behind that is open.
    open_epoch = None
    while not ended.wait(_POLL_S):
        with suppress(CheckpointError):  # storage may recover
            committed = checkpoint.committed_epoch()
            if open_epoch is None:
                open_epoch = max(checkpoint.offsets.latest_id() or 0, committed) + 1
            if committed >= open_epoch:
                break
    query.stop()

"""How a query that Spark runs is drained: what it has begun is committed, and nothing after it.

Records that Spark has not taken into a batch, or an epoch, are read at the next start.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)
_POLL_S = 0.1
_LET_ON_NS = 5_000_000
"""For how long the lock is given away at least: no batch comes to its end in so short a time."""
_FAR_MS = 2_000
"""A trigger that is further away than this is not waited for."""


def finish_batch(query: StreamingQuery, checkpoint: Checkpoint, ended: threading.Event) -> None:
    """Let a query of micro-batches, real-time ones included, finish the one that has begun, if one
    has.

    ``StreamingQuery.stop`` cancels a running batch, and between two batches it always comes too
    late. So Spark is told what ``stop`` would tell it first, that no batch is to follow; the batch
    itself is left alone. Spark looks for that before it asks its sources for a batch; as of 4.2
    once more when it has planned the batch, which is in the offset log by then and is cut off
    there; and when the batch is committed. It may be told between the last two looks, not between
    the first two, and is told where it stands still: at the lock of its progress, which is held
    here, and which it takes to log a batch, to commit it, and at the end of each trigger, with a
    batch or without.

    Source: Spark's MicroBatchExecution and TriggerExecutor, 4.1 and 4.2.

    - The query goes on until it comes to the lock, however long its batch runs. If it comes to log
      a batch, one last batch is let through.
    - One that sleeps, with its trigger further away than two seconds, is told at once, and is woken
      by ``stop``. Should it wake by itself before it is told, because this process is held up for
      so long, a warning says that its next batch may be left to the next start.
    - One that is still initializing ends without a batch.
    - One that fails meanwhile has failed.

    There is no deadline: like a batch, a source that does not answer is waited for, and ``stop``
    ends it.

    :param ended: set once the query has ended.
    :raises ConfigError: pyspark runs without pinned threads, and cannot hold a lock.
    """
    from py4j.clientserver import ClientServer
    from pyspark import SparkContext

    if not isinstance(SparkContext._gateway, ClientServer):
        raise ConfigError(
            "A query that Spark runs cannot be drained with PYSPARK_PIN_THREAD=false.",
            hint="Unset it, or stop the query: the next start repeats the batch that is cut off.",
        )
    execution = query._jsq.streamingQuery()
    state = execution.state()
    states = state.get().getClass().getPackageName()
    initializing, no_more = (
        getattr(getattr(SparkContext._jvm, f"{states}.{name}$"), "MODULE$")
        for name in ("INITIALIZING", "TERMINATED")
    )
    if state.compareAndSet(initializing, no_more):
        return
    lock = execution.awaitProgressLock()
    lock.lock()
    try:
        is_asleep = _tell_at_the_lock(execution, no_more, ended)
    finally:
        lock.unlock()
    if is_asleep:  # without the lock, which the query needs for its end
        query.stop()


def _tell_at_the_lock(execution: Any, no_more: Any, ended: threading.Event) -> bool:
    """Called with the lock held. Whether the query has been told in its sleep."""
    thread, lock = execution.queryExecutionThread(), execution.awaitProgressLock()
    while not ended.wait(_POLL_S):
        if lock.hasQueuedThread(thread):
            if not _is_about_to_log(thread):
                execution.state().set(no_more)  # it stands here until the lock is given back
                return False
            # Gives the lock away, and queues for it anew while the query still has it: the lock is
            # fair, and the query, when it has no data, wakes who waits here before it gives it
            # back. So it does not pass by the end of this trigger before the lock is held again.
            execution.awaitProgressLockCondition().awaitNanos(_LET_ON_NS)
        elif _sleeps_until_its_trigger(thread) and _trigger_is_far(execution):
            execution.state().set(no_more)
            if _sleeps_until_its_trigger(thread):  # it looks when it has slept, and not before
                return True
            # This process was held up for two seconds between two lines.
            logger.warning(
                "the query woke while it was told to end: if it has logged a batch that it does "
                "not commit, the next start repeats it"
            )
            return False
    return False


def _is_about_to_log(thread: Any) -> bool:
    """Whether it waits for the lock to log its next batch, not to commit one."""
    return any(frame.getMethodName() == "constructNextBatch" for frame in thread.getStackTrace())


def _sleeps_until_its_trigger(thread: Any) -> bool:
    top = [(frame.getClassName(), frame.getMethodName()) for frame in thread.getStackTrace()[:5]]
    return any(
        method == "waitTillTime" and caller.endswith("ProcessingTimeExecutor")
        for (_, method), (caller, _) in pairwise(top)
    )


def _trigger_is_far(execution: Any) -> bool:
    from pyspark import SparkContext

    assert SparkContext._jvm is not None
    now_ms = SparkContext._jvm.java.lang.System.currentTimeMillis()
    return bool(execution.triggerExecutor().nextBatchTime(now_ms) - now_ms > _FAR_MS)


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

"""Which epoch a writer is writing: for sinks that need more than PySpark's ``write(iterator)``.

``EpochContext.get()`` is to a continuous task what ``pyspark.TaskContext.get()`` is to a Spark
task. It is None outside of this engine, so a sink can run in both.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

_current = threading.local()


@dataclass(frozen=True)
class EpochContext:
    """One call of a writer's ``write``.

    :param query_id: survives restarts.
    :param run_id: one attempt.
    :param generation: counts restarts and rewinds, from 0.
    :param partition: index of the task, from 0.
    :param epoch: the epoch being written.
    """

    query_id: str
    run_id: str
    generation: int
    partition: int
    epoch: int

    @staticmethod
    def get() -> EpochContext | None:
        """The context of this thread's writer, or None."""
        return getattr(_current, "context", None)

    @staticmethod
    def set(context: EpochContext | None) -> None:
        """Used by the task loop before it calls a writer."""
        _current.context = context

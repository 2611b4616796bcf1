"""The handle of a running query: the twin of ``pyspark.sql.streaming.StreamingQuery``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.errors import ContinuousError
from engine.execution.execution import ContinuousExecution


class ContinuousQuery:
    """Returned by ``write_stream(df)...start()``. Names and meanings are StreamingQuery's;
    :meth:`awaitEpoch` and :meth:`drain` are ours.

    All timeouts are in seconds; None waits for as long as it takes.
    """

    def __init__(self, execution: ContinuousExecution, explanation: Callable[[], str]) -> None:
        self._execution = execution
        self._explanation = explanation

    @property
    def id(self) -> str:
        """Survives restarts: it is kept in the checkpoint."""
        return self._execution.query_id

    @property
    def runId(self) -> str:
        """Of this start only."""
        return self._execution.run_id

    @property
    def name(self) -> str | None:
        """As given with ``queryName``."""
        return self._execution.definition.name

    @property
    def isActive(self) -> bool:
        """Whether the query has not ended."""
        return self._execution.is_active

    @property
    def status(self) -> dict[str, Any]:
        """``message``, ``isDataAvailable``, ``isTriggerActive`` as in Spark; and ``state`` (a value
        of :class:`engine.checkpoint.query_state.QueryState`), ``epoch``, the last committed one
        (-1: none), ``restarts`` in place so far, ``last_error``, why the last one was needed,
        ``next_attempt_at_ms``, when the next one comes, if the query waits for it,
        ``failing_since_ms``: None once an epoch is committed again, and ``lag``: per source, how
        far the last commit is behind the end that the source saw last, by partition, in the shape
        of its offset; None for one that does not look."""
        execution = self._execution
        return {
            "message": execution.message,
            "isDataAvailable": execution.is_active,
            "isTriggerActive": execution.is_active,
            "state": execution.state.value,
            "epoch": execution.committed_epoch,
            "restarts": execution.restarts,
            "last_error": None if execution.last_error is None else str(execution.last_error),
            "next_attempt_at_ms": execution.next_attempt_at_ms,
            "failing_since_ms": execution.failing_since_ms,
            "lag": execution.lag,
        }

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The report of the last committed epoch, None before the first."""
        recent = self._execution.recent_progress
        return recent[-1] if recent else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """The reports of the last 100 committed epochs, oldest first."""
        return list(self._execution.recent_progress)

    def exception(self) -> ContinuousError | None:
        """Why the query failed; None while it runs and after it ended as asked."""
        return self._execution.error

    def explain(self, extended: bool = False) -> None:
        """Print the pipeline: source, steps, sink, partitions, epoch interval, guarantee.

        :param extended: also print where the checkpoint is, and the status.
        """
        print(self._explanation())
        if extended:
            print(f"Checkpoint: {self._execution.definition.checkpoint.url}")
            print(f"Status: {self.status}")

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end.

        :return: with a timeout, whether the query has ended; otherwise None, as in Spark.
        :raises ContinuousError: the query failed.
        """
        ended = self._execution.await_termination(timeout)
        self._raise_failure()
        return None if timeout is None else ended

    def awaitEpoch(self, epoch: int, timeout: float | None = None) -> bool:
        """Wait until the epoch is committed.

        :return: whether it is; False if the time ran out, or the query ended before.
        :raises ContinuousError: the query failed before it committed the epoch.
        """
        committed = self._execution.await_epoch(epoch, timeout)
        if not committed:
            self._raise_failure()
        return committed

    def processAllAvailable(self) -> None:
        """Wait until all that is in the sources now is committed.

        A source is asked where it ends. For one that cannot tell (see ``latestOffset`` in
        :mod:`engine.sources.contract`) two epochs are waited for: the open one, which a record may
        just miss, and the next.

        :raises ContinuousError: the query failed, or a source cannot be asked.
        """
        self._execution.await_all_available()
        self._raise_failure()

    def drain(self, timeout: float | None = None) -> bool:
        """Finish and commit the open epoch, then end.

        :return: whether the query has ended within the time.
        :raises ContinuousError: the query failed; also before the call, if nothing was committed
            since: what it had read then is not committed, and read again at the next start.
        """
        self._execution.drain()
        ended = self._execution.await_termination(timeout)
        self._raise_failure()
        return ended

    def stop(self) -> None:
        """End now and return when the query has ended. Records of the open epoch are read again at
        the next start."""
        self._execution.stop()
        self._execution.await_termination(None)

    def _raise_failure(self) -> None:
        error = self._execution.error
        if error is not None:
            raise error

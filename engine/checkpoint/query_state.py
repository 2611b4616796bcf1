"""The states of a query, as its checkpoint tells them."""

from __future__ import annotations

from enum import Enum


class QueryState(str, Enum):
    """Where a query is in its life. The value is the name, so it is JSON as it is."""

    STARTING = "STARTING"
    """A run holds the checkpoint; its tasks are not all running yet."""
    WAITING = "WAITING"
    """There are not enough task slots: the tasks start when there are."""
    RUNNING = "RUNNING"
    """Epochs are being committed."""
    STALLED = "STALLED"
    """Epochs end, and are not committed: a partition or the sink does not keep up."""
    RESTARTING = "RESTARTING"
    """An attempt has failed; the next one comes after a pause, from the last committed epoch."""
    RECONFIGURING = "RECONFIGURING"
    """The source has new partitions: the open epoch is finished, then new tasks start."""
    DRAINING = "DRAINING"
    """The open epoch is being finished; then the run ends."""
    STOPPED = "STOPPED"
    """The last run ended as it was asked to."""
    FAILED = "FAILED"
    """The last run ended with an error."""
    LOST = "LOST"
    """The last run died, or fell silent for longer than its lease, without saying so."""
    UNKNOWN = "UNKNOWN"
    """No run of this engine has left a lease: a checkpoint of Spark itself, or none at all."""

    @property
    def is_active(self) -> bool:
        """Whether a run says that it is alive."""
        return self is not QueryState.UNKNOWN and not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether nobody runs the query any more, said or not."""
        return self.has_ended or self is QueryState.LOST

    @property
    def has_ended(self) -> bool:
        """Whether a run said that it is over."""
        return self in (QueryState.STOPPED, QueryState.FAILED)

    def __str__(self) -> str:
        return self.value

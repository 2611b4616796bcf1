"""Wait until a query runs, has committed an epoch, or until a run of it has ended."""

from __future__ import annotations

from typing import Any

from airflow_provider_continuous.triggers.base import CheckpointTrigger, status_event
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.kill import KillableTrigger
from airflow_provider_continuous.triggers.poller import Event
from engine.checkpoint.query_state import QueryState


class QueryRunningTrigger(KillableTrigger):
    """Ends with ``running``, or with ``ended`` when the query died.

    A query that has stopped without an error ran: it may have had a bounded trigger.
    """

    wanted = "the start"

    def look(self) -> Event | None:
        """Look once."""
        status = self.status()
        if status.state in (QueryState.RUNNING, QueryState.STOPPED):
            return status_event("running", status)
        return status_event("ended", status) if self.run_is_over(status) else None


class StartedEpochTrigger(KillableTrigger, EpochCommittedTrigger):
    """Ends as :class:`EpochCommittedTrigger`, for the task that has started the query."""


class QueryRescaledTrigger(CheckpointTrigger):
    """Ends with ``rescaled`` once a run, or one that follows it, goes on with its new tasks, or
    with ``ended`` if it is over.

    :param run_id: the run.
    :param generation: of the run when it was asked: with other tasks it has a later one.
    """

    wanted = "its other tasks"

    def __init__(
        self, checkpoint_location: str, run_id: str, generation: int, **waiting: Any
    ) -> None:
        super().__init__(checkpoint_location, **waiting)
        self.run_id = run_id
        self.generation = generation

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        own = {"run_id": self.run_id, "generation": self.generation}
        return {**super().arguments(), **own}

    def look(self) -> Event | None:
        """Look once."""
        status = self.status()
        if self.run_is_over(status):
            return status_event("ended", status)
        is_later = status.generation is not None and status.generation > self.generation
        # Another run has begun with them: the number is noted for each start.
        if (is_later or status.run_id != self.run_id) and status.state is QueryState.RUNNING:
            return status_event("rescaled", status)
        return None


class QueryEndedTrigger(CheckpointTrigger):
    """Ends with ``ended`` once a run is over.

    :param run_id: the run; when another one holds the checkpoint, this one is over.
    """

    wanted = "the end"

    def __init__(self, checkpoint_location: str, run_id: str, **waiting: Any) -> None:
        super().__init__(checkpoint_location, **waiting)
        self.run_id = run_id

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {**super().arguments(), "run_id": self.run_id}

    def look(self) -> Event | None:
        """Look once."""
        status = self.status()
        if status.run_id == self.run_id and not self.run_is_over(status):
            return None
        return status_event("ended", status)

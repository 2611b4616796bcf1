"""EpochCommittedTrigger: wait until an epoch has committed."""

from __future__ import annotations

from typing import Any

from airflow_provider_continuous.hooks.checkpoint import is_over
from airflow_provider_continuous.tasks.arguments import whole_number
from airflow_provider_continuous.triggers.base import CheckpointTrigger, status_event
from airflow_provider_continuous.triggers.poller import Event


class EpochCommittedTrigger(CheckpointTrigger):
    """Ends with ``committed`` and ``{epoch, offsets, committed_at}``, or with ``ended``.

    :param epoch: the epoch to wait for, an int from 0 or text that is one: Airflow renders
        templates into the triggers that it starts itself.
    :param wait_for_restart: wait on when the query has ended before this epoch; otherwise that
        is the event ``ended``. A checkpoint of Spark itself does not tell whether its query
        lives: only the deadline ends that wait.
    """

    def __init__(
        self,
        checkpoint_location: str,
        epoch: int | str,
        wait_for_restart: bool = False,
        **waiting: Any,
    ) -> None:
        super().__init__(checkpoint_location, **waiting)
        self.epoch = epoch
        self.wait_for_restart = wait_for_restart

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "epoch": self.epoch,
            "wait_for_restart": self.wait_for_restart,
        }

    @property
    def wanted(self) -> str:
        """What is waited for, in words."""
        return f"epoch {self.epoch}"

    def look(self) -> Event | None:
        """Look once."""
        epoch = whole_number("epoch", self.epoch)
        summary = self.summary() if self.wait_for_restart else None
        status = None if self.wait_for_restart else self.status()
        if status is not None or summary is not None:
            committed = (status or summary).epoch  # type: ignore[union-attr]
        else:
            committed = self.hook.committed_epoch()
        if committed >= epoch:
            return {"outcome": "committed", **self.hook.describe_epoch(epoch)}
        if status is not None and is_over(status):
            return status_event("ended", status)
        return None

"""WatermarkTrigger: wait until event time has come so far in what is committed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_provider_continuous.hooks.checkpoint import is_over
from airflow_provider_continuous.tasks.arguments import instant, iso_time
from airflow_provider_continuous.triggers.base import CheckpointTrigger, status_event
from airflow_provider_continuous.triggers.poller import Event


class WatermarkTrigger(CheckpointTrigger):
    """Ends with ``committed`` and ``{epoch, offsets, committed_at, watermark}`` of the epoch that
    showed it, or with ``ended``.

    :param at: the time to wait for, as :func:`~airflow_provider_continuous.tasks.arguments.instant`
        takes it: Airflow renders templates into the triggers that it starts itself.
    :param wait_for_restart: wait on when the query has ended before; otherwise that is the event
        ``ended``. A checkpoint of Spark itself does not tell whether its query lives.
    """

    def __init__(
        self,
        checkpoint_location: str,
        at: str,
        wait_for_restart: bool = False,
        **waiting: Any,
    ) -> None:
        super().__init__(checkpoint_location, **waiting)
        self.at = at
        self.wait_for_restart = wait_for_restart

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "at": self.at,
            "wait_for_restart": self.wait_for_restart,
        }

    @property
    def wanted(self) -> str:
        """What is waited for, in words."""
        return f"the watermark {self.at}"

    def look(self) -> Event | None:
        """Look once."""
        wanted = instant("at", self.at)
        # First: a run that commits and then ends has not ended without that commit.
        status = None if self.wait_for_restart else self.status()
        summary = self.summary()
        if summary is None:
            found = self.hook.watermark()
        else:
            found = summary.epoch, summary.watermark_ms or 0
        if found is not None and found[0] >= 0 and wanted.timestamp() * 1000 <= found[1]:
            epoch, watermark_ms = found
            point = self.hook.describe_epoch(epoch)
            return {"outcome": "committed", **point, "watermark": iso_time(watermark_ms)}
        if status is not None and is_over(status):
            return status_event("ended", status)
        return None


def as_text(at: datetime | str) -> str:
    """Return the time as triggers carry it."""
    return at.isoformat() if isinstance(at, datetime) else at

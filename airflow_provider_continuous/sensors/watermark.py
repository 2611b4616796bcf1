"""WatermarkSensor: go on when everything of a time is in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.sensors.base import CheckpointSensor
from airflow_provider_continuous.tasks.arguments import flag, instant
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.watermark import WatermarkTrigger, as_text

if TYPE_CHECKING:
    from airflow.sdk import Context


class WatermarkSensor(CheckpointSensor):
    """Waits until the watermark of a query is at a time: the day is complete by event time.

    What a query with ``withWatermark`` has committed by then does not change any more: a window
    that ends by that time is closed, and its row is in the sink. Records that come later are late,
    and count for nothing. Works on checkpoints of this engine and of Spark Structured Streaming
    itself. Returns ``{epoch, offsets, committed_at, watermark}``: the epoch that showed it (not
    necessarily the first one that did), where it ends, and its watermark (ISO 8601, UTC).

    Fails at once, without a retry, when the query has ended before. A watermark moves only when
    records come, and that of a query without one is never reached: ``timeout`` ends the wait.

    All parameters of :class:`~airflow_provider_continuous.sensors.base.CheckpointSensor`, and

    :param at: the time, exclusive: everything before it is in. A datetime, or ISO 8601 text
        (templated), with its zone: ``"{{ data_interval_end }}"``.
    :param wait_for_restart: wait on when the query has ended; somebody will start it again.
    :param start_from_trigger: begin in the triggerer: no worker runs until the wait is over.
        ``mode``, ``execution_timeout`` and ``expand`` are refused.
    """

    template_fields: Sequence[str] = ("checkpoint_location", "at", "storage_conn_id")
    hoped_for = "committed"

    def __init__(
        self,
        *,
        checkpoint_location: str,
        at: datetime | str,
        wait_for_restart: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(checkpoint_location=checkpoint_location, **kwargs)
        self.at = at
        self.wait_for_restart = flag(f"{self.task_id}: wait_for_restart", wait_for_restart)
        self.begin()

    def own_trigger(self) -> WatermarkTrigger:
        """Return what waits for the time, without a worker's help."""
        return WatermarkTrigger(
            str(self.checkpoint_location),
            as_text(self.at),
            wait_for_restart=self.wait_for_restart,
            **self.waiting,
        )

    def make_trigger(self, context: Context) -> WatermarkTrigger:
        """Return what waits for the time."""
        self.log.info("Waiting for %s of %s", instant("at", self.at), self.checkpoint_location)
        return self.own_trigger()

    def result(self, event: Event) -> dict[str, Any]:
        """Return where the epoch ends that showed it, and how far event time has come."""
        self.log.info("Epoch %s has the watermark %s", event["epoch"], event["watermark"])
        return {name: event[name] for name in ("epoch", "offsets", "committed_at", "watermark")}

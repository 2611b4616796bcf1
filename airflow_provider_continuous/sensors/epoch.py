"""EpochCommittedSensor: go on when a query has committed an epoch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowSensorTimeout

from airflow_provider_continuous.arguments import whole_number
from airflow_provider_continuous.deferral import wait_or_defer
from airflow_provider_continuous.errors import WaitTimeoutError, final_errors
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.memory import TaskMemory
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.triggers.base import Event
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class EpochCommittedSensor(BaseSensorOperator):
    """Waits until a query has committed an epoch.

    Works on checkpoints of this engine and of Spark Structured Streaming itself. Returns
    ``{epoch, offsets, committed_at}``: the epoch waited for, the sources' end offsets of it, and
    the time of its commit (ISO 8601, UTC); offsets and time are None when retention has already
    removed that epoch.

    Fails at once, without a retry, when the query has ended before the epoch: nobody will commit
    it. Spark's own checkpoints do not tell; there, ``timeout`` ends the wait.

    :param checkpoint_location: path or URL of the checkpoint (templated);
        ``s3://my_conn@bucket/path`` opens it with an Airflow connection.
    :param epoch: the epoch to wait for, an int from 0 or text that is one (templated).
    :param epochs_from_now: instead of ``epoch``: wait for so many more epochs than had committed
        when the task first looked (templated). Reschedules and retries keep that point; a
        cleared task takes a new one.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    :param wait_for_restart: wait on when the query has ended; somebody will start it again.
    :param poke_interval: seconds between two looks: 1, and 60 with ``mode="reschedule"``, unless
        told otherwise.
    :param timeout: seconds until the sensor gives up, counted as in every Airflow sensor.
    :param mode: ``poke`` or ``reschedule``; naming one turns deferral off.
    :param deferrable: after a few seconds, wait in the triggerer, without a worker slot; the
        default unless ``mode`` is named.
    """

    template_fields: Sequence[str] = (
        "checkpoint_location",
        "epoch",
        "epochs_from_now",
        "storage_conn_id",
    )
    ui_color = "#d8eef7"

    def __init__(
        self,
        *,
        checkpoint_location: str,
        epoch: int | str | None = None,
        epochs_from_now: int | str | None = None,
        storage_conn_id: str | None = None,
        wait_for_restart: bool = False,
        poke_interval: timedelta | float | None = None,
        mode: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if poke_interval is None:
            poke_interval = 60.0 if mode == "reschedule" else 1.0
        super().__init__(mode=mode or "poke", poke_interval=poke_interval, **kwargs)
        if (epoch is None) == (epochs_from_now is None):
            raise ValueError(
                f"{self.task_id}: give exactly one of epoch and epochs_from_now to wait for."
            )
        self.checkpoint_location = checkpoint_location
        self.epoch = epoch
        self.epochs_from_now = epochs_from_now
        self.storage_conn_id = storage_conn_id
        self.wait_for_restart = wait_for_restart
        self.deferrable = mode is None if deferrable is None else deferrable

    def execute(self, context: Context) -> Any:
        """Wait, here or in the triggerer."""
        with final_errors():
            trigger = self._trigger = self._make_trigger(context)
        if not self.deferrable:
            return super().execute(context)
        trigger.deadline = time.time() + self.timeout
        event = wait_or_defer(self, trigger)
        return self.resume_execution("execute_complete", {"event": event}, context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        event = self._trigger.observe()
        if event is None:
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=self.execute_complete(context, event))

    def execute_complete(self, context: Context, event: Event) -> dict[str, Any]:
        """Return what the wait has brought, or fail as it tells."""
        try:
            expect(event, "committed")
        except WaitTimeoutError as error:
            raise AirflowSensorTimeout(str(error)) from None
        self.log.info("Epoch %s was committed at %s", event["epoch"], event["committed_at"])
        return {name: event[name] for name in ("epoch", "offsets", "committed_at")}

    def _make_trigger(self, context: Context) -> EpochCommittedTrigger:
        hook = CheckpointHook(self.checkpoint_location, self.storage_conn_id)
        epoch = self._wanted_epoch(hook, context)
        self.log.info("Waiting for epoch %d of %s", epoch, hook.location.url)
        return EpochCommittedTrigger(
            str(self.checkpoint_location),
            epoch,
            wait_for_restart=self.wait_for_restart,
            storage_conn_id=self.storage_conn_id,
            poll_interval_s=self.poke_interval,
        )

    def _wanted_epoch(self, hook: CheckpointHook, context: Context) -> int:
        if self.epoch is not None:
            return whole_number("epoch", self.epoch)
        count = whole_number("epochs_from_now", self.epochs_from_now, minimum=1)
        memory = TaskMemory(context)
        now = memory.recall("epoch_at_first_look")
        if now is None:
            now = hook.committed_epoch()
            memory.remember("epoch_at_first_look", now)
        return int(now) + count

"""CheckpointSensor: wait for what a checkpoint will show, in a worker or in the triggerer."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_continuous.assets.events import emit
from airflow_provider_continuous.compat import AirflowSensorTimeout
from airflow_provider_continuous.deferral import wait_or_defer
from airflow_provider_continuous.errors import WaitTimeoutError, final_errors
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.triggers.base import CheckpointTrigger, Event

if TYPE_CHECKING:
    from airflow.sdk import Context


class CheckpointSensor(BaseSensorOperator):
    """What the sensors of this provider have in common: one trigger decides in every mode.

    :param checkpoint_location: path or URL of the checkpoint (templated);
        ``s3://my_conn@bucket/path`` opens it with an Airflow connection.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    :param poke_interval: seconds between two looks: 1, and 60 with ``mode="reschedule"``, unless
        told otherwise.
    :param timeout: seconds until the sensor gives up, counted as in every Airflow sensor.
    :param mode: ``poke`` or ``reschedule``; naming one turns deferral off.
    :param deferrable: after a few seconds, wait in the triggerer, without a worker slot; the
        default unless ``mode`` is named.
    """

    template_fields: Sequence[str] = ("checkpoint_location", "storage_conn_id")
    ui_color = "#d8eef7"
    hoped_for: str
    """The outcome that ends the wait well."""

    def __init__(
        self,
        *,
        checkpoint_location: str,
        storage_conn_id: str | None = None,
        poke_interval: timedelta | float | None = None,
        mode: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if poke_interval is None:
            poke_interval = 60.0 if mode == "reschedule" else 1.0
        super().__init__(mode=mode or "poke", poke_interval=poke_interval, **kwargs)
        self.checkpoint_location = checkpoint_location
        self.storage_conn_id = storage_conn_id
        self.deferrable = mode is None if deferrable is None else deferrable

    def execute(self, context: Context) -> Any:
        """Wait, here or in the triggerer."""
        with final_errors():
            trigger = self._trigger = self.make_trigger(context)
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
            expect(event, self.hoped_for)
        except WaitTimeoutError as error:
            raise AirflowSensorTimeout(str(error)) from None
        found = self.result(event)
        emit(context, **found)
        return found

    @abstractmethod
    def make_trigger(self, context: Context) -> CheckpointTrigger:
        """Return what decides, without its deadline."""

    @abstractmethod
    def result(self, event: Event) -> dict[str, Any]:
        """Return what the task returns."""

    @property
    def waiting(self) -> dict[str, Any]:
        """The arguments that all triggers take."""
        return {
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poke_interval,
        }

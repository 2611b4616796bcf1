"""CheckpointSensor: wait for what a checkpoint will show, in a worker or in the triggerer."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, XComArg
from airflow.triggers.base import StartTriggerArgs

from airflow_provider_continuous.assets.events import emit
from airflow_provider_continuous.compat import AirflowSensorTimeout
from airflow_provider_continuous.deferral import by_default, wait_or_defer
from airflow_provider_continuous.errors import WaitTimeoutError, final_errors
from airflow_provider_continuous.links.query import PAGE_LINKS
from airflow_provider_continuous.outcomes import expect
from airflow_provider_continuous.tasks.arguments import check_found, flag, given
from airflow_provider_continuous.triggers.base import START_MARGIN_S, CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

AWAY_POKE_S = 5.0
"""A storage that is away is looked at so often by a sensor that reschedules."""


class CheckpointSensor(BaseSensorOperator):
    """What the sensors of this provider have in common: one trigger decides in every mode.

    :param checkpoint_location: path or URL of the checkpoint (templated);
        ``s3://my_conn@bucket/path`` opens it with an Airflow connection.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    :param poke_interval: seconds between two looks: 1, and 60 with ``mode="reschedule"``, unless
        told otherwise.
    :param timeout: seconds until the sensor gives up, counted as in every Airflow sensor.
    :param mode: ``poke`` or ``reschedule``; naming one turns deferral off, and so do
        ``exponential_backoff`` and ``silent_fail``, which count in a worker alone. With
        ``deferrable=True`` they are refused; one of ``default_args`` gives way to what the task
        says.
    :param deferrable: after a few seconds, wait in the triggerer, without a worker slot; the
        default unless one of these is given, or ``AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE`` is
        ``False``.
    """

    template_fields: Sequence[str] = ("checkpoint_location", "storage_conn_id")
    operator_extra_links = PAGE_LINKS
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
        start_from_trigger: bool = False,
        exponential_backoff: bool = False,
        silent_fail: bool = False,
        **kwargs: Any,
    ) -> None:
        if poke_interval is None:
            poke_interval = 60.0 if mode == "reschedule" else 1.0
        super().__init__(
            mode=mode or "poke",
            poke_interval=poke_interval,
            exponential_backoff=exponential_backoff,
            silent_fail=silent_fail,
            **kwargs,
        )
        self.checkpoint_location = checkpoint_location
        self.storage_conn_id = storage_conn_id
        self._said = given(storage_conn_id=storage_conn_id)
        of_worker = {
            "mode": mode,
            "exponential_backoff": flag(
                f"{self.task_id}: exponential_backoff", exponential_backoff
            ),
            "silent_fail": flag(f"{self.task_id}: silent_fail", silent_fail),
        }
        self.deferrable = self._defers(deferrable, of_worker, kwargs.get("default_args") or {})
        self._starts_from_trigger = flag(f"{self.task_id}: start_from_trigger", start_from_trigger)

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """As that of every operator.

        :raises ValueError: Airflow would not start the trigger: a worker began the wait.
        """
        if kwargs.get("start_from_trigger"):
            raise ValueError(
                f"{kwargs.get('task_id')}: Airflow starts no triggers of mapped tasks. Leave "
                "start_from_trigger out: the tasks wait in the triggerer after some seconds."
            )
        return super().partial(**kwargs)

    def execute(self, context: Context) -> Any:
        """Wait, here or in the triggerer."""
        with final_errors():
            check_found(self, self._said)
            trigger = self._trigger = self.make_trigger(context)
        if not self.deferrable:
            return super().execute(context)
        trigger.deadline = time.time() + self.timeout
        event = wait_or_defer(self, trigger)
        return self.resume_execution("execute_complete", {"event": event}, context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; while the storage is away, for a minute at most, again and again."""
        trigger, event = self._trigger, self._trigger.look_in_time()
        if self.reschedule and trigger.is_out_of_reach:  # the next worker would count anew
            first, never = context["ti"].get_first_reschedule_date(context), threading.Event()
            trigger.deadline = (time.time() if first is None else first.timestamp()) + self.timeout
            while event is None and trigger.is_out_of_reach:
                never.wait(min(self.poke_interval, AWAY_POKE_S))
                event = trigger.look_in_time()
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

    def begin(self) -> None:
        """Have Airflow start the trigger without a worker, if that is wanted; called at the end of
        a sensor's ``__init__``.

        :raises ValueError: it cannot be.
        """
        if not self._starts_from_trigger:
            return
        if not self.deferrable:
            raise ValueError(f"{self.task_id}: start_from_trigger is for deferrable sensors.")
        if self.execution_timeout is not None:
            raise ValueError(
                f"{self.task_id}: with start_from_trigger, Airflow's execution_timeout fails the "
                "task without asking it. Use timeout."
            )
        class_path, arguments = self.own_trigger().serialize()
        for name, value in arguments.items():
            if any(XComArg.iter_xcom_references(value)):  # Airflow hands it over as it is
                raise ValueError(
                    f"{self.task_id}: {name} is what another task returns. With "
                    "start_from_trigger, say it as a template, \"{{ ti.xcom_pull('other') }}\", "
                    "and the order with >>."
                )
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=class_path,
            trigger_kwargs=arguments,
            next_method="execute_complete",
            # The trigger gives up before: Airflow's own timeout only tells it when.
            timeout=timedelta(seconds=self.timeout + START_MARGIN_S),
        )
        self.start_from_trigger = True

    def _defers(
        self,
        deferrable: bool | None,
        of_worker: Mapping[str, object],
        defaults: Mapping[str, object],
    ) -> bool:
        """Tell whether to wait in the triggerer.

        :param of_worker: arguments that count in a worker alone.
        :param defaults: ``default_args``, over which goes what is said of the task itself.
        :raises ValueError: the task says both.
        """
        named = {name: value for name, value in of_worker.items() if value}
        if deferrable is None:
            return not named and by_default()
        wanted = flag(f"{self.task_id}: deferrable", deferrable)
        own = [name for name, value in named.items() if defaults.get(name) != value]
        if not wanted or not own:
            return wanted
        if defaults.get("deferrable") is not wanted:
            raise ValueError(
                f"{self.task_id}: {' and '.join(own)} counts in a worker alone, and "
                "deferrable=True waits in the triggerer. Keep one of them."
            )
        return False

    @abstractmethod
    def own_trigger(self) -> CheckpointTrigger:
        """Return what decides when no worker has looked before; templates are not yet rendered.

        :raises ValueError: it needs what only a worker can note.
        """

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

"""QueryHealthSensor: go on when a query is healthy, or watch that it stays so."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.sensors.base import CheckpointSensor
from airflow_provider_continuous.tasks.arguments import duration, optional_duration, optional_limit
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.health import QueryHealthTrigger
from airflow_provider_continuous.triggers.poller import Event
from engine.checkpoint.query_state import QueryState

if TYPE_CHECKING:
    from airflow.sdk import Context


class QueryHealthSensor(CheckpointSensor):
    """Waits until a query runs and advances: an epoch commits after the task's first look.

    With ``watch_for``, watches that it stays healthy instead. Healthy means: the query is RUNNING,
    its last commit is not older than ``stalled_after``, and it keeps the limits that are set.
    Spark's own checkpoints do not tell who runs them; there, the commits alone count.

    Returns ``{state, epoch, commit_age_s, latency_s, lag}`` of the last look; the last two are None
    without their limits. Fails, without a retry, as ``fail_on`` and ``unhealthy_for`` say.

    All parameters of :class:`~airflow_provider_continuous.sensors.base.CheckpointSensor`, and

    :param stalled_after: a timedelta or seconds: longer than the query's epochs.
    :param latency_max: a timedelta or seconds: of a record from the reader to the writer, p99 of
        the last epoch that this run has reported.
    :param lag_max: how far the committed offsets may be behind the end of ``source``: records of a
        ``kafka`` source, bytes of a ``tail`` source.
    :param source: for ``lag_max``: the source's ``format``, ``options`` and ``connection`` as in
        the query's specification, or a list of those (templated). The triggerer, or the worker,
        must see what the query reads.
    :param fail_on: states, such as ``("FAILED", "STALLED")``, that fail the task at once.
    :param unhealthy_for: a timedelta or seconds: fail once the query has been unhealthy for so
        long; None waits until it recovers or ``timeout`` is over. A restart of the triggerer begins
        to count anew.
    :param watch_for: a timedelta or seconds: succeed after so long, if the query is healthy then.
        Counted from the task's first look; ``timeout`` must be longer.
    :param start_from_trigger: begin in the triggerer: no worker runs until the wait is over. A
        restart of the triggerer then takes a new first look. ``watch_for``, ``mode``,
        ``execution_timeout`` and ``expand`` are refused.
    """

    template_fields: Sequence[str] = ("checkpoint_location", "source", "storage_conn_id")
    template_fields_renderers = {"source": "json"}  # noqa: RUF012  # Airflow's declaration
    hoped_for = "healthy"

    def __init__(
        self,
        *,
        checkpoint_location: str,
        stalled_after: timedelta | float = 60.0,
        latency_max: timedelta | float | None = None,
        lag_max: int | None = None,
        source: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        fail_on: Sequence[str] = (QueryState.FAILED.value, QueryState.LOST.value),
        unhealthy_for: timedelta | float | None = None,
        watch_for: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(checkpoint_location=checkpoint_location, **kwargs)
        states = {state.value for state in QueryState}
        if isinstance(fail_on, str) or not states.issuperset(fail_on):
            raise ValueError(
                f"{self.task_id}: fail_on is {fail_on!r}; these are states: "
                f"{', '.join(sorted(states))}."
            )
        if (lag_max is None) != (source is None):
            raise ValueError(f"{self.task_id}: lag_max and source belong together.")
        self.stalled_after = duration(f"{self.task_id}: stalled_after", stalled_after)
        self.latency_max = optional_duration(f"{self.task_id}: latency_max", latency_max)
        self.lag_max = optional_limit(f"{self.task_id}: lag_max", lag_max)
        self.source = source
        self.fail_on = tuple(str(state) for state in fail_on)
        self.unhealthy_for = optional_duration(f"{self.task_id}: unhealthy_for", unhealthy_for)
        self.watch_for = optional_duration(f"{self.task_id}: watch_for", watch_for)
        if self.watch_for is not None and self.watch_for >= self.timeout:
            raise ValueError(
                f"{self.task_id}: watch_for is {self.watch_for:g} s, and timeout, which is to be "
                f"longer, {self.timeout:g} s."
            )
        self.begin()

    def own_trigger(self) -> QueryHealthTrigger:
        """Return what watches the query, without a worker's help."""
        if self.watch_for is not None:
            raise ValueError(
                f"{self.task_id}: start_from_trigger does not go with watch_for; when that begins "
                "is noted by a worker, and none runs."
            )
        return self._trigger_from(None)

    def make_trigger(self, context: Context) -> QueryHealthTrigger:
        """Return what watches the query."""
        memory = TaskMemory(context)
        first = memory.recall("health_at_first_look")
        if first is None:
            hook = CheckpointHook(self.checkpoint_location, self.storage_conn_id)
            epoch = POOL.within(place_of(self.checkpoint_location), hook.committed_epoch)
            first = {"epoch": epoch, "at": time.time()}
            memory.remember("health_at_first_look", first)
        return self._trigger_from(
            first["epoch"],
            watch_until=None if self.watch_for is None else first["at"] + self.watch_for,
            unhealthy_since=memory.recall("unhealthy_since") or None,
        )

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; note since when the query is unhealthy, for the next reschedule."""
        trigger = self._trigger
        assert isinstance(trigger, QueryHealthTrigger)
        since = trigger.unhealthy_since
        answer = super().poke(context)
        if trigger.unhealthy_since != since:
            TaskMemory(context).remember("unhealthy_since", trigger.unhealthy_since or 0)
        return answer

    def result(self, event: Event) -> dict[str, Any]:
        """Return the figures of the last look."""
        names = ("state", "epoch", "commit_age_s", "latency_s", "lag")
        return {name: event[name] for name in names}

    def _trigger_from(self, epoch: int | None, **noted: Any) -> QueryHealthTrigger:
        return QueryHealthTrigger(
            str(self.checkpoint_location),
            from_epoch=epoch,
            stalled_after_s=self.stalled_after,
            latency_max_s=self.latency_max,
            lag_max=self.lag_max,
            source=self.source,
            fail_on=self.fail_on,
            unhealthy_for_s=self.unhealthy_for,
            **noted,
            **self.waiting,
        )

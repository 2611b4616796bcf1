"""OffsetsCommittedSensor: go on when everything up to a point in the sources is committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.observing.pool import LAST_LOOK_S, POOL
from airflow_provider_continuous.observing.source_ends import SourceEnds
from airflow_provider_continuous.sensors.base import CheckpointSensor
from airflow_provider_continuous.tasks.arguments import flag
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.base import UNREACHABLE_MAX_S
from airflow_provider_continuous.triggers.offsets import (
    OffsetsCommittedTrigger,
    offsets_per_source,
)
from airflow_provider_continuous.triggers.poller import Event

if TYPE_CHECKING:
    from airflow.sdk import Context

LATEST = "latest"


class OffsetsCommittedSensor(CheckpointSensor):
    """Waits until given source offsets are committed, or all that was in the source at first.

    "Everything that arrived before midnight is in" is a DAG of midnight with
    ``offsets="latest"``. Returns ``{epoch, offsets, committed_at, wanted}``: the epoch that showed
    it (not necessarily the first one that did) and where it ends, and the offsets waited for.

    Fails at once, without a retry, when the query has ended before: nobody will commit them.
    Spark's own checkpoints do not tell; there, ``timeout`` ends the wait.

    All parameters of :class:`~airflow_provider_continuous.sensors.base.CheckpointSensor`, and

    :param offsets: what is waited for (templated). The offset of the query's one source, exclusive,
        as the checkpoint has it: ``{"file.json": 4096}``, ``{"topic": {"0": 5}}``, see
        :mod:`engine.sources.offset_order`; a list of one offset per source, None for one that does
        not matter; the JSON text of either; or ``"latest"``: where the source ended when the task
        first looked. Reschedules and retries keep that point, a cleared task asks anew.
    :param source: for ``"latest"``: the source's ``format`` and ``options`` as in the query's
        specification, or a list of those (templated), with the Airflow ``connection`` if it has
        one. The worker must see what the query reads; formats that can be asked: ``kafka`` and
        ``tail``.
    :param ask_latest: instead, for other sources: a function without arguments that returns the
        offset, or a list of one per source. Runs in the worker.
    :param wait_for_restart: wait on when the query has ended; somebody will start it again.
    :param start_from_trigger: begin in the triggerer: no worker runs until the wait is over.
        ``"latest"``, which a worker has to note, ``mode``, ``execution_timeout`` and
        ``expand`` are refused.
    """

    template_fields: Sequence[str] = (
        "checkpoint_location",
        "offsets",
        "source",
        "storage_conn_id",
    )
    template_fields_renderers = {"offsets": "json", "source": "json"}  # noqa: RUF012  # Airflow's
    hoped_for = "committed"

    def __init__(
        self,
        *,
        checkpoint_location: str,
        offsets: Mapping[str, Any] | Sequence[Any] | str | int,
        source: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        ask_latest: Callable[[], Any] | None = None,
        wait_for_restart: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(checkpoint_location=checkpoint_location, **kwargs)
        asked = (source is not None) + (ask_latest is not None)
        if asked != (offsets == LATEST):
            raise ValueError(
                f"{self.task_id}: offsets='latest' needs one of source and ask_latest, and only it."
            )
        self.offsets = offsets
        self.source = source
        self.ask_latest = ask_latest
        self.wait_for_restart = flag(f"{self.task_id}: wait_for_restart", wait_for_restart)
        self.begin()

    def own_trigger(self) -> OffsetsCommittedTrigger:
        """Return what waits for the offsets, without a worker's help."""
        if self.offsets == LATEST:
            raise ValueError(
                f"{self.task_id}: start_from_trigger needs the offsets; where a source ends by now "
                "is noted by a worker, and none runs."
            )
        return self._trigger_of(self.offsets)

    def make_trigger(self, context: Context) -> OffsetsCommittedTrigger:
        """Return what waits for the offsets."""
        offsets = self._wanted(context)
        self.log.info("Waiting for %s of %s", json.dumps(offsets), self.checkpoint_location)
        return self._trigger_of(offsets)

    def result(self, event: Event) -> dict[str, Any]:
        """Return where the epoch ends that showed it."""
        self.log.info("Epoch %s has it, committed at %s", event["epoch"], event["committed_at"])
        return {name: event[name] for name in ("epoch", "offsets", "committed_at", "wanted")}

    def _wanted(self, context: Context) -> list[Any]:
        if self.offsets != LATEST:
            return offsets_per_source(self.offsets)
        memory = TaskMemory(context)
        noted = memory.recall("offsets_at_first_look")
        if noted is None:
            noted = offsets_per_source(self._latest())
            memory.remember("offsets_at_first_look", noted)
        return list(noted)

    def _latest(self) -> Any:
        ask, within_s = self.ask_latest, float(self.timeout)
        if ask is None:  # of the caller's own function nobody knows how long it may take
            ask, within_s = SourceEnds(self.source).latest, min(UNREACHABLE_MAX_S, within_s)
        place = f"The source of {self.checkpoint_location}"
        return POOL.within(place, ask, max(within_s, LAST_LOOK_S))

    def _trigger_of(self, offsets: Any) -> OffsetsCommittedTrigger:
        return OffsetsCommittedTrigger(
            str(self.checkpoint_location),
            offsets,
            wait_for_restart=self.wait_for_restart,
            **self.waiting,
        )

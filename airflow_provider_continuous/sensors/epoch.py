"""EpochCommittedSensor: go on when a query has committed an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.sensors.base import CheckpointSensor
from airflow_provider_continuous.tasks.arguments import flag, given, whole_number
from airflow_provider_continuous.tasks.memory import TaskMemory
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.poller import Event

if TYPE_CHECKING:
    from airflow.sdk import Context


class EpochCommittedSensor(CheckpointSensor):
    """Waits until a query has committed an epoch.

    Works on checkpoints of this engine and of Spark Structured Streaming itself. Returns
    ``{epoch, offsets, committed_at}``: the epoch waited for, the sources' end offsets of it, and
    the time of its commit (ISO 8601, UTC); offsets and time are None when retention has already
    removed that epoch.

    Fails at once, without a retry, when the query has ended before the epoch: nobody will commit
    it. Spark's own checkpoints do not tell; there, ``timeout`` ends the wait.

    All parameters of :class:`~airflow_provider_continuous.sensors.base.CheckpointSensor`, and

    :param epoch: the epoch to wait for, an int from 0 or text that is one (templated).
    :param epochs_from_now: instead of ``epoch``: wait for so many more epochs than had committed
        when the task first looked (templated). Reschedules and retries keep that point; a
        cleared task takes a new one.
    :param wait_for_restart: wait on when the query has ended; somebody will start it again.
    :param start_from_trigger: begin in the triggerer: no worker runs until the wait is over. Needs
        ``epoch``, as a number or a template; ``epochs_from_now`` needs a worker to note where the
        query is, so it is refused, and so are ``mode``, ``execution_timeout`` and ``expand``.
    :param timeout: with ``start_from_trigger``, counted from the start of each attempt.
    """

    template_fields: Sequence[str] = (
        "checkpoint_location",
        "epoch",
        "epochs_from_now",
        "storage_conn_id",
    )
    hoped_for = "committed"

    def __init__(
        self,
        *,
        checkpoint_location: str,
        epoch: int | str | None = None,
        epochs_from_now: int | str | None = None,
        wait_for_restart: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(checkpoint_location=checkpoint_location, **kwargs)
        if (epoch is None) == (epochs_from_now is None):
            raise ValueError(
                f"{self.task_id}: give exactly one of epoch and epochs_from_now to wait for."
            )
        self.epoch = epoch
        self.epochs_from_now = epochs_from_now
        self._given = given(epoch=epoch, epochs_from_now=epochs_from_now)
        self.wait_for_restart = flag(f"{self.task_id}: wait_for_restart", wait_for_restart)
        self.begin()

    def make_trigger(self, context: Context) -> EpochCommittedTrigger:
        """Return what waits for the epoch."""
        hook = CheckpointHook(self.checkpoint_location, self.storage_conn_id)
        epoch = self._wanted_epoch(hook, context)
        self.log.info("Waiting for epoch %d of %s", epoch, hook.location.url)
        return EpochCommittedTrigger(
            str(self.checkpoint_location),
            epoch,
            wait_for_restart=self.wait_for_restart,
            **self.waiting,
        )

    def result(self, event: Event) -> dict[str, Any]:
        """Return where the epoch ends, and when it was committed."""
        self.log.info("Epoch %s was committed at %s", event["epoch"], event["committed_at"])
        return {name: event[name] for name in ("epoch", "offsets", "committed_at")}

    def _wanted_epoch(self, hook: CheckpointHook, context: Context) -> int:
        if "epoch" in self._given:  # its template may have found nothing
            return whole_number("epoch", self.epoch)
        count = whole_number("epochs_from_now", self.epochs_from_now, minimum=1)
        memory = TaskMemory(context)
        now = memory.recall("epoch_at_first_look")
        if now is None:
            now = POOL.within(place_of(self.checkpoint_location), hook.committed_epoch)
            memory.remember("epoch_at_first_look", now)
        return int(now) + count

    def own_trigger(self) -> EpochCommittedTrigger:
        """Return what waits for the epoch, without a worker's help."""
        if self.epoch is None:
            raise ValueError(
                f"{self.task_id}: start_from_trigger needs epoch; where epochs_from_now begins is "
                "noted by a worker, and none runs."
            )
        return EpochCommittedTrigger(
            str(self.checkpoint_location), self.epoch, self.wait_for_restart, **self.waiting
        )

"""EpochEventTrigger: committed epochs become asset events. None is missed."""

from __future__ import annotations

from typing import Any

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.tasks.arguments import duration
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.history import EpochCursor, EpochHistory
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.telling import CheckpointEventTrigger, Told


class EpochEventTrigger(CheckpointEventTrigger):
    """For ``AssetWatcher``: every k-th committed epoch, or at most one event per interval.

    An event's payload is ``{id, query_id, checkpoint_location, first_epoch, epoch, offsets, rows,
    committed_at}``: it tells of the epochs from ``first_epoch`` to ``epoch``, both inclusive, and
    each epoch is told of by one event. ``offsets`` are the sources' end offsets of ``epoch``;
    ``rows`` is how many rows those epochs have written. What retention has removed before it was
    told, and ``rows`` of a query of Spark itself, is None. After a rewind, the epochs that commit
    again are told of again, with other ids.

    :param every: an event at each epoch whose number plus one is a multiple of this.
    :param at_most_every_s: no two events within so many seconds: one tells of all that was
        committed in between.
    :param from_epoch: the first epoch to tell of; None: the first one that commits after the first
        look. Only the first look of an asset counts.
    The other parameters are those of
    :class:`~airflow_provider_continuous.triggers.telling.CheckpointEventTrigger`.
    """

    noted_as = "epoch_events"

    def __init__(
        self,
        checkpoint_location: str,
        every: int = 1,
        at_most_every_s: float = 0.0,
        from_epoch: int | None = None,
        **watching: Any,
    ) -> None:
        super().__init__(checkpoint_location, **watching)
        if every < 1:
            raise ValueError(f"every is {every}; it is a whole number from 1.")
        self.every = every
        self.at_most_every_s = duration("at_most_every_s", at_most_every_s)
        self.from_epoch = from_epoch

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        own = {
            "every": self.every,
            "at_most_every_s": self.at_most_every_s,
            "from_epoch": self.from_epoch,
        }
        return {**super().arguments(), **own}

    def read(self, noted: dict[str, Any] | None) -> Told:
        """Return the epochs behind those that were told."""
        history = EpochHistory(
            CheckpointHook(self.checkpoint_location, self.storage_conn_id),
            every=self.every,
            at_most_every_s=self.at_most_every_s,
        )
        cursor = None if noted is None else EpochCursor(**noted)
        chapter = history.read(cursor, self.from_epoch)
        until = _MoreToTell(
            self.checkpoint_location, chapter.next_epoch, told=chapter.cursor, **self.waiting()
        )
        return Told(chapter.events, chapter.cursor, until, chapter.not_before)


class _MoreToTell(EpochCommittedTrigger):
    """Ends, too, when epochs that were told are not committed any more: what takes their place has
    lower numbers, or by the time of a look the same ones. It never leaves its process.

    :param told: how far.
    """

    def __init__(
        self, checkpoint_location: str, epoch: int, *, told: EpochCursor, **waiting: Any
    ) -> None:
        super().__init__(checkpoint_location, epoch, **waiting)
        self._told = told
        self._run_id: str | None = ""  # of the last look; there was none yet

    def look(self) -> Event | None:
        """Look once."""
        event = super().look()
        if event is not None:
            return event
        summary = self.summary()
        committed = self.hook.committed_epoch() if summary is None else summary.epoch
        run_id = None if summary is None else self.status().run_id
        is_same, self._run_id = run_id == self._run_id, run_id  # no run outlives a rewind
        if is_same and committed >= self._told.epoch:
            return None
        elsewhere = EpochHistory(self.hook).goes_on_elsewhere(self._told)
        return {"outcome": "committed"} if elsewhere else None

"""EpochEventTrigger: committed epochs become asset events. None is missed.

What Airflow has stored is known to the trigger, a second or two later; only then does it note, in
the asset's state store, which epoch that was. So whatever dies in between, the next triggerer goes
on behind the last epoch that is surely an event, and an event of these seconds may come again, with
the same ``id``: :func:`airflow_provider_continuous.assets.events.committed_epochs` drops it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk.definitions.asset import AssetNameRef
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_continuous.compat import AdvanceItem, SharedStreamProducer
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.history import EpochCursor, EpochHistory
from airflow_provider_continuous.triggers.poller import wait_for_event
from engine.errors import ConfigError, ContinuousError

RETRY_S = 30.0
"""A watcher has nobody to fail to: after an error it looks again so much later."""


@dataclass
class Turn:
    """From one batch of events to the next; the stream's two ends share it."""

    store: Any = None
    key: str = ""
    cursor: EpochCursor | None = None
    """Where the events end, once they are stored."""
    next_epoch: int = 0
    """The next turn begins when this epoch has committed, and not before ``not_before``."""
    not_before: float = 0.0
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def settle(self) -> None:
        """Note that the events are stored."""
        if self.cursor is not None:
            await self.store.aset(self.key, self.cursor.to_dict())
        self.settled.set()


class Turns(SharedStreamProducer):
    """Begins a turn when there is something to tell; ends it when Airflow has stored it.

    :param arguments: of the trigger.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments

    async def open_stream(self) -> AsyncIterator[tuple[Turn, Turn]]:
        """Yield turns, for ever."""
        while True:
            turn = Turn()
            yield turn, turn
            await turn.settled.wait()
            await asyncio.sleep(turn.not_before - time.time())
            await self._committed(turn.next_epoch)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Airflow has stored the events of these turns."""
        for item in batch:
            if item.outcome.is_clean:
                await item.broker_payload.settle()

    async def _committed(self, epoch: int) -> None:
        while True:
            waits = EpochCommittedTrigger(
                self._arguments["checkpoint_location"],
                epoch,
                wait_for_restart=True,
                storage_conn_id=self._arguments["storage_conn_id"],
                poll_interval_s=self._arguments["poll_interval_s"],
            )
            event = await wait_for_event(waits)
            if event["outcome"] == "committed":
                return
            waits.log.error("Looking again in %g s: %s", RETRY_S, event["error"])
            await asyncio.sleep(RETRY_S)


class EpochEventTrigger(BaseEventTrigger):
    """For ``AssetWatcher``: every k-th committed epoch, or at most one event per interval.

    An event's payload is ``{id, query_id, checkpoint_location, first_epoch, epoch, offsets, rows,
    committed_at}``: it tells of the epochs from ``first_epoch`` to ``epoch``, both inclusive, and
    each epoch is told of by one event. ``offsets`` are the sources' end offsets of ``epoch``;
    ``rows`` is how many rows those epochs have written. What retention has removed before it was
    told, and ``rows`` of a query of Spark itself, is None. After a rewind, the epochs that commit
    again are told of again, with other ids.

    :param checkpoint_location: as for :class:`CheckpointHook`.
    :param every: an event at each epoch whose number plus one is a multiple of this.
    :param at_most_every_s: no two events within so many seconds: one tells of all that was
        committed in between.
    :param from_epoch: the first epoch to tell of; None: the first one that commits after the first
        look. Only the first look of an asset counts.
    :param storage_conn_id: as for :class:`CheckpointHook`.
    :param poll_interval_s: seconds between two looks.
    :param asset_name: the asset in whose state store the last epoch is noted. Needed where several
        assets have a watcher with the same arguments: Airflow runs one trigger for all of them.
    """

    def __init__(
        self,
        checkpoint_location: str,
        every: int = 1,
        at_most_every_s: float = 0.0,
        from_epoch: int | None = None,
        storage_conn_id: str | None = None,
        poll_interval_s: float = 1.0,
        asset_name: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if every < 1:
            raise ValueError(f"every is {every}; it is a whole number from 1.")
        self.checkpoint_location = str(checkpoint_location)
        self.every = every
        self.at_most_every_s = at_most_every_s
        self.from_epoch = from_epoch
        self.storage_conn_id = storage_conn_id
        self.poll_interval_s = poll_interval_s
        self.asset_name = asset_name

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, as Airflow stores them."""
        names = (
            "checkpoint_location",
            "every",
            "at_most_every_s",
            "from_epoch",
            "storage_conn_id",
            "poll_interval_s",
            "asset_name",
        )
        class_path = f"{type(self).__module__}.{type(self).__qualname__}"
        return class_path, {name: getattr(self, name) for name in names}

    def shared_stream_key(self) -> Hashable:
        """Return what makes this trigger one of its own: Airflow tells what it has stored only to
        shared streams."""
        class_path, arguments = self.serialize()
        return class_path, json.dumps(arguments, sort_keys=True)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Turns:
        """Return what begins and ends the turns."""
        return Turns(kwargs)

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Turn]
    ) -> AsyncIterator[TriggerEvent]:
        """Yield the events of each turn."""
        store, key = self._store(), self._key()
        history = EpochHistory(
            CheckpointHook(self.checkpoint_location, self.storage_conn_id),
            every=self.every,
            at_most_every_s=self.at_most_every_s,
        )
        noted = await store.aget(key)
        cursor = None if noted is None else EpochCursor(**noted)
        async for turn in shared_stream:
            try:
                chapter = await asyncio.to_thread(history.read, cursor, self.from_epoch)
            except ContinuousError as error:
                self.log.error("Looking again in %g s: %s", RETRY_S, error)
                turn.not_before = time.time() + RETRY_S
                continue
            turn.store, turn.key = store, key
            turn.cursor = None if chapter.cursor == cursor else chapter.cursor
            turn.next_epoch, turn.not_before = chapter.next_epoch, chapter.not_before
            for event in chapter.events:
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]
            cursor = chapter.cursor

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield events where nobody tells what is stored: an event counts as such once the next
        one is asked for."""

        async def turns() -> AsyncIterator[Turn]:
            async for turn, _ in Turns(self.serialize()[1]).open_stream():
                yield turn
                await turn.settle()

        async for event in self.filter_shared_stream(turns()):
            yield event

    def _store(self) -> Any:
        if self.asset_state_store is None:
            raise ConfigError(
                "No asset watches these epochs.",
                hint="EpochEventTrigger is for Asset(watchers=[AssetWatcher(trigger=...)]).",
            )
        if self.asset_name is None:
            return self.asset_state_store
        return self.asset_state_store[AssetNameRef(self.asset_name)]

    def _key(self) -> str:
        digest = hashlib.sha256(self.checkpoint_location.encode()).hexdigest()
        return f"epoch_events_{digest[:16]}"

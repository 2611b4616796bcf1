"""What event triggers of checkpoints have in common: what they have told is noted, and no more.

What Airflow has stored is known to the trigger, a second or two later; only then does it note, in
the asset's state store, how far that was. So whatever dies in between, the next triggerer goes on
behind what is surely an event, and an event of these seconds may come again, with the same ``id``:
:func:`airflow_provider_continuous.assets.events.committed_epochs` drops it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

from airflow.sdk.definitions.asset import AssetNameRef
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_continuous.compat import AdvanceItem, SharedStreamProducer
from airflow_provider_continuous.connections.location import CheckpointLocation
from airflow_provider_continuous.errors import is_final
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.tasks.arguments import duration
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import wait_for_event
from engine.errors import ConfigError, ContinuousError
from engine.redaction.logs import redact
from engine.redaction.texts import encodable

EVENTS_MAX = 50
"""So many events at most before Airflow has stored them."""
RETRY_S = 30.0
"""A watcher has nobody to fail to: after an error it looks again so much later."""


class Cursor(Protocol):
    """How far has been told."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""


@dataclass(frozen=True)
class Told:
    """What one look has found.

    :param cursor: where it ends.
    :param until: there is nothing more before this wait has ended,
    :param not_before: and nothing before this time, in seconds since 1970.
    """

    events: Sequence[dict[str, Any]]
    cursor: Cursor
    until: CheckpointTrigger
    not_before: float = 0.0


@dataclass
class Turn:
    """From one batch of events to the next; the stream's two ends share it."""

    store: Any = None
    key: str = ""
    cursor: Cursor | None = None
    """Where the events end, once they are stored."""
    until: CheckpointTrigger | None = None
    """The next turn begins when this has ended, and not before ``not_before``."""
    not_before: float = 0.0
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def settle(self) -> None:
        """Note that the events are stored."""
        if self.cursor is not None:
            await self.store.aset(self.key, self.cursor.to_dict())
        self.settled.set()


class Turns(SharedStreamProducer):
    """Begins a turn when there is something to tell; ends it when Airflow has stored it."""

    async def open_stream(self) -> AsyncIterator[tuple[Turn, Turn]]:
        """Yield turns, for ever."""
        while True:
            turn = Turn()
            yield turn, turn
            await turn.settled.wait()
            await asyncio.sleep(turn.not_before - time.time())
            if turn.until is not None:
                await _committed(turn.until)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Airflow has stored the events of these turns."""
        for item in batch:
            if item.outcome.is_clean:
                await item.broker_payload.settle()


async def _committed(waits: CheckpointTrigger) -> None:
    while True:
        try:
            event = await wait_for_event(waits)
        except ContinuousError as error:  # it is away for longer than a task would bear it
            event = {"outcome": "error", "error": redact(str(error))}
        if event["outcome"] == "committed":
            return
        waits.log.error("Looking again in %g s: %s", RETRY_S, event["error"])
        await asyncio.sleep(RETRY_S)


class CheckpointEventTrigger(BaseEventTrigger):
    """See the module.

    :param checkpoint_location: as for :class:`CheckpointHook`.
    :param storage_conn_id: as for :class:`CheckpointHook`.
    :param poll_interval_s: seconds between two looks.
    :param asset_name: the asset in whose state store it is noted how far has been told. Needed
        where several assets have a watcher with the same arguments: Airflow runs one trigger for
        all of them.
    """

    noted_as: ClassVar[str]

    def __init__(
        self,
        checkpoint_location: str,
        storage_conn_id: str | None = None,
        poll_interval_s: float = 1.0,
        asset_name: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.checkpoint_location = str(checkpoint_location)
        self.storage_conn_id = storage_conn_id
        self.poll_interval_s = duration("poll_interval_s", poll_interval_s)
        self.asset_name = asset_name

    @abstractmethod
    def read(self, noted: dict[str, Any] | None) -> Told:
        """Look once.

        :param noted: the cursor of the last events that were stored; None: there are none.
        """

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again; subclasses add their own."""
        return {
            "checkpoint_location": self.checkpoint_location,
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval_s,
            "asset_name": self.asset_name,
        }

    def waiting(self) -> dict[str, Any]:
        """Return what the waits between two looks have of this trigger."""
        return {
            "wait_for_restart": True,
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval_s,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, as Airflow stores them."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments()

    def shared_stream_key(self) -> Hashable:
        """Return what makes this trigger one of its own: Airflow tells what it has stored only to
        shared streams."""
        class_path, arguments = self.serialize()
        return class_path, json.dumps(arguments, sort_keys=True)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Turns:
        """Return what begins and ends the turns."""
        return Turns()

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Turn]
    ) -> AsyncIterator[TriggerEvent]:
        """Yield the events of each turn."""
        store, key = self._store(), self._key()
        noted = await store.aget(key)
        async for turn in shared_stream:
            try:
                told = await self._read(noted)
            except ContinuousError as error:
                self.log.error("Looking again in %g s: %s", RETRY_S, error)
                turn.not_before = time.time() + RETRY_S
                if not is_final(error):
                    where = self.checkpoint_location, self.storage_conn_id
                    CheckpointLocation.parse(*where).look_up_again()
                continue
            found = told.cursor.to_dict()
            turn.store, turn.key = store, key
            turn.cursor = None if found == noted else told.cursor
            turn.until, turn.not_before = told.until, told.not_before
            for event in told.events:
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]
            noted = found

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield events where nobody tells what is stored: an event counts as such once the next
        one is asked for."""

        async def turns() -> AsyncIterator[Turn]:
            async for turn, _ in Turns().open_stream():
                yield turn
                await turn.settle()

        async for event in self.filter_shared_stream(turns()):
            yield event

    async def _read(self, noted: dict[str, Any] | None) -> Told:
        place = place_of(self.checkpoint_location)
        return await POOL.soon(place, partial(self.read, noted), key=(id(self), "events"))

    def _store(self) -> Any:
        if self.asset_state_store is None:
            raise ConfigError(
                "No asset watches this checkpoint.",
                hint=f"{type(self).__name__} is for Asset(watchers=[AssetWatcher(trigger=...)]).",
            )
        if self.asset_name is None:
            return self.asset_state_store
        return self.asset_state_store[AssetNameRef(self.asset_name)]

    def _key(self) -> str:
        digest = hashlib.sha256(encodable(self.checkpoint_location).encode()).hexdigest()
        return f"{self.noted_as}_{digest[:16]}"

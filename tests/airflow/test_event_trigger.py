"""EpochEventTrigger, under Airflow's own runner of shared streams: none missed, what is told."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from airflow.jobs.triggerer_job_runner import TriggerRunner

from airflow_provider_continuous.assets.uris import query_asset
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.triggers import base, history, telling
from airflow_provider_continuous.triggers.events import EpochEventTrigger
from airflow_provider_continuous.triggers.history import EpochHistory
from airflow_provider_continuous.triggers.telling import CheckpointEventTrigger
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import ASIDE
from engine.checkpoint.summary import Summary
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.test_changed_credentials import Vault, commit


class AssetStore(dict[str, Any]):
    """Airflow's asset state store, of one asset, in memory."""

    async def aget(self, key: str) -> Any:
        return json.loads(self[key]) if key in self else None

    async def aset(self, key: str, value: Any) -> None:
        self[key] = json.dumps(value)


class Triggerer:
    """Airflow's runner with one trigger; the test is the supervisor that stores the events."""

    def __init__(self, trigger: CheckpointEventTrigger, store: AssetStore) -> None:
        class_path, arguments = trigger.serialize()
        assert class_path.endswith(type(trigger).__name__)
        trigger = type(trigger)(**json.loads(json.dumps(arguments)))
        trigger.asset_state_store = store  # type: ignore[assignment]
        self.runner: Any = TriggerRunner()  # type: ignore[no-untyped-call]
        self.task = asyncio.create_task(self.runner.run_trigger(1, trigger))
        self.runner.triggers[1] = {"task": self.task, "name": "ours", "events": 0}

    async def events(self, count: int, stored: bool = True) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            assert not self.task.done() or self.task.result()
            while self.runner.events:
                entry = self.runner.events.popleft()
                assert entry.persist_seq is not None, "Airflow would not tell when it is stored"
                found.append(json.loads(entry.event.model_dump_json())["payload"])
                if stored:
                    self.runner._shared_streams.confirm_persisted([entry.persist_seq])
            await asyncio.sleep(0.01)
        assert len(found) == count
        return found

    async def dies(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
def store() -> AssetStore:
    return AssetStore()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 120))


def watch(live: LiveCheckpoint, **arguments: Any) -> EpochEventTrigger:
    return EpochEventTrigger(live.location, **{"poll_interval_s": 0.02, **arguments})


async def noted(store: AssetStore, epoch: int) -> None:
    while not store or json.loads(next(iter(store.values())))["epoch"] != epoch:
        await asyncio.sleep(0.01)


def numbers(told: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(event["first_epoch"], event["epoch"]) for event in told]


def test_every_epoch_is_told_once_across_restarts(live: LiveCheckpoint, store: AssetStore) -> None:
    live.commit(0, 1)

    async def scenario() -> None:
        triggerer = Triggerer(watch(live), store)
        await noted(store, 1)
        live.commit(2, 3)
        told = await triggerer.events(2)
        assert numbers(told) == [(2, 2), (3, 3)]
        assert told[0]["offsets"] == [{"0": 30}]
        assert told[0]["id"] == "a-query/0/2"
        assert told[0]["rows"] is None
        await noted(store, 3)
        await triggerer.dies()
        live.commit(*range(4, 200))  # more than one batch
        triggerer = Triggerer(watch(live), store)
        assert numbers(await triggerer.events(196)) == [(n, n) for n in range(4, 200)]
        await triggerer.dies()

    run(scenario)


def test_what_airflow_has_not_stored_is_told_again(live: LiveCheckpoint, store: AssetStore) -> None:
    async def scenario() -> None:
        triggerer = Triggerer(watch(live, from_epoch=0), store)
        live.commit(0)
        lost = await triggerer.events(1, stored=False)
        await triggerer.dies()
        assert store == {} or json.loads(next(iter(store.values())))["epoch"] == -1
        triggerer = Triggerer(watch(live, from_epoch=0), store)
        again = await triggerer.events(1)
        assert [event["id"] for event in again] == [event["id"] for event in lost]
        await noted(store, 0)
        await triggerer.dies()

    run(scenario)


def test_a_query_that_is_named_is_looked_for_in_the_checkpoint_root(
    live: LiveCheckpoint, connection: Callable[..., None]
) -> None:
    root, _, name = live.location.rpartition("/")
    connection("continuous_default", "continuous", extra={"checkpoint-root": root})
    live.commit(0, 1)
    asset = query_asset(name, every=1, from_epoch=0)
    (watcher,) = asset.watchers
    assert isinstance(watcher.trigger, EpochEventTrigger)

    told = watcher.trigger.read(None)

    assert numbers(told.events) == [(0, 0), (1, 1)]
    assert asset.uri == f"continuous://{name}/"


def test_every_third_epoch(live: LiveCheckpoint, store: AssetStore) -> None:
    live.commit(0)

    async def scenario() -> None:
        triggerer = Triggerer(watch(live, every=3), store)
        await noted(store, 0)
        live.commit(*range(1, 7))
        assert numbers(await triggerer.events(2)) == [(1, 2), (3, 5)]
        live.commit(7, 8)
        assert numbers(await triggerer.events(1)) == [(6, 8)]
        await triggerer.dies()

    run(scenario)


def test_at_most_one_event_per_interval(live: LiveCheckpoint, store: AssetStore) -> None:
    live.commit(0, 1, 2)

    async def scenario() -> None:
        triggerer = Triggerer(watch(live, at_most_every_s=0.5, from_epoch=0), store)
        assert numbers(await triggerer.events(1)) == [(0, 2)]
        live.commit(3)
        live.commit(4, 5)
        assert numbers(await triggerer.events(1)) == [(3, 5)]
        await triggerer.dies()

    run(scenario)


@pytest.mark.parametrize("at_most_every_s", [0.0, 60.0])
def test_a_clock_that_was_ahead_delays_no_event(
    live: LiveCheckpoint, at_most_every_s: float
) -> None:
    live.commit(0, 1)
    epochs = EpochHistory(CheckpointHook(live.location), at_most_every_s=at_most_every_s)
    noted = epochs.read(None, from_epoch=0).cursor
    ahead = replace(noted, epoch=0, at=time.time() + 86_400)

    chapter = epochs.read(ahead)

    assert chapter.not_before <= time.time() + at_most_every_s
    later = replace(chapter.cursor, at=chapter.cursor.at - at_most_every_s)
    told = [event["epoch"] for event in [*chapter.events, *epochs.read(later).events]]
    assert told == [1]


def test_a_commit_of_a_clock_that_was_ahead_is_told(live: LiveCheckpoint) -> None:
    live.commit(0, 1)
    live.checkpoint.progress.write([{"batchId": 0, "sink": {"numOutputRows": 10}}])
    day_later = time.time() + 86_400
    os.utime(Path(live.location) / "commits" / "1", (day_later, day_later))

    chapter = EpochHistory(CheckpointHook(live.location)).read(None, from_epoch=0)

    assert [event["rows"] for event in chapter.events] == [10, None]


def test_epochs_that_retention_has_removed(live: LiveCheckpoint, store: AssetStore) -> None:
    live.commit(0, 1)
    for folder in ("commits", "offsets"):
        live.checkpoint.storage.delete(f"{folder}/0")

    async def scenario() -> None:
        triggerer = Triggerer(watch(live, from_epoch=0), store)
        told = await triggerer.events(2)
        assert numbers(told) == [(0, 0), (1, 1)]
        assert [event["offsets"] for event in told] == [None, [{"0": 20}]]
        await triggerer.dies()

    run(scenario)


def test_rows_are_those_of_the_reports(
    live: LiveCheckpoint, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "REPORT_WAIT_S", 60.0)
    live.commit(0, 1, 2)
    reports = [{"batchId": n, "sink": {"numOutputRows": 10 + n}} for n in range(3)]
    live.checkpoint.progress.write(reports)

    async def scenario() -> None:
        triggerer = Triggerer(watch(live, every=3, from_epoch=0), store)
        assert [event["rows"] for event in await triggerer.events(1)] == [33]
        live.commit(3, 4, 5)
        live.checkpoint.progress.write(
            [*reports, *({"batchId": n, "sink": {"numOutputRows": 1}} for n in range(3, 6))]
        )
        assert [event["rows"] for event in await triggerer.events(1)] == [3]
        await triggerer.dies()

    run(scenario)


def test_after_a_rewind_the_epochs_are_told_again(live: LiveCheckpoint) -> None:
    live.commit(*range(6))
    history = EpochHistory(CheckpointHook(live.location))
    before = history.read(None, from_epoch=0)
    assert numbers(before.events) == [(n, n) for n in range(6)]
    live.checkpoint.rewind(2, accept_repeats=True)
    assert history.read(before.cursor).next_epoch == 3
    live.commit(*range(3, 8))

    after = history.read(before.cursor)

    assert numbers(after.events) == [(n, n) for n in range(3, 8)]
    assert not {e["id"] for e in after.events} & {e["id"] for e in before.events}
    assert history.read(after.cursor).events == []


def test_a_rewind_is_known_whose_entries_were_deleted(live: LiveCheckpoint) -> None:
    live.commit(*range(6))
    history = EpochHistory(CheckpointHook(live.location))
    before = history.read(None, from_epoch=0)
    live.checkpoint.rewind(2, accept_repeats=True)
    shutil.rmtree(Path(live.location) / ASIDE)
    assert history.read(before.cursor).next_epoch == 3
    live.commit(3)
    assert numbers(history.read(before.cursor).events) == [(3, 3)]


def test_another_query_in_the_same_place(live: LiveCheckpoint) -> None:
    live.commit(0, 1)
    cursor = EpochHistory(CheckpointHook(live.location)).read(None).cursor
    live.checkpoint.delete()
    live.checkpoint.create_or_read_query_id("another")
    live.commit(0)

    (event,) = EpochHistory(CheckpointHook(live.location)).read(cursor).events

    assert event["id"] == "another/0/0"


def rewinds(live: LiveCheckpoint) -> None:
    live.checkpoint.rewind(2, accept_repeats=True)
    live.commit(3)


def makes_anew(live: LiveCheckpoint) -> None:
    live.checkpoint.delete()
    live.checkpoint.create_or_read_query_id("another")
    live.commit(0)


@pytest.mark.parametrize(("happens", "told"), [(rewinds, "1/3"), (makes_anew, "another/0/0")])
def test_what_goes_on_elsewhere_is_told_of_while_it_waits(
    live: LiveCheckpoint, store: AssetStore, happens: Callable[[LiveCheckpoint], None], told: str
) -> None:
    """What commits then has lower numbers than the epoch that is waited for."""

    async def scenario() -> None:
        live.commit(*range(6))
        triggerer = Triggerer(watch(live, from_epoch=0), store)
        await triggerer.events(6)
        await noted(store, 5)
        happens(live)
        (event,) = await triggerer.events(1)
        assert event["id"].endswith(told)
        await triggerer.dies()

    run(scenario)


def test_a_rewind_is_told_of_though_as_many_epochs_have_committed_by_the_next_look(
    live: LiveCheckpoint,
) -> None:
    def runs(run_id: str, *epochs: int) -> None:
        live.hold(run_id)
        live.commit(*epochs)
        assert live.lease is not None
        live.lease.heartbeat(summary=Summary(epoch=epochs[-1]))

    runs("run-1", *range(6))
    trigger = watch(live, from_epoch=0)
    told = trigger.read(None)
    assert told.until.observe() is None
    live.end(QueryState.STOPPED)
    live.checkpoint.rewind(2, accept_repeats=True)
    runs("run-2", 3, 4, 5)

    assert told.until.observe() is not None

    again = trigger.read(told.cursor.to_dict())
    assert numbers(list(again.events)) == [(3, 3), (4, 4), (5, 5)]
    assert again.until.observe() is None


def test_a_checkpoint_that_is_away_is_not_begun_again(live: LiveCheckpoint) -> None:
    """As is a mount that somebody has taken away for a moment."""
    live.commit(0, 1)
    history = EpochHistory(CheckpointHook(live.location))
    cursor = history.read(None).cursor
    Path(live.location).rename(away := Path(f"{live.location}-away"))
    assert history.read(cursor).cursor == cursor
    away.rename(live.location)
    live.commit(2)
    assert numbers(history.read(cursor).events) == [(2, 2)]


def test_generations_that_are_no_rewinds_cost_no_look(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.commit(*range(3))
    history = EpochHistory(CheckpointHook(live.location))
    before = history.read(None, from_epoch=0)
    for run in range(30):  # each takes the next generation
        live.hold(f"run-{run}")
        live.end(QueryState.STOPPED)
    live.checkpoint.rewind(1, accept_repeats=True)
    looks: list[str] = []
    folder = type(live.checkpoint.storage)
    whole = folder.list

    def counting(storage: Any, name: str) -> Any:
        looks.append(name)
        return whole(storage, name)

    monkeypatch.setattr(folder, "list", counting)
    history.read(None)
    assert history.read(before.cursor).next_epoch == 2
    assert len(looks) < 10, looks


def test_a_broken_checkpoint_does_not_end_the_watch(
    live: LiveCheckpoint, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "RETRY_S", 0.05)
    live.commit(0)
    entry = live.checkpoint.storage.read("offsets/0")
    live.checkpoint.storage.delete("offsets/0")

    async def scenario() -> None:
        triggerer = Triggerer(watch(live, from_epoch=0), store)
        await asyncio.sleep(0.2)
        assert not triggerer.task.done()
        live.checkpoint.storage.create("offsets/0", entry)
        assert numbers(await triggerer.events(1)) == [(0, 0)]
        await triggerer.dies()

    run(scenario)


def test_storage_that_stays_away_does_not_end_the_watch(
    store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a task would bear it: a watcher has no task that could be tried again."""
    monkeypatch.setattr(telling, "RETRY_S", 0.05)
    monkeypatch.setattr(base, "UNREACHABLE_MAX_S", 0.05)
    fsspec.register_implementation(Vault.protocol, Vault, clobber=True)
    monkeypatch.setattr(Vault, "key_of_now", None)
    monkeypatch.setattr(Vault, "store", {})
    commit(0)

    async def refused(triggerer: Triggerer) -> None:
        """Until it has been away for long enough, and again as it is tried again."""
        monkeypatch.setattr(Vault, "key_of_now", "another")
        until = time.monotonic() + 10 * base.UNREACHABLE_MAX_S
        while time.monotonic() < until and not triggerer.task.done():
            await asyncio.sleep(0.01)
        monkeypatch.setattr(Vault, "key_of_now", None)

    async def scenario() -> None:
        watching = EpochEventTrigger("changing-vault://orders", from_epoch=0, poll_interval_s=0.02)
        triggerer = Triggerer(watching, store)
        assert numbers(await triggerer.events(1)) == [(0, 0)]
        await noted(store, 0)
        await refused(triggerer)
        assert not triggerer.task.done()
        commit(1)
        assert numbers(await triggerer.events(1)) == [(1, 1)]
        await triggerer.dies()

    run(scenario)


def test_it_needs_an_asset(live: LiveCheckpoint) -> None:
    async def scenario() -> None:
        async for _ in watch(live).run():
            raise AssertionError("an event of no asset")

    with pytest.raises(ConfigError, match="No asset watches"):
        run(scenario)


def test_without_shared_streams(live: LiveCheckpoint, store: AssetStore) -> None:
    live.commit(0, 1)

    async def scenario() -> None:
        trigger = watch(live, from_epoch=0)
        trigger.asset_state_store = store  # type: ignore[assignment]
        told = []
        async for event in trigger.run():
            told.append(event.payload["epoch"])
            if len(told) == 2:
                break
        assert told == [0, 1]

    run(scenario)

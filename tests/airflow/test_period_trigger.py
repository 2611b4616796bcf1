"""PeriodEventTrigger, under Airflow's own runner of shared streams: each period is told of once."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_continuous.assets.uris import query_asset
from airflow_provider_continuous.triggers.periods import PeriodEventTrigger
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.test_event_trigger import AssetStore, Triggerer, run

DAY = datetime(2026, 11, 24, tzinfo=timezone.utc)


@pytest.fixture
def store() -> AssetStore:
    return AssetStore()


def commit(live: LiveCheckpoint, epoch: int, watermark: datetime | None) -> None:
    at_ms = 0 if watermark is None else millis(watermark)
    assert live.checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
    assert live.checkpoint.commits.add(epoch, CommitEntry(at_ms))


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def watch(live: LiveCheckpoint, **arguments: Any) -> PeriodEventTrigger:
    return PeriodEventTrigger(live.location, **{"poll_interval_s": 0.02, **arguments})


async def noted(store: AssetStore, told: datetime | None) -> None:
    wanted = None if told is None else int(told.timestamp() * 1000)
    while not store or json.loads(next(iter(store.values())))["told_ms"] != wanted:
        await asyncio.sleep(0.01)


def days(told: list[dict[str, Any]]) -> list[str]:
    return [event["start"][:10] for event in told]


def test_each_day_is_told_once_across_restarts(live: LiveCheckpoint, store: AssetStore) -> None:
    commit(live, 0, None)  # no day since 1970 is told when the first watermark comes

    async def scenario() -> None:
        triggerer = Triggerer(watch(live), store)
        await noted(store, None)
        commit(live, 1, DAY + timedelta(hours=3))
        await noted(store, DAY)
        commit(live, 2, DAY + timedelta(days=1))
        (event,) = await triggerer.events(1)
        assert (event["start"], event["end"]) == (DAY.isoformat(), "2026-11-25T00:00:00+00:00")
        assert (event["epoch"], event["offsets"]) == (2, [2])
        assert event["id"] == "a-query/2026-11-25T00:00:00+00:00"
        await noted(store, DAY + timedelta(days=1))
        await triggerer.dies()
        commit(live, 3, DAY + timedelta(days=3, hours=1))
        triggerer = Triggerer(watch(live), store)
        assert days(await triggerer.events(2)) == ["2026-11-25", "2026-11-26"]
        await triggerer.dies()

    run(scenario)


def test_other_periods_begin_where_those_of_before_have_ended(live: LiveCheckpoint) -> None:
    commit(live, 0, DAY + timedelta(hours=12, minutes=30))
    told = watch(live, period_s=3600).read(None)
    commit(live, 1, DAY + timedelta(hours=13, minutes=5))
    told = watch(live, period_s=3600).read(told.cursor.to_dict())
    assert [event["start"][11:16] for event in told.events] == ["12:00"]
    commit(live, 2, DAY + timedelta(days=1, minutes=5))
    told = watch(live).read(told.cursor.to_dict())
    assert days(told.events) == ["2026-11-24"]
    commit(live, 3, DAY + timedelta(days=2, hours=6))
    told = watch(live, offset_s=6 * 3600).read(told.cursor.to_dict())
    assert [event["start"][:13] for event in told.events] == ["2026-11-24T06", "2026-11-25T06"]


def test_behind_a_join_periods_are_complete_later(live: LiveCheckpoint) -> None:
    commit(live, 0, DAY + timedelta(hours=1))
    trigger = watch(live, lag_s=2 * 3600)
    told = trigger.read(None)
    assert (told.events, told.cursor.told_ms) == ([], millis(DAY - timedelta(days=1)))
    assert told.until.at == "2026-11-24T02:00:00+00:00"  # type: ignore[attr-defined]
    commit(live, 1, DAY + timedelta(hours=2))
    told = trigger.read(told.cursor.to_dict())
    assert days(told.events) == ["2026-11-23"]
    assert told.events[0]["watermark"] == "2026-11-24T02:00:00+00:00"
    with pytest.raises(ValueError, match="lag_s is -1"):
        watch(live, lag_s=-1)


def test_from_a_time_on(live: LiveCheckpoint, store: AssetStore) -> None:
    commit(live, 0, DAY + timedelta(hours=2, minutes=59))
    trigger = watch(live, period_s=3600, offset_s=1800, from_time="2026-11-24T00:45:00Z")
    told = trigger.read(None)
    starts = [event["start"][11:16] for event in told.events]
    assert starts == ["00:30", "01:30"]
    assert told.until.at == "2026-11-24T03:30:00+00:00"  # type: ignore[attr-defined]
    again = trigger.read(told.cursor.to_dict())
    assert (again.events, again.cursor) == ([], told.cursor)


def test_a_watermark_that_goes_back_tells_nothing_again(live: LiveCheckpoint) -> None:
    commit(live, 0, DAY)
    told = watch(live).read({"told_ms": int((DAY + timedelta(days=1)).timestamp() * 1000)})
    assert told.events == []
    assert told.until.at == (DAY + timedelta(days=2)).isoformat()  # type: ignore[attr-defined]


def test_many_at_once_are_told_in_turns(live: LiveCheckpoint) -> None:
    commit(live, 0, DAY)
    trigger = watch(live, period_s=60, from_time="2026-11-23T22:00:00Z")
    told = trigger.read(None)
    assert len(told.events) == 50
    assert len(trigger.read(told.cursor.to_dict()).events) == 50


def test_an_asset_of_days(live: LiveCheckpoint) -> None:
    (watcher,) = query_asset(live.location, complete_every=timedelta(days=1)).watchers
    class_path, arguments = watcher.trigger.serialize()  # type: ignore[union-attr]
    assert class_path.endswith("triggers.periods.PeriodEventTrigger")
    made = PeriodEventTrigger(**json.loads(json.dumps(arguments)))
    assert (made.period_s, made.asset_name is not None) == (86_400, True)


def test_bad_arguments(live: LiveCheckpoint) -> None:
    with pytest.raises(ValueError, match="period_s is 0"):
        watch(live, period_s=0)
    with pytest.raises(ConfigError, match="from_time is 'noon'"):
        watch(live, from_time="noon")
    with pytest.raises(ValueError, match="make another asset"):
        query_asset(live.location, complete_every=timedelta(days=1), every=1)

"""WatermarkSensor: the time that is waited for, and the watermark that counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_continuous.compat import (
    AirflowFailException,
    AirflowSensorTimeout,
    TaskDeferred,
)
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.sensors.watermark import WatermarkSensor
from airflow_provider_continuous.triggers.watermark import WatermarkTrigger
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

Sensor = Callable[..., WatermarkSensor]
MIDNIGHT = datetime(2026, 11, 24, tzinfo=timezone.utc)


@pytest.fixture
def sensor(live: LiveCheckpoint) -> Sensor:
    def make(**arguments: Any) -> WatermarkSensor:
        given = {
            "task_id": "wait",
            "checkpoint_location": live.location,
            "at": MIDNIGHT.isoformat(),
            "timeout": 600,
        }
        return WatermarkSensor(**{**given, **arguments})

    return make


def commit(
    live: LiveCheckpoint, epoch: int, watermark: datetime, metadata: dict[str, Any] | None = None
) -> None:
    """An epoch behind which the watermark is there."""
    assert live.checkpoint.offsets.add(epoch, OffsetEntry((epoch,), metadata))
    assert live.checkpoint.commits.add(epoch, CommitEntry(millis(watermark)))


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def deferred(task: WatermarkSensor, context: Any) -> WatermarkTrigger:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    trigger = caught.value.trigger
    assert isinstance(trigger, WatermarkTrigger)
    class_path, arguments = trigger.serialize()
    assert class_path.endswith("triggers.watermark.WatermarkTrigger")
    return WatermarkTrigger(**json.loads(json.dumps(arguments)))


@pytest.mark.parametrize("mode", [None, "poke", "reschedule"])
@pytest.mark.parametrize(
    "at",
    [
        MIDNIGHT,
        "2026-11-24T00:00:00Z",
        " 2026-11-24 00:00:00+00:00 ",
        "2026-11-24T01:00:00.000000+01:00",
    ],
)
def test_a_day_that_is_complete(
    live: LiveCheckpoint, sensor: Sensor, context: Any, mode: str | None, at: Any
) -> None:
    commit(live, 0, MIDNIGHT - timedelta(minutes=1))
    commit(live, 1, MIDNIGHT)

    result = sensor(at=at, mode=mode).execute(context)

    assert (result["epoch"], result["offsets"]) == (1, [1])
    assert result["watermark"] == "2026-11-24T00:00:00+00:00"
    assert result["committed_at"].endswith("+00:00")


def test_the_last_millisecond_is_awaited(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    task = sensor()
    trigger = deferred(task, context)
    assert trigger.observe() is None
    commit(live, 0, MIDNIGHT - timedelta(milliseconds=1))
    assert trigger.observe() is None
    commit(live, 1, MIDNIGHT + timedelta(hours=1))
    event = trigger.observe()
    assert event is not None
    assert task.execute_complete(context, event)["epoch"] == 1


def test_spark_closes_in_the_batch_after(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    """The watermark of its commit is that of the next batch, in which the rows come out."""
    live.hold()
    began = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
    commit(live, 0, MIDNIGHT, began)
    trigger = deferred(sensor(), context)
    assert trigger.observe() is None
    commit(live, 1, MIDNIGHT, {**began, "batchWatermarkMs": millis(MIDNIGHT)})
    assert trigger.observe() is not None


def test_an_epoch_of_this_engine_commits_what_it_closes(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    began = {"batchWatermarkMs": 0, "conf": {}, "writtenBy": "continuous"}
    commit(live, 0, MIDNIGHT, began)
    assert sensor().execute(context)["epoch"] == 0


@pytest.mark.parametrize("at", ["", "None", "{{ ts }}", "2026-11-24", "midnight", 7])
@pytest.mark.parametrize("mode", [None, "poke"])
def test_what_is_no_time_fails_before_the_wait(
    sensor: Sensor, context: Any, at: Any, mode: str | None
) -> None:
    with pytest.raises(AirflowFailException, match=r"at is .* not a time with its zone"):
        sensor(at=at, mode=mode).execute(context)


@pytest.mark.parametrize("mode", [None, "poke"])
def test_nobody_will_move_it(
    live: LiveCheckpoint, sensor: Sensor, context: Any, mode: str | None
) -> None:
    live.hold()
    commit(live, 0, MIDNIGHT - timedelta(days=1))
    live.end(QueryState.STOPPED)

    with pytest.raises(QueryEndedError, match="the query is STOPPED at epoch 0"):
        sensor(mode=mode).execute(context)
    with pytest.raises(AirflowSensorTimeout):
        sensor(mode=mode, wait_for_restart=True, timeout=0).execute(context)


def test_a_query_that_commits_it_and_ends_has_not_ended_before(
    live: LiveCheckpoint, sensor: Sensor, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    commit(live, 0, MIDNIGHT - timedelta(days=1))
    trigger = deferred(sensor(), context)
    look = CheckpointHook.watermark

    def ended_since(hook: CheckpointHook) -> Any:
        found = look(hook)
        if live.lease is not None:
            commit(live, 1, MIDNIGHT)
            live.end(QueryState.STOPPED)
            live.lease = None
        return found

    monkeypatch.setattr(CheckpointHook, "watermark", ended_since)
    assert trigger.look() is None
    event = trigger.look()
    assert event is not None
    assert (event["outcome"], event["epoch"]) == ("committed", 1)


def test_it_begins_in_the_triggerer(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    task = sensor(at="{{ data_interval_end }}", start_from_trigger=True)
    start = task.start_trigger_args
    assert task.start_from_trigger
    assert start is not None
    trigger = WatermarkTrigger(**json.loads(json.dumps(start.trigger_kwargs)))
    for field in ("checkpoint_location", "at", "storage_conn_id"):
        assert field in task.template_fields
        assert hasattr(trigger, field), "Airflow would not render it"
    commit(live, 0, MIDNIGHT)
    event = trigger.observe()
    assert event is not None
    assert "not a time" in event["error"], "what was not rendered is told"
    trigger.at = "2026-11-24 00:00:00+00:00"  # as Airflow renders it
    event = trigger.observe()
    assert event is not None
    assert task.execute_complete(context, event)["epoch"] == 0

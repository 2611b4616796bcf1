"""OffsetsCommittedSensor: given offsets, and what was in the source at first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    TaskDeferred,
)
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor
from airflow_provider_continuous.triggers.offsets import OffsetsCommittedTrigger
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

Sensor = Callable[..., OffsetsCommittedSensor]


@pytest.fixture
def sensor(live: LiveCheckpoint) -> Sensor:
    def make(**arguments: Any) -> OffsetsCommittedSensor:
        given = {"task_id": "wait", "checkpoint_location": live.location, "timeout": 600}
        return OffsetsCommittedSensor(**{**given, **arguments})

    return make


def deferred(task: OffsetsCommittedSensor, context: Any) -> OffsetsCommittedTrigger:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    trigger = caught.value.trigger
    assert isinstance(trigger, OffsetsCommittedTrigger)
    class_path, arguments = trigger.serialize()
    assert class_path.endswith("triggers.offsets.OffsetsCommittedTrigger")
    return OffsetsCommittedTrigger(**json.loads(json.dumps(arguments)))


def commit(live: LiveCheckpoint, epoch: int, *offsets: Any) -> None:
    assert live.checkpoint.offsets.add(epoch, OffsetEntry(offsets))
    assert live.checkpoint.commits.add(epoch, CommitEntry())


@pytest.mark.parametrize("mode", [None, "poke", "reschedule"])
@pytest.mark.parametrize("offsets", [{"0": 20}, [{"0": 20}], '{"0": 20}', ' [{"0": 20}] '])
def test_what_is_in(
    live: LiveCheckpoint, sensor: Sensor, context: Any, mode: str | None, offsets: Any
) -> None:
    live.commit(0, 1, 2)

    result = sensor(offsets=offsets, mode=mode).execute(context)

    assert (result["epoch"], result["offsets"]) == (2, [{"0": 30}])
    assert result["wanted"] == 'the offsets [{"0": 20}]'


def test_what_is_not_in_is_awaited(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.hold()
    live.commit(0)
    task = sensor(offsets={"0": 11})

    trigger = deferred(task, context)

    assert trigger.observe() is None
    live.commit(1)
    event = trigger.observe()
    assert event is not None
    assert task.execute_complete(context, event)["epoch"] == 1


def test_one_source_of_two_may_not_matter(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    commit(live, 0, {"t": {"0": 5}}, {"a.json": 3})

    assert sensor(offsets=[None, {"a.json": 3}]).execute(context)["epoch"] == 0
    assert deferred(sensor(offsets=[{"t": {"0": 6}}, None]), context).observe() is None


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ("{{ oops }}", "no JSON"),
        ([], "nothing to wait for"),
        ([None], "nothing to wait for"),
        ({"t": {"0": -1}}, "Spark's -1 and -2"),
        ([{"0": 1}, {"0": 1}], "has 1 source, and there are offsets for 2"),
        ({"0": "10"}, "Nothing tells whether"),
        ({"0": {"1": 1}}, "Nothing tells whether"),
    ],
)
@pytest.mark.parametrize("mode", [None, "poke"])
def test_what_cannot_be_compared_fails_for_good(
    live: LiveCheckpoint, sensor: Sensor, context: Any, offsets: Any, why: str, mode: str | None
) -> None:
    live.commit(0)

    with pytest.raises(AirflowFailException, match=why):
        sensor(offsets=offsets, mode=mode).execute(context)


@pytest.mark.parametrize("mode", [None, "poke"])
def test_nobody_will_commit_them(
    live: LiveCheckpoint, sensor: Sensor, context: Any, mode: str | None
) -> None:
    live.hold()
    live.commit(0)
    live.end(QueryState.STOPPED)

    with pytest.raises(QueryEndedError, match="the query is STOPPED at epoch 0"):
        sensor(offsets={"0": 99}, mode=mode).execute(context)
    with pytest.raises(AirflowSensorTimeout):
        sensor(offsets={"0": 99}, mode=mode, wait_for_restart=True, timeout=0).execute(context)


def test_everything_that_was_there_at_first(
    live: LiveCheckpoint, sensor: Sensor, context: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"x":1}\n')
    source = {"format": "tail", "options": {"path": str(folder), "fileFormat": "json"}}
    wait = {"offsets": "latest", "source": source, "mode": "reschedule"}
    live.hold()
    with pytest.raises(AirflowRescheduleException):
        sensor(**wait).execute(context)

    (folder / "a.json").write_text('{"x":1}\n{"x":2}\n')  # came later: not waited for
    commit(live, 0, {"a.json": 7})
    with pytest.raises(AirflowRescheduleException):
        sensor(**wait).execute(context)
    commit(live, 1, {"a.json": 8})

    assert sensor(**wait).execute(context)["epoch"] == 1
    context["ti"].max_tries += 1  # as Airflow counts a clear: it asks anew
    with pytest.raises(AirflowRescheduleException):
        sensor(**wait).execute(context)


def test_other_sources_are_asked_by_a_function(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    answers = [{"t": {"0": 7}}]
    for _ in range(2):  # the retry does not ask again
        trigger = deferred(sensor(offsets="latest", ask_latest=answers.pop), context)
        assert trigger.offsets == [{"t": {"0": 7}}]
        answers = [{"t": {"0": 8}}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"offsets": "latest"},
        {"offsets": {"0": 1}, "source": {"format": "tail"}},
        {"offsets": "latest", "source": {"format": "tail"}, "ask_latest": dict},
    ],
)
def test_latest_needs_somebody_to_ask(sensor: Sensor, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs one of source and ask_latest"):
        sensor(**arguments)


def test_a_source_that_cannot_be_asked(sensor: Sensor, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="cannot be asked"):
        sensor(offsets="latest", source={"format": "rate"}).execute(context)


def test_it_begins_in_the_triggerer(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    task = sensor(offsets="{{ params.offsets }}", start_from_trigger=True)
    start = task.start_trigger_args
    assert task.start_from_trigger
    assert start is not None
    trigger = OffsetsCommittedTrigger(**json.loads(json.dumps(start.trigger_kwargs)))
    for field in ("checkpoint_location", "offsets", "storage_conn_id"):
        assert field in task.template_fields
        assert hasattr(trigger, field), "Airflow would not render it"
    live.hold()
    live.commit(0)
    event = trigger.observe()
    assert event is not None
    assert "no JSON" in event["error"], "what was not rendered is told"
    trigger.offsets = '{"0": 20}'  # as Airflow renders it
    assert trigger.observe() is None
    live.commit(1)
    event = trigger.observe()
    assert event is not None
    assert task.execute_complete(context, event)["epoch"] == 1

    with pytest.raises(ValueError, match="noted by a worker"):
        sensor(offsets="latest", ask_latest=dict, start_from_trigger=True)

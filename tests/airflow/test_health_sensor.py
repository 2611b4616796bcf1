"""QueryHealthSensor: what is healthy, what is not, and what fails the task."""

from __future__ import annotations

import json
import os
import time
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
from airflow_provider_continuous.sensors.health import QueryHealthSensor
from airflow_provider_continuous.triggers.health import QueryHealthTrigger
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

Sensor = Callable[..., QueryHealthSensor]


@pytest.fixture
def sensor(live: LiveCheckpoint) -> Sensor:
    def make(**arguments: Any) -> QueryHealthSensor:
        given = {"task_id": "healthy", "checkpoint_location": live.location, "timeout": 600}
        return QueryHealthSensor(**{**given, **arguments})

    return make


def deferred(task: QueryHealthSensor, context: Any) -> QueryHealthTrigger:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    assert isinstance(caught.value.trigger, QueryHealthTrigger)
    _, arguments = caught.value.trigger.serialize()
    return QueryHealthTrigger(**json.loads(json.dumps(arguments)))


def age(live: LiveCheckpoint, epoch: int, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(Path(live.location) / "commits" / str(epoch), (then, then))


def report(live: LiveCheckpoint, p99_ms: float, run_id: str = "run-1") -> None:
    measured = {"p50": 1.0, "p99": p99_ms, "max": p99_ms}
    live.checkpoint.progress.write([{"runId": run_id, "latencyMs": {"readToWritten": measured}}])


def test_running_is_not_enough_it_must_advance(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    live.commit(0)
    task = sensor()
    trigger = deferred(task, context)
    assert trigger.observe() is None

    live.commit(1)

    event = trigger.observe()
    assert event is not None
    result = task.execute_complete(context, event)
    assert (result["state"], result["epoch"], result["lag"]) == ("RUNNING", 1, None)


def test_the_first_look_outlives_a_reschedule(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    with pytest.raises(AirflowRescheduleException):
        sensor(mode="reschedule").execute(context)
    live.commit(0)

    assert sensor(mode="reschedule").execute(context)["epoch"] == 0


def test_a_checkpoint_of_spark_itself(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.commit(0)
    trigger = deferred(sensor(), context)
    live.commit(1)

    event = trigger.observe()

    assert event is not None
    assert (event["outcome"], event["state"]) == ("healthy", "UNKNOWN")


@pytest.mark.parametrize("mode", [None, "poke"])
def test_states_that_fail_at_once(
    live: LiveCheckpoint, sensor: Sensor, context: Any, mode: str | None
) -> None:
    live.hold()
    live.end(QueryState.FAILED, "disk full")

    with pytest.raises(AirflowFailException, match="The query is FAILED: disk full"):
        sensor(mode=mode).execute(context)
    with pytest.raises(AirflowSensorTimeout):
        sensor(mode=mode, fail_on=(), timeout=0).execute(context)


def test_a_query_that_waits_for_slots_says_so(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    live.commit(0)
    assert live.lease is not None
    live.lease.heartbeat(state=QueryState.WAITING, message="Waiting for 2 of 4 task slots")
    with pytest.raises(AirflowFailException, match=r"WAITING \(Waiting for 2 of 4 task slots\)"):
        sensor(unhealthy_for=0).execute(context)


def test_a_stalled_query(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.hold("run-1", QueryState.STALLED)
    live.commit(0)
    trigger = deferred(sensor(), context)
    live.commit(1)
    assert trigger.observe() is None, "it may recover"

    with pytest.raises(AirflowFailException, match="The query is STALLED"):
        sensor(fail_on=["FAILED", "STALLED"]).execute(context)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"stalled_after": 30}, "the last commit is [4-9][0-9] s ago"),
        ({"latency_max": 0.5}, r"records take 0.7 s \(p99\)"),
        ({"lag_max": 5}, "it is 6 behind its sources"),
    ],
)
@pytest.mark.parametrize("mode", [None, "poke"])
def test_limits(
    live: LiveCheckpoint,
    sensor: Sensor,
    context: Any,
    tmp_path: Path,
    limits: dict[str, Any],
    why: str,
    mode: str | None,
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0").write_text("x" * 15 + "\n")
    if "lag_max" in limits:
        limits = {**limits, "source": {"format": "tail", "options": {"path": str(folder)}}}
    live.hold()
    live.commit(0)
    if "stalled_after" in limits:
        age(live, 0, 40)
    report(live, 700)

    with pytest.raises(AirflowFailException, match=why):
        sensor(unhealthy_for=0, watch_for=0, mode=mode, **limits).execute(context)
    for name in ("stalled_after", "latency_max", "lag_max"):
        if name in limits:
            limits = {**limits, name: 600}
    assert sensor(watch_for=0, mode=mode, **limits).execute(context)["epoch"] == 0


def test_the_latency_of_an_older_run_says_nothing(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold("run-2")
    live.commit(0)
    report(live, 700, run_id="run-1")

    assert sensor(watch_for=0, latency_max=0.1).execute(context)["latency_s"] is None


def test_a_watch_goes_on_while_all_is_well(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    live.commit(0)

    trigger = deferred(sensor(watch_for=3600, unhealthy_for=3600, timeout=7200), context)

    assert trigger.observe() is None
    age(live, 0, 100)
    assert trigger.observe() is None, "not for so long yet"
    assert trigger.unhealthy_since is not None
    trigger.unhealthy_since -= 3600
    event = trigger.observe()
    assert event is not None
    assert event["outcome"] == "unhealthy"
    live.commit(1)
    assert trigger.observe() is None
    assert trigger.unhealthy_since is None, "it has recovered"


def test_how_long_it_was_unhealthy_outlives_a_reschedule(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold("run-1", QueryState.STALLED)
    wait = {"mode": "reschedule", "unhealthy_for": 3600}
    with pytest.raises(AirflowRescheduleException):
        sensor(**wait).execute(context)
    since = context["task_state_store"]["unhealthy_since_2"]
    context["task_state_store"]["unhealthy_since_2"] = since - 3600

    with pytest.raises(AirflowFailException, match=r"for 36\d\d s: the query is STALLED"):
        sensor(**wait).execute(context)


@pytest.mark.parametrize(
    "arguments",
    [{"fail_on": "FAILED"}, {"fail_on": ("GONE",)}, {"lag_max": 1}, {"source": {"format": "tail"}}],
)
def test_arguments_that_make_no_sense(sensor: Sensor, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"fail_on is|belong together"):
        sensor(**arguments)


def test_it_begins_in_the_triggerer(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    task = sensor(start_from_trigger=True)
    start = task.start_trigger_args
    assert task.start_from_trigger
    assert start is not None
    trigger = QueryHealthTrigger(**json.loads(json.dumps(start.trigger_kwargs)))
    assert {"checkpoint_location", "source", "storage_conn_id"} <= set(trigger.arguments())
    live.hold()
    live.commit(0)
    assert trigger.observe() is None, "what is committed at the first look is no advance"
    live.commit(1)
    event = trigger.observe()
    assert event is not None
    assert task.execute_complete(context, event)["epoch"] == 1

    with pytest.raises(ValueError, match="watch_for"):
        sensor(watch_for=60, start_from_trigger=True)


def test_a_query_that_is_silent_for_a_while_may_come_back(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    trigger = deferred(sensor(), context)
    live.lose(silent_s=20)
    assert trigger.observe() is None
    live.lose(silent_s=120)
    event = trigger.observe()
    assert event is not None
    assert event["outcome"] == "unhealthy"


def test_latencies_that_nobody_reports(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.hold()
    live.commit(0)
    live.checkpoint.progress.write([{"runId": "run-1", "numInputRows": 3}])  # as Spark's own
    with pytest.raises(AirflowFailException, match="reports no latencies"):
        sensor(latency_max=0.5, mode="poke").execute(context)


def test_a_query_of_spark_alone_reports_no_latencies(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    """Which would count as healthy for ever."""
    live.checkpoint.create_or_read_query_id("query")
    live.checkpoint.offsets.add(0, OffsetEntry((1,), {"batchWatermarkMs": 0}))
    live.checkpoint.commits.add(0, CommitEntry())
    with pytest.raises(AirflowFailException, match="reports no latencies"):
        sensor(latency_max=0.5, mode="poke").execute(context)


def test_a_query_that_has_committed_nothing(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    with pytest.raises(AirflowFailException, match="the first commit is missing, it began 0 s ago"):
        sensor(unhealthy_for=0, stalled_after=1e-6).execute(context)

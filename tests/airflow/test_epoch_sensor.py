"""EpochCommittedSensor: what it waits for, how, and how it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_continuous import deferral
from airflow_provider_continuous.compat import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.operators.query import StopContinuousQueryOperator
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.sensors.health import QueryHealthSensor
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor
from airflow_provider_continuous.sensors.watermark import WatermarkSensor
from airflow_provider_continuous.triggers import base
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.errors import CheckpointError
from tests.airflow.live_checkpoint import LiveCheckpoint

Sensor = Callable[..., EpochCommittedSensor]


@pytest.fixture
def sensor(live: LiveCheckpoint) -> Sensor:
    def make(**arguments: Any) -> EpochCommittedSensor:
        given = {"task_id": "wait", "checkpoint_location": live.location, "timeout": 600}
        return EpochCommittedSensor(**{**given, **arguments})

    return make


def away(_: Checkpoint) -> None:
    raise CheckpointError("wrong password")


def deferred(task: EpochCommittedSensor, context: Any) -> EpochCommittedTrigger:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    assert caught.value.method_name == "execute_complete"
    assert caught.value.timeout is None
    assert isinstance(caught.value.trigger, EpochCommittedTrigger)
    return caught.value.trigger


@pytest.mark.parametrize("mode", [None, "poke", "reschedule"])
def test_an_epoch_that_is_there(
    live: LiveCheckpoint, sensor: Sensor, context: Any, mode: str | None
) -> None:
    live.commit(0, 1, 2)

    result = sensor(epoch=1, mode=mode).execute(context)

    assert (result["epoch"], result["offsets"]) == (1, [{"0": 20}])
    assert result["committed_at"].endswith("+00:00")
    assert set(result) == {"epoch", "offsets", "committed_at"}


def test_a_missing_epoch_is_awaited_in_the_triggerer(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    task = sensor(epoch=0)

    trigger = deferred(task, context)
    live.commit(0)
    event = trigger.observe()

    assert event is not None
    assert task.execute_complete(context, event)["epoch"] == 0


def test_a_task_is_not_resumed_while_its_exit_may_be_unnoticed(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    """Airflow would take the worker's exit for the end of the resumed task, and fail it."""
    live.hold()
    before = time.time()

    trigger = deferred(sensor(epoch=0), context)

    notices_exit_s = 5  # Airflow's default of [workers] min_heartbeat_interval
    assert deferral.MARGIN_S > 0
    resumed = trigger.not_before - notices_exit_s - deferral.MARGIN_S
    assert before <= resumed <= time.time()


def test_a_short_wait_ends_in_the_worker(
    live: LiveCheckpoint, sensor: Sensor, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferral, "LINGER_S", 30.0)
    live.hold()
    timer = threading.Timer(0.3, live.commit, [0])
    timer.start()

    assert sensor(epoch=0, poke_interval=0.05).execute(context)["epoch"] == 0
    timer.join()


def test_poking_notices_the_commit(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.hold()
    timer = threading.Timer(0.3, live.commit, [0])
    timer.start()

    result = sensor(epoch=0, mode="poke", poke_interval=0.05).execute(context)

    timer.join()
    assert result["epoch"] == 0


def test_text_is_a_number_once_it_is_rendered(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.commit(0, 1, 2)

    assert sensor(epoch=" 2 ").execute(context)["epoch"] == 2


@pytest.mark.parametrize("epoch", ["", "None", "{{ params.epoch }}", "3.5", -1, 2.0, True, "-1"])
@pytest.mark.parametrize("mode", [None, "poke"])
def test_what_is_no_epoch_fails_before_the_wait(
    sensor: Sensor, context: Any, epoch: Any, mode: str | None
) -> None:
    with pytest.raises(AirflowFailException, match=r"epoch is .* not a whole number from 0"):
        sensor(epoch=epoch, mode=mode).execute(context)


def test_a_template_that_finds_nothing_is_named(sensor: Sensor, context: Any) -> None:
    """In a DAG that renders native objects it is None by then."""
    task = sensor(epoch="{{ ti.xcom_pull('start') }}")
    task.epoch = None

    with pytest.raises(AirflowFailException, match="epoch is None, and not a whole number"):
        task.execute(context)


def test_zero_epochs_from_now_are_none(sensor: Sensor, context: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"epochs_from_now is 0, .* number from 1"):
        sensor(epochs_from_now=0).execute(context)


@pytest.mark.parametrize("arguments", [{}, {"epoch": 1, "epochs_from_now": 1}])
def test_exactly_one_of_epoch_and_epochs_from_now(
    sensor: Sensor, arguments: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        sensor(**arguments)


def test_epochs_from_now(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.hold()
    live.commit(0, 1)

    assert deferred(sensor(epochs_from_now="2"), context).epoch == 3


def test_epochs_from_now_before_the_first(sensor: Sensor, context: Any) -> None:
    assert deferred(sensor(epochs_from_now=1), context).epoch == 0


def test_now_outlives_a_reschedule_and_a_retry(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    live.commit(0, 1)
    with pytest.raises(AirflowRescheduleException):
        sensor(epochs_from_now=2, mode="reschedule").execute(context)
    live.commit(2, 3)
    context["ti"].try_number = 2

    result = sensor(epochs_from_now=2, mode="reschedule").execute(context)

    assert result["epoch"] == 3


def test_a_reschedule_does_not_forget_that_the_storage_is_away(
    sensor: Sensor, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be rescheduled until its timeout, a week by default, and nobody told."""
    monkeypatch.setattr(Checkpoint, "glance", away)
    monkeypatch.setattr(base, "UNREACHABLE_MAX_S", 0.1)

    with pytest.raises(CheckpointError, match="wrong password"):
        sensor(epoch=0, mode="reschedule", poke_interval=0.01).execute(context)


def test_a_reschedule_bears_a_storage_that_comes_back(
    live: LiveCheckpoint, sensor: Sensor, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    looks, glance = iter([away, away]), Checkpoint.glance
    monkeypatch.setattr(Checkpoint, "glance", lambda found: next(looks, glance)(found))

    with pytest.raises(AirflowRescheduleException):
        sensor(epoch=0, mode="reschedule", poke_interval=0.01).execute(context)
    assert list(looks) == []


def test_a_reschedule_gives_up_in_time_while_the_storage_is_away(
    sensor: Sensor, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "glance", away)
    began = datetime.now(timezone.utc) - timedelta(hours=1)
    context["ti"].get_first_reschedule_date = lambda _: began

    with pytest.raises(AirflowSensorTimeout, match="did not come in time"):
        sensor(epoch=0, mode="reschedule", poke_interval=0.01).execute(context)


def test_a_cleared_sensor_takes_a_new_now(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    live.commit(0)
    assert deferred(sensor(epochs_from_now=1), context).epoch == 1
    live.commit(1, 2)
    context["ti"].try_number, context["ti"].max_tries = 2, 3  # as Airflow counts a clear

    assert deferred(sensor(epochs_from_now=1), context).epoch == 3


@pytest.mark.parametrize("end", ["STOPPED", "FAILED", "LOST"])
@pytest.mark.parametrize("mode", [None, "poke"])
def test_nobody_will_commit_the_epoch(
    live: LiveCheckpoint, sensor: Sensor, context: Any, end: str, mode: str | None
) -> None:
    live.hold()
    live.commit(0)
    if end == "LOST":
        live.lose()
    else:
        live.end(QueryState(end), error="disk full" if end == "FAILED" else None)

    with pytest.raises(QueryEndedError, match=f"epoch 1 of .* the query is {end} at epoch 0"):
        sensor(epoch=1, mode=mode).execute(context)


@pytest.mark.parametrize("mode", [None, "poke", "reschedule"])
def test_a_query_that_is_silent_for_a_while_may_come_back(
    live: LiveCheckpoint, sensor: Sensor, context: Any, mode: str | None
) -> None:
    live.hold()
    live.lose(silent_s=20)
    assert live.checkpoint.status().state is QueryState.LOST
    task = sensor(epoch=1, mode=mode)
    if mode is None:
        assert deferred(task, context).observe() is None
    elif mode == "poke":
        with pytest.raises(AirflowSensorTimeout):
            sensor(epoch=1, mode="poke", timeout=0).execute(context)
    else:
        with pytest.raises(AirflowRescheduleException):
            task.execute(context)
    live.commit(0, 1)
    assert task.execute(context)["epoch"] == 1


def test_an_ended_query_that_has_committed_the_epoch(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.hold()
    live.commit(0)
    live.end(QueryState.STOPPED)

    assert sensor(epoch=0).execute(context)["epoch"] == 0


def test_waiting_for_a_restart(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.hold()
    live.end(QueryState.FAILED)

    trigger = deferred(sensor(epoch=0, wait_for_restart=True), context)

    assert trigger.observe() is None
    live.commit(0)
    event = trigger.observe()
    assert event is not None
    assert event["outcome"] == "committed"


def test_soft_fail_skips(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    live.hold()
    live.end(QueryState.STOPPED)

    for mode in (None, "poke"):
        with pytest.raises(AirflowSkipException):
            sensor(epoch=0, soft_fail=True, mode=mode).execute(context)


OF_WORKERS = [
    ("exponential_backoff", True),
    ("silent_fail", True),
    ("mode", "poke"),
    ("mode", "reschedule"),
]


@pytest.mark.parametrize(("option", "value"), OF_WORKERS)
def test_what_a_trigger_does_not_know_waits_in_a_worker(
    sensor: Sensor, option: str, value: Any
) -> None:
    assert not sensor(epoch=0, **{option: value}).deferrable
    assert not sensor(epoch=0, **{option: value}, deferrable=False).deferrable
    for more in ({}, {"start_from_trigger": True}):
        with pytest.raises(ValueError, match=f"wait: {option} counts in a worker alone"):
            sensor(epoch=0, deferrable=True, **{option: value}, **more)


@pytest.mark.parametrize(("option", "value"), OF_WORKERS)
def test_what_a_task_says_goes_before_the_defaults_of_its_dag(
    sensor: Sensor, option: str, value: Any
) -> None:
    with DAG("of_workers", schedule=None, default_args={option: value}):
        assert not sensor(task_id="none", epoch=0).deferrable
        assert sensor(task_id="own", epoch=0, deferrable=True).deferrable
        assert sensor(
            task_id="begin", epoch=0, deferrable=True, start_from_trigger=True
        ).start_from_trigger
        mapped = EpochCommittedSensor.partial(task_id="mapped", epoch=0, deferrable=True).expand(
            checkpoint_location=["/a", "/b"]
        )
        task = mapped.unmap({"checkpoint_location": "/b"})
        assert isinstance(task, EpochCommittedSensor)
        assert task.deferrable
    with DAG("of_triggers", schedule=None, default_args={"deferrable": True}):
        assert sensor(task_id="none", epoch=0).deferrable
        assert not sensor(task_id="own", epoch=0, **{option: value}).deferrable
    with (
        DAG("of_both", schedule=None, default_args={"deferrable": False, "mode": "poke"}),
        pytest.raises(ValueError, match="own: mode counts in a worker alone"),
    ):
        sensor(task_id="own", epoch=0, mode="reschedule", deferrable=True)


def test_the_deadline_travels_in_the_trigger(sensor: Sensor, context: Any) -> None:
    task = sensor(epoch=0, timeout=timedelta(seconds=0))

    with pytest.raises(AirflowSensorTimeout, match=r"epoch 0 of .* did not come in time"):
        task.execute(context)


def test_a_broken_checkpoint_fails_for_good(
    live: LiveCheckpoint, sensor: Sensor, context: Any
) -> None:
    live.commit(0)
    live.checkpoint.storage.delete("offsets/0")

    with pytest.raises(AirflowFailException, match="offsets/0 is missing"):
        sensor(epoch=5).execute(context)


def test_naming_a_mode_turns_deferral_off() -> None:
    def make(**arguments: Any) -> EpochCommittedSensor:
        return EpochCommittedSensor(task_id="s", checkpoint_location="/c", epoch=1, **arguments)

    assert make().deferrable
    assert not make(mode="poke").deferrable
    assert not make(deferrable=False).deferrable
    assert (make().poke_interval, make(mode="reschedule").poke_interval) == (1.0, 60.0)


def test_it_begins_in_the_triggerer(live: LiveCheckpoint, sensor: Sensor, context: Any) -> None:
    task = sensor(epoch="{{ params.epoch }}", start_from_trigger=True, timeout=90)

    assert task.start_from_trigger
    start = task.start_trigger_args
    assert start is not None
    assert start.next_method == "execute_complete"
    trigger = EpochCommittedTrigger(**(start.trigger_kwargs or {}))
    assert start.trigger_cls == trigger.serialize()[0]
    for field in ("checkpoint_location", "epoch", "storage_conn_id"):
        assert field in task.template_fields
        assert hasattr(trigger, field), "Airflow would not render it"
    assert start.timeout is not None
    began = datetime.now(timezone.utc)
    trigger.timeout_after = began + start.timeout
    trigger.epoch = "0"  # as Airflow renders it
    live.hold()
    live.commit(0)

    async def event() -> Any:
        async for each in trigger.run():
            return each.payload
        return None

    assert task.execute_complete(context, asyncio.run(event()))["epoch"] == 0
    assert trigger.deadline == pytest.approx(began.timestamp() + 90)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"epochs_from_now": 1}, "needs epoch"),
        ({"epoch": 1, "mode": "poke"}, "deferrable"),
        ({"epoch": 1, "execution_timeout": timedelta(hours=1)}, "Use timeout"),
    ],
)
def test_what_cannot_begin_in_the_triggerer(
    sensor: Sensor, arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        sensor(start_from_trigger=True, **arguments)


@pytest.mark.parametrize(
    "operator",
    [EpochCommittedSensor, OffsetsCommittedSensor, WatermarkSensor, QueryHealthSensor],
)
def test_a_mapped_sensor_does_not_begin_in_the_triggerer(operator: Any) -> None:
    """Airflow would warn, and have a worker begin the wait."""
    with pytest.raises(ValueError, match="mapped: Airflow starts no triggers of mapped tasks"):
        operator.partial(task_id="mapped", start_from_trigger=True)


def test_a_mapped_sensor_is_one() -> None:
    with DAG("of_mapped_tasks", schedule=None):
        mapped = EpochCommittedSensor.partial(task_id="mapped", epoch=1, timeout=7).expand(
            checkpoint_location=["/a", "/b"]
        )

    task = mapped.unmap({"checkpoint_location": "/b"})
    assert isinstance(task, EpochCommittedSensor)
    assert (task.checkpoint_location, task.epoch, task.timeout) == ("/b", 1, 7)
    assert (task.deferrable, task.start_from_trigger) == (True, False)


@pytest.mark.parametrize("field", ["epoch", "storage_conn_id"])
def test_what_another_task_returns_is_no_template(sensor: Sensor, field: str) -> None:
    """Airflow would hand the trigger the reference itself, and the task fail when it is due."""
    with DAG("of_two_tasks", schedule=None):
        other = StopContinuousQueryOperator(task_id="other", checkpoint_location="/c").output

        with pytest.raises(ValueError, match=f"{field} is what another task returns.*ti.xcom_pull"):
            sensor(start_from_trigger=True, **{"epoch": 1, field: other})
        assert sensor(task_id="here", **{"epoch": 1, field: other}).upstream_task_ids == {"other"}


def test_a_location_that_another_task_returns_is_one(sensor: Sensor) -> None:
    with DAG("of_two_tasks", schedule=None):
        other = StopContinuousQueryOperator(task_id="other", checkpoint_location="/c").output
        start = sensor(checkpoint_location=other, epoch=1, start_from_trigger=True)

    assert start.start_trigger_args is not None
    told = (start.start_trigger_args.trigger_kwargs or {})["checkpoint_location"]
    assert "xcom_pull(task_ids='other'" in told

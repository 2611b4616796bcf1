"""What a DAG says of times, limits, and what is on or off, and what is none: refused as the DAG is
read, by its name."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_continuous.assets.uris import query_asset
from airflow_provider_continuous.compat import RELEASE, AirflowException
from airflow_provider_continuous.decorators.continuous_query import continuous_query_task
from airflow_provider_continuous.notifications.query import ContinuousQueryNotifier
from airflow_provider_continuous.operators.checkpoint import (
    InspectCheckpointOperator,
    PruneCheckpointOperator,
    RewindCheckpointOperator,
    UnpinEpochOperator,
)
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RescaleContinuousQueryOperator,
    RestartContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    StopContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)
from airflow_provider_continuous.operators.table import MaintainTableOperator
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.sensors.health import QueryHealthSensor
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor
from airflow_provider_continuous.sensors.watermark import WatermarkSensor
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from tests.airflow.live_checkpoint import LiveCheckpoint

_ASKING = {"checkpoint_location": "/c"}
_STARTING = {"spec": "query.yaml"}
_PRUNE = {"checkpoint_location": "/c", "keep_epochs": 1}
STARTS = [
    StartContinuousQueryOperator,
    RestartContinuousQueryOperator,
    RunContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
]
ASKS: list[tuple[Any, dict[str, Any]]] = [
    (DrainContinuousQueryOperator, _ASKING),
    (StopContinuousQueryOperator, _ASKING),
    (RescaleContinuousQueryOperator, {**_ASKING, "reducers": 2}),
]
TIMES: list[tuple[Any, dict[str, Any], str]] = [
    *((each, _STARTING, name) for each in STARTS for name in ("timeout", "poll_interval")),
    *((each, given, name) for each, given in ASKS for name in ("timeout", "poll_interval")),
    (UpgradeContinuousQueryOperator, _STARTING, "watch_timeout"),
    *(
        (RunContinuousQueryOperator, _STARTING, name)
        for name in (
            "restart_delay",
            "restart_delay_max",
            "restart_reset_after",
            "takeover_grace",
        )
    ),
    (QueryHealthSensor, _ASKING, "stalled_after"),
]
OPTIONAL: list[tuple[Any, dict[str, Any], str]] = [
    (RunContinuousQueryOperator, _STARTING, "run_for"),
    (PruneCheckpointOperator, _PRUNE, "keep_for"),
    *((MaintainTableOperator, _ASKING, name) for name in ("retain", "rewindable")),
    *((QueryHealthSensor, _ASKING, name) for name in ("latency_max", "unhealthy_for", "watch_for")),
]
ORPHANS: Any = (
    PruneCheckpointOperator,
    {**_PRUNE, "remove_orphans": True},
    "orphans_older_than",
)
SENSORS: list[tuple[Any, dict[str, Any]]] = [
    (EpochCommittedSensor, {**_ASKING, "epoch": 1}),
    (OffsetsCommittedSensor, {**_ASKING, "offsets": {"0": 1}}),
    (WatermarkSensor, {**_ASKING, "at": "2026-11-24T00:00:00Z"}),
    (QueryHealthSensor, _ASKING),
]
FLAGS: list[tuple[Any, dict[str, Any], str]] = [
    *((each, _STARTING, "deferrable") for each in STARTS),
    *((each, given, "deferrable") for each, given in ASKS),
    *((each, given, "force") for each, given in ASKS[:2]),
    (RestartContinuousQueryOperator, {**_STARTING, "from_epoch": 1}, "accept_repeats"),
    (RunContinuousQueryOperator, _STARTING, "standby"),
    (RewindCheckpointOperator, {**_ASKING, "to_epoch": 1}, "accept_repeats"),
    (InspectCheckpointOperator, _ASKING, "fail_on_problems"),
    (UnpinEpochOperator, {**_ASKING, "name": "gold"}, "missing_ok"),
    *(
        (PruneCheckpointOperator, _PRUNE, name)
        for name in ("compact_sink", "remove_orphans", "dry_run")
    ),
    *(
        (MaintainTableOperator, _ASKING, name)
        for name in ("compact", "expire", "vacuum", "dry_run")
    ),
    *((each, given, "wait_for_restart") for each, given in SENSORS[:3]),
    *(
        (each, given, name)
        for each, given in SENSORS
        for name in ("deferrable", "start_from_trigger", "exponential_backoff", "silent_fail")
    ),
]
NONE: list[Any] = [-1, timedelta(seconds=-1), "600", "soon", True, math.nan, math.inf]


def _refused(operator: Any, given: dict[str, Any], name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"t: {name} is .*; it is a timedelta, or a number of se"):
        operator(task_id="t", **given, **{name: value})


@pytest.mark.parametrize(("operator", "given", "name"), [*TIMES, *OPTIONAL, ORPHANS])
def test_what_is_no_duration_is_refused(operator: Any, given: Any, name: str) -> None:
    for value in NONE:
        _refused(operator, given, name, value)


@pytest.mark.parametrize(("operator", "given", "name"), TIMES)
def test_none_is_no_duration(operator: Any, given: Any, name: str) -> None:
    _refused(operator, given, name, None)


@pytest.mark.parametrize(("operator", "given", "name"), [*TIMES, *OPTIONAL, ORPHANS])
def test_a_duration_is_one_however_short(operator: Any, given: Any, name: str) -> None:
    for value, seconds in ((timedelta(microseconds=5), 5e-6), (0, 0.0), (2, 2.0)):
        assert getattr(operator(task_id="t", **given, **{name: value}), name) == seconds


@pytest.mark.parametrize(("operator", "given", "name"), OPTIONAL)
def test_what_may_be_left_out_may(operator: Any, given: Any, name: str) -> None:
    assert getattr(operator(task_id="t", **given, **{name: None}), name) is None


@pytest.mark.parametrize(("operator", "given", "name"), FLAGS)
def test_what_is_on_or_off_is_no_text(operator: Any, given: Any, name: str) -> None:
    """Which would count as True, whatever it says, and is no template that is rendered."""
    for value in ("{{ params.what }}", "False", "", 1):
        with pytest.raises(ValueError, match=f"t: {name} is .*; it is True or False"):
            operator(task_id="t", **given, **{name: value})


def test_a_notifier_and_a_decorator_have_flags_too() -> None:
    text: Any = "{{ params.what }}"
    with pytest.raises(ValueError, match=r"force is .*; it is True or False"):
        ContinuousQueryNotifier(ask="stop", force=text)
    with pytest.raises(ValueError, match=r"supervise is .*; it is True or False"):
        continuous_query_task(checkpoint_location="/c", supervise=text)


@pytest.mark.parametrize("restarts", [-1, 1.5, "3", True])
def test_restarts_are_a_number(restarts: Any) -> None:
    with pytest.raises(ValueError, match="t: restarts is"):
        RunContinuousQueryOperator(task_id="t", spec="query.yaml", restarts=restarts)


@pytest.mark.parametrize("name", ["latency_max_ms", "commit_max_ms", "lag_max"])
@pytest.mark.parametrize("value", ["100", -1, math.nan, True, timedelta(seconds=1)])
def test_limits_are_numbers(name: str, value: Any) -> None:
    """An upgrade would find out when the old version has ended."""
    given = {"lag_max": 1, "source": {"format": "tail"}, name: value}

    with pytest.raises(ValueError, match=f"t: {name} is .*; it is a number from 0, or None"):
        UpgradeContinuousQueryOperator(task_id="t", spec="query.yaml", **given)
    if name == "lag_max":
        with pytest.raises(ValueError, match="t: lag_max is"):
            QueryHealthSensor(task_id="t", checkpoint_location="/c", **given)


def test_who_watches_for_longer_than_he_waits_is_refused() -> None:
    with pytest.raises(ValueError, match="watch_for is 60 s, and timeout, which is"):
        QueryHealthSensor(task_id="t", checkpoint_location="/c", watch_for=60, timeout=60)


@pytest.mark.parametrize("name", ["timeout", "poke_interval"])
@pytest.mark.parametrize("value", [-1, "600"])
def test_airflow_refuses_those_of_sensors(name: str, value: Any) -> None:
    with pytest.raises((ValueError, AirflowException), match=name):  # the latter: Airflow 3.1
        EpochCommittedSensor(task_id="t", checkpoint_location="/c", epoch=1, **{name: value})


@pytest.mark.parametrize("interval", [None, "1", -1])
def test_a_trigger_has_an_interval(interval: Any) -> None:
    with pytest.raises(ValueError, match="poll_interval_s is"):
        EpochCommittedTrigger("/c", 1, poll_interval_s=interval)


def test_an_interval_of_nothing_is_no_busy_loop(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    trigger = EpochCommittedTrigger(live.location, 0, poll_interval_s=0.0)
    looks = list[int]()
    monkeypatch.setattr(trigger, "look", lambda: looks.append(1))

    assert trigger.wait_for(0.5) is None
    assert len(looks) <= 11


@pytest.mark.parametrize(
    "every", [timedelta(0), timedelta(microseconds=5), timedelta(seconds=1.5), -1, "1 day"]
)
def test_periods_have_whole_seconds(every: Any) -> None:
    with pytest.raises(ValueError, match="complete_every is"):
        query_asset("orders", complete_every=every)


def test_a_first_epoch_of_no_events_is_refused() -> None:
    with pytest.raises(ValueError, match="from_epoch is of events of epochs: give every"):
        query_asset("orders", from_epoch=5)


@pytest.mark.skipif(RELEASE < (3, 3), reason="epochs as events of assets need Airflow 3.3")
@pytest.mark.parametrize("name", ["at_most_every_s", "poll_interval_s"])
@pytest.mark.parametrize("value", [-1, "60"])
def test_events_have_times(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} is"):
        query_asset("orders", **{"every": 1, name: value})

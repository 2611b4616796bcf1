"""RestartContinuousQueryOperator, with real processes (``stand_in.py``)."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.operators.query import (
    RestartContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

Restart = Callable[..., RestartContinuousQueryOperator]


@pytest.fixture
def restart(submitted: list[SubmittedQuery], spec: dict[str, Any]) -> Restart:
    def make(**arguments: Any) -> RestartContinuousQueryOperator:
        given = {"task_id": "restart", "spec": spec, "deferrable": False, "poll_interval": 0.05}
        return RestartContinuousQueryOperator(**{**given, "timeout": 120, **arguments})

    return make


@pytest.fixture
def running(submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any) -> dict[str, Any]:
    """A query that another DAG run has started."""
    other = {**context, "task_state_store": type(context["task_state_store"])()}
    started = StartContinuousQueryOperator(
        task_id="start", spec=spec, deferrable=False, poll_interval=0.05, wait_for=5
    )
    return started.execute(other)


@pytest.mark.parametrize("end", ["drain", "stop"])
def test_it_ends_the_query_and_starts_it_again(
    restart: Restart,
    running: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    end: Any,
) -> None:
    result = restart(end=end).execute(context)

    assert result["run_id"] != running["run_id"]
    assert result["query_id"] == running["query_id"]
    assert result["epoch"] >= running["epoch"]
    assert submitted[0].process.wait() == 0
    assert len(submitted) == 2


def test_it_asks_for_what_it_was_told(restart: Restart, spec: dict[str, Any], context: Any) -> None:
    for end in ("drain", "stop"):
        live = LiveCheckpoint(spec["checkpoint_location"])
        live.hold(f"to-{end}")
        store = type(context["task_state_store"])()
        with pytest.raises(TaskDeferred) as caught:
            restart(end=end, deferrable=True).execute({**context, "task_state_store": store})
        assert caught.value.method_name == "woken"
        assert live.checkpoint.requests.pending(f"to-{end}") == end
        live.end(QueryState.STOPPED)


def test_a_query_that_does_not_run_is_started(
    restart: Restart, submitted: list[SubmittedQuery], context: Any
) -> None:
    assert restart(wait_for=2).execute(context)["epoch"] >= 2
    assert len(submitted) == 1


def test_a_retry_does_not_restart_twice(
    restart: Restart, running: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    first = restart().execute(context)
    context["ti"].try_number = 2

    assert restart().execute(context)["run_id"] == first["run_id"]
    assert len(submitted) == 2


def test_a_cleared_task_restarts_again(
    restart: Restart, running: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    first = restart().execute(context)
    context["ti"].try_number, context["ti"].max_tries = 2, 3

    assert restart().execute(context)["run_id"] != first["run_id"]
    assert len(submitted) == 3


def test_it_resumes_after_the_drain(
    restart: Restart, running: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    process = submitted[0].process
    process.send_signal(signal.SIGSTOP)  # else it may have drained before it is asked again
    with pytest.raises(TaskDeferred) as caught:
        restart(deferrable=True).execute(context)
    process.send_signal(signal.SIGCONT)

    result = restart().woken(context, caught.value.trigger.wait())  # type: ignore[attr-defined]

    assert result["run_id"] != running["run_id"]
    assert len(submitted) == 2


def test_it_goes_back_to_an_epoch(
    restart: Restart, running: dict[str, Any], spec: dict[str, Any], context: Any
) -> None:
    checkpoint = Checkpoint(spec["checkpoint_location"])

    result = restart(from_epoch="2").execute(context)

    report = context["task_state_store"]["rewound_2"]
    assert (report["to_epoch"], report["taken_back"]) == (2, True)
    assert report["from_epoch"] >= 5
    assert result["run_id"] == checkpoint.status().run_id
    assert checkpoint.storage.exists(f"rewound/{report['generation']}/commits/3")


def test_a_retry_does_not_go_back_twice(
    restart: Restart, running: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    restart(from_epoch=2, wait_for=6).execute(context)
    submitted[-1].process.terminate()
    submitted[-1].process.wait()
    context["ti"].try_number = 2

    assert restart(from_epoch=2).execute(context)["epoch"] >= 6


def test_a_sink_that_cannot_take_back(
    restart: Restart,
    running: dict[str, Any],
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    checkpoint = Checkpoint(spec["checkpoint_location"])
    submitted[0].process.terminate()
    submitted[0].process.wait()
    write_fingerprint(checkpoint.storage, {"sink": {"format": "kafka", "options": {}}})

    with pytest.raises(AirflowFailException, match="cannot take back the rows"):
        restart(from_epoch=2).execute(context)
    assert len(submitted) == 1

    assert restart(from_epoch=2, accept_repeats=True).execute(context)["epoch"] >= 2
    assert len(submitted) == 2


def test_an_epoch_that_is_not_there(
    restart: Restart, submitted: list[SubmittedQuery], running: dict[str, Any], context: Any
) -> None:
    with pytest.raises(AirflowFailException, match="from_epoch is 'last'"):
        restart(from_epoch="last").execute(context)

    assert submitted[0].process.poll() is None, "the query runs on"


def test_an_epoch_that_no_template_has_found_is_no_start_from_where_it_was(
    restart: Restart, context: Any
) -> None:
    """Of a DAG that renders native objects."""
    task = restart(from_epoch="{{ params.epoch }}")
    task.from_epoch = None

    with pytest.raises(AirflowFailException, match="from_epoch is None"):
        task.execute(context)


@pytest.mark.parametrize(
    "arguments",
    [{"end": "stop"}, {"from_epoch": 3}, {"on_running": "replace", "accept_repeats": True}],
)
def test_what_would_do_nothing_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need"):
        StartContinuousQueryOperator(task_id="start", spec={}, **arguments)


def test_a_retry_replaces_no_other_run(
    restart: Restart,
    running: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    """Somebody has restarted it after the attempt before had asked it to end."""
    context["task_state_store"].set("old_run_2", "an older run")

    assert restart().execute(context)["run_id"] == running["run_id"]
    assert len(submitted) == 1


def test_a_query_that_others_started_before_it_was_rewound(
    restart: Restart, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    """By a task that stays with it, for example, as it has failed while it drained."""
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("run-1")
    live.commit(0, 1, 2)
    with pytest.raises(TaskDeferred) as caught:
        restart(from_epoch=1, deferrable=True).execute(context)
    live.end(QueryState.FAILED, "disk full")
    event = caught.value.trigger.wait()  # type: ignore[attr-defined]
    live.hold("run-2")

    with pytest.raises(AirflowFailException, match=r"Run run-2, .* was not rewound to epoch 1"):
        restart(from_epoch=1, deferrable=True).woken(context, event)

    assert live.checkpoint.requests.pending("run-2") is None
    assert submitted == []


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="end is 'kill'"):
        RestartContinuousQueryOperator(task_id="restart", spec={}, end="kill")  # type: ignore[arg-type]

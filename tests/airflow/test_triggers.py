"""Triggers: their serialised form, their events, and what killing them does (nothing)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.sdk.module_loading import import_string

from airflow_provider_continuous.triggers import base
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger, QueryRunningTrigger
from engine.checkpoint.query_state import QueryState
from engine.errors import CheckpointError
from tests.airflow.live_checkpoint import LiveCheckpoint


def first_event(trigger: CheckpointTrigger, timeout_s: float = 120.0) -> Event:
    async def run() -> Event:
        async for event in trigger.run():
            payload: Event = json.loads(event.model_dump_json())["payload"]
            return payload
        raise AssertionError("the trigger has ended without an event")

    return asyncio.run(asyncio.wait_for(run(), timeout_s))


@pytest.mark.parametrize(
    "trigger",
    [
        EpochCommittedTrigger("/c", 7, True, poll_interval_s=0.5, deadline=12.0),
        QueryRunningTrigger("s3://bucket/c", storage_conn_id="aws"),
        QueryEndedTrigger("/c", "run-1", not_before=34.0),
    ],
)
def test_they_survive_serialisation(trigger: CheckpointTrigger) -> None:
    class_path, arguments = trigger.serialize()

    again = import_string(class_path)(**json.loads(json.dumps(arguments)))

    assert type(again) is type(trigger)
    assert again.serialize() == (class_path, arguments)
    for name, value in arguments.items():
        assert getattr(again, name) == value


def test_a_commit_is_noticed_by_the_next_look(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    look, is_committed, behind = EpochCommittedTrigger.observe, threading.Event(), list[int]()
    looks = iter(range(1_000_000))

    def observe(trigger: EpochCommittedTrigger, shared: Any = None) -> Event | None:
        number = next(looks)
        if is_committed.is_set():
            behind.append(number)
        found = look(trigger, shared)
        if number == 2:
            live.commit(0)
            is_committed.set()
        return found

    monkeypatch.setattr(EpochCommittedTrigger, "observe", observe)

    event = first_event(EpochCommittedTrigger(live.location, 0, poll_interval_s=0.2))

    assert event["outcome"] == "committed"
    assert event["offsets"] == [{"0": 10}]
    assert behind == [3]


def test_a_commit_goes_before_the_deadline(live: LiveCheckpoint) -> None:
    live.commit(0)

    event = first_event(EpochCommittedTrigger(live.location, 0, deadline=time.time() - 60))

    assert event["outcome"] == "committed"


def test_the_deadline(live: LiveCheckpoint) -> None:
    live.hold()
    deadline = time.time() + 0.2

    event = first_event(
        EpochCommittedTrigger(live.location, 0, poll_interval_s=3600, deadline=deadline)
    )

    assert event["outcome"] == "timeout"
    assert time.time() >= deadline


def test_no_event_before_its_time(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    live.commit(0)
    found, whole = list[Event](), base.wait_for_event

    async def waits(trigger: CheckpointTrigger) -> Event:
        found.append(await whole(trigger))
        return found[-1]

    monkeypatch.setattr(base, "wait_for_event", waits)

    async def scenario() -> None:
        trigger = EpochCommittedTrigger(live.location, 0, not_before=time.time() + 3600)
        event = asyncio.ensure_future(anext(trigger.run()))
        while not found:
            await asyncio.sleep(0.01)
        for _ in range(10):  # it would be out by then
            await asyncio.sleep(0)
        assert not event.done()
        event.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 120))
    soon = EpochCommittedTrigger(live.location, 0, not_before=time.time() + 0.1)
    assert first_event(soon)["outcome"] == "committed"


def test_running(live: LiveCheckpoint) -> None:
    live.hold("run-1", QueryState.STARTING)
    trigger = QueryRunningTrigger(live.location, poll_interval_s=0.01)
    assert trigger.observe() is None
    assert live.lease is not None
    live.lease.heartbeat(state=QueryState.WAITING, message="Waiting for 2 of 4 task slots")
    assert trigger.observe() is None
    live.lease.heartbeat(state=QueryState.RUNNING)

    event = first_event(trigger)

    assert (event["outcome"], event["run_id"], event["epoch"]) == ("running", "run-1", -1)


def test_died_while_it_started(live: LiveCheckpoint) -> None:
    live.hold("run-1", QueryState.STARTING)
    live.end(QueryState.FAILED, "no such topic")

    event = first_event(QueryRunningTrigger(live.location))

    assert (event["outcome"], event["state"], event["error"]) == (
        "ended",
        "FAILED",
        "no such topic",
    )


def test_a_bounded_query_that_is_done_before_it_was_looked_at(live: LiveCheckpoint) -> None:
    live.hold("run-1", QueryState.STARTING)
    live.commit(0)
    live.end(QueryState.STOPPED)

    event = first_event(QueryRunningTrigger(live.location))

    assert (event["outcome"], event["state"], event["epoch"]) == ("running", "STOPPED", 0)


def test_ended(live: LiveCheckpoint) -> None:
    live.hold("run-1", QueryState.DRAINING)
    trigger = QueryEndedTrigger(live.location, "run-1", poll_interval_s=0.01)
    assert trigger.observe() is None
    live.end(QueryState.STOPPED)

    assert first_event(trigger)["state"] == "STOPPED"


def test_another_run_means_that_ours_is_over(live: LiveCheckpoint) -> None:
    live.hold("run-2")

    event = first_event(QueryEndedTrigger(live.location, "run-1"))

    assert (event["outcome"], event["run_id"]) == ("ended", "run-2")


def test_storage_that_comes_back(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    live.commit(0)
    trigger = EpochCommittedTrigger(live.location, 0, poll_interval_s=0.01)
    answers: list[Any] = [CheckpointError("the network is down"), None]

    def status() -> Any:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return live.checkpoint.status()

    monkeypatch.setattr(trigger.hook, "status", status)

    assert first_event(trigger)["outcome"] == "committed"
    assert answers == []


def test_storage_that_stays_away(live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = EpochCommittedTrigger(live.location, 0, poll_interval_s=0.01)

    def status() -> Any:
        raise CheckpointError("the network is down")

    monkeypatch.setattr(trigger.hook, "status", status)
    monkeypatch.setattr(base, "UNREACHABLE_MAX_S", 0.05)

    with pytest.raises(CheckpointError, match="network is down"):
        first_event(trigger)


def test_killing_the_waiting_task_leaves_the_query_alone(live: LiveCheckpoint) -> None:
    """As the triggerer does it when a user marks the deferred task failed, or clears it."""
    live.hold()
    files_before = everything(live)

    async def scenario() -> None:
        runner: Any = TriggerRunner()  # type: ignore[no-untyped-call]
        trigger = EpochCommittedTrigger(live.location, 5, poll_interval_s=0.01)
        watching = asyncio.create_task(runner.run_trigger(1, trigger))
        runner.triggers[1] = {"task": watching, "name": "ours", "events": 0}
        await asyncio.sleep(0.1)
        runner.to_cancel.append(1)
        await runner.cancel_triggers()
        with pytest.raises(asyncio.CancelledError):
            await watching

    asyncio.run(scenario())

    assert everything(live) == files_before
    assert live.checkpoint.status().state is QueryState.RUNNING


def everything(live: LiveCheckpoint) -> dict[str, bytes]:
    root = Path(live.location)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}

"""One poller per checkpoint: what it shares among those who wait, and what it does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.triggers import base, poller
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.checkpoint.query_state import QueryState
from engine.errors import CheckpointError
from tests.airflow.live_checkpoint import LiveCheckpoint


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every look at a checkpoint's status, by location."""
    seen: list[str] = []
    status = CheckpointHook.status

    def counted(hook: CheckpointHook) -> Any:
        seen.append(hook.location.url)
        return status(hook)

    monkeypatch.setattr(CheckpointHook, "status", counted)
    return seen


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def guarded() -> None:
        await asyncio.wait_for(scenario(), 120)
        while pollers():  # whoever waited is gone, so the pollers go as well
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(guarded(), 150))


def pollers() -> dict[Any, Any]:
    return dict(poller._POLLERS.get(asyncio.get_running_loop(), {}))


def waits(live: LiveCheckpoint, epoch: int, **arguments: Any) -> EpochCommittedTrigger:
    return EpochCommittedTrigger(live.location, epoch, **{"poll_interval_s": 0.05, **arguments})


async def event_of(trigger: CheckpointTrigger) -> Event:
    async for event in trigger.run():
        payload: Event = event.payload
        return payload
    raise AssertionError("no event")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_many_wait_and_one_reads(live: LiveCheckpoint, reads: list[str]) -> None:
    live.hold()

    async def scenario() -> None:
        waiting = [
            asyncio.create_task(event_of(waits(live, 0, poll_interval_s=60))) for _ in range(200)
        ]
        await asyncio.sleep(0)
        assert len(pollers()) == 1
        await until(lambda: len(reads) > 0)
        before = len(reads)
        live.commit(0)
        waiting.append(asyncio.create_task(event_of(waits(live, 0, poll_interval_s=60))))
        events = await asyncio.gather(*waiting)
        assert {event["outcome"] for event in events} == {"committed"}
        assert len(reads) - before <= 3, "a late comer has all of them look"

    run(scenario)


def test_what_waits_for_other_things_shares_the_read(
    live: LiveCheckpoint, reads: list[str]
) -> None:
    live.hold("run-1")
    live.commit(0)
    live.end(QueryState.STOPPED)

    async def scenario() -> None:
        ended = QueryEndedTrigger(live.location, "run-1", poll_interval_s=0.05)
        outcomes = await asyncio.gather(event_of(waits(live, 0)), event_of(ended))
        assert [event["outcome"] for event in outcomes] == ["committed", "ended"]

    run(scenario)
    assert len(reads) <= 2


def test_other_checkpoints_and_other_intervals_have_their_own(
    live: LiveCheckpoint, tmp_path: Any
) -> None:
    other = LiveCheckpoint(tmp_path / "other")
    for each in (live, other):
        each.hold()

    async def scenario() -> None:
        waiting = [
            asyncio.create_task(event_of(trigger))
            for trigger in (waits(live, 0), waits(other, 0), waits(live, 0, poll_interval_s=0.1))
        ]
        await until(lambda: len(pollers()) == 3)
        live.commit(0)
        other.commit(0)
        await asyncio.gather(*waiting)

    run(scenario)


def test_who_is_cancelled_leaves_the_others(live: LiveCheckpoint) -> None:
    live.hold()

    async def scenario() -> None:
        leaves, stays = (asyncio.create_task(event_of(waits(live, 0))) for _ in range(2))
        await until(lambda: len(pollers()) == 1)
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        live.commit(0)
        assert (await stays)["outcome"] == "committed"

    run(scenario)


def test_the_last_one_ends_the_poller(live: LiveCheckpoint, reads: list[str]) -> None:
    live.hold()

    async def scenario() -> None:
        only = asyncio.create_task(event_of(waits(live, 0, poll_interval_s=60)))
        await until(lambda: len(reads) > 0)
        only.cancel()
        await until(lambda: not pollers())

    run(scenario)


def test_a_deadline_ends_one_wait_alone(live: LiveCheckpoint) -> None:
    live.hold()

    async def scenario() -> None:
        stays = asyncio.create_task(event_of(waits(live, 0, poll_interval_s=60)))
        soon = waits(live, 0, poll_interval_s=60, deadline=0.0)
        assert (await event_of(soon))["outcome"] == "timeout"
        assert not stays.done()
        live.commit(0)
        late = asyncio.create_task(event_of(waits(live, 0, poll_interval_s=60)))
        await asyncio.gather(stays, late)

    run(scenario)


@pytest.mark.parametrize("lasts", [False, True])
def test_a_failing_read_reaches_everybody(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    live.hold()
    live.commit(0)
    fails = threading.Event()
    fails.set()
    status = CheckpointHook.status

    def unreachable(hook: CheckpointHook) -> Any:
        if fails.is_set():
            raise CheckpointError("the network is down")
        return status(hook)

    monkeypatch.setattr(CheckpointHook, "status", unreachable)
    monkeypatch.setattr(base, "UNREACHABLE_MAX_S", 0.2 if lasts else 60)

    async def scenario() -> None:
        waiting = [asyncio.create_task(event_of(waits(live, 0))) for _ in range(3)]
        if lasts:
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [CheckpointError] * 3
            return
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in waiting)
        fails.clear()
        events = await asyncio.gather(*waiting)
        assert {event["outcome"] for event in events} == {"committed"}

    run(scenario)


def test_a_location_that_cannot_be_used_ends_the_wait() -> None:
    async def scenario() -> None:
        event = await event_of(EpochCommittedTrigger("relative", 0))
        assert event["outcome"] == "error"
        assert "is relative" in event["error"]

    run(scenario)


def test_one_look_answers_each_question_once(live: LiveCheckpoint) -> None:
    live.commit(0)
    hook = CheckpointHook(live.location)
    look = poller.OneLook(lambda: hook)
    before = look.committed_epoch(), look.offsets(), look.offsets(epoch=0), look.offsets(0)

    live.commit(1)

    assert before == (0, [{"0": 10}], [{"0": 10}], [{"0": 10}])
    assert (look.committed_epoch(), look.offsets()) == before[:2]
    assert look.location is hook.location

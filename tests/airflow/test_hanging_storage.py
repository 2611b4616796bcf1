"""Storage that hangs: deadlines hold, nobody else waits, and no thread is made twice for it.

A lease that is a FIFO hangs whoever opens it, as a dead mount does.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import RELEASE
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.links import query as links
from airflow_provider_continuous.links.query import SparkUiLink
from airflow_provider_continuous.notifications.query import ContinuousQueryNotifier
from airflow_provider_continuous.observing import pool, publishing
from airflow_provider_continuous.observing.pool import POOL, StorageHangsError
from airflow_provider_continuous.observing.source_ends import SourceEnds
from airflow_provider_continuous.operators.query import StopContinuousQueryOperator
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor
from airflow_provider_continuous.triggers import base, poller
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.triggers.poller import Event
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from airflow_provider_continuous.triggers.watermark import WatermarkTrigger
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.requests import Requests
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.summary import Summary
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

WAIT_S = 120


class DeadMount:
    """A checkpoint whose lease never answers, until the test is over."""

    def __init__(self, folder: Path) -> None:
        self.location = str(folder)
        self._lease = folder / "control" / "lease"
        self._lease.parent.mkdir(parents=True)
        os.mkfifo(self._lease)

    def heal(self) -> None:
        """Let all who have opened it read nothing."""
        if self._lease.is_fifo():
            self._lease.rename(self._lease.with_name("fifo"))
        fifo = self._lease.with_name("fifo")
        try:
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return  # nobody has


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[list[DeadMount]]:
    mounts = [DeadMount(tmp_path / f"dead-{number}") for number in range(7)]
    yield mounts

    def have_come_back() -> bool:
        for mount in mounts:
            mount.heal()
        return not POOL.hanging(0)

    wait_until(have_come_back, "all looks have come back", WAIT_S)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A last look gets no time of its own."""
    monkeypatch.setattr(poller, "LAST_LOOK_S", 0.1)
    monkeypatch.setattr(base, "LAST_LOOK_S", 0.1)


async def event_of(trigger: CheckpointTrigger) -> Event:
    async for event in trigger.run():
        payload: Event = event.payload
        return payload
    raise AssertionError("no event")


@pytest.mark.usefixtures("hasty")
def test_seven_of_eight_hang_and_every_deadline_holds(
    live: LiveCheckpoint, dead: list[DeadMount]
) -> None:
    live.hold()

    async def scenario() -> None:
        def waits(location: str, deadline: float | None) -> EpochCommittedTrigger:
            return EpochCommittedTrigger(location, 0, poll_interval_s=0.01, deadline=deadline)

        soon = time.time() + 0.5
        waiting = [
            asyncio.create_task(event_of(waits(mount.location, soon)))
            for mount in dead
            for _ in range(20)
        ]
        outcomes = [event["outcome"] for event in await asyncio.gather(*waiting)]
        assert outcomes == ["timeout"] * len(waiting)
        while sum(POOL.hanging(0).values()) < 7:  # a thread may begin later than its look is missed
            await asyncio.sleep(0.01)
        assert sum(POOL.hanging(0).values()) == 7, "one thread for each, however many wait"
        again = [event_of(waits(mount.location, time.time())) for mount in dead]
        assert {event["outcome"] for event in await asyncio.gather(*again)} == {"timeout"}
        assert sum(POOL.hanging(0).values()) == 7, "and however often they come again"
        live.commit(0)
        alive = event_of(waits(live.location, None))
        assert (await alive)["outcome"] == "committed"

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


@pytest.mark.usefixtures("hasty")
def test_in_a_worker_the_deadline_holds_as_well(dead: list[DeadMount]) -> None:
    trigger = EpochCommittedTrigger(dead[0].location, 0, deadline=time.time() + 0.2)
    assert trigger.wait()["outcome"] == "timeout"


def test_a_worker_does_not_linger_with_it(dead: list[DeadMount]) -> None:
    assert EpochCommittedTrigger(dead[0].location, 0).wait_for(0.05) is None


def test_it_is_borne_for_a_while_and_then_told(
    dead: list[DeadMount], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (base, poller, pool):
        monkeypatch.setattr(module, "LOOK_MAX_S", 0.05)
    monkeypatch.setattr(base, "LAST_LOOK_S", 0.01)
    monkeypatch.setattr(base, "UNREACHABLE_MAX_S", 0.1)
    trigger = EpochCommittedTrigger(dead[0].location, 0, poll_interval_s=0.01)
    with pytest.raises(StorageHangsError, match="has not answered for"):
        trigger.wait()

    async def scenario() -> None:
        with pytest.raises(StorageHangsError, match="looks are under way there"):
            await event_of(EpochCommittedTrigger(dead[1].location, 0, poll_interval_s=0.01))

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_what_hangs_is_waited_for_and_goes_on_when_it_answers(
    dead: list[DeadMount],
) -> None:
    async def scenario() -> None:
        trigger = EpochCommittedTrigger(
            dead[0].location, 0, wait_for_restart=True, poll_interval_s=0.01
        )
        waiting = asyncio.create_task(event_of(trigger))
        while not POOL.hanging(0):
            await asyncio.sleep(0.01)
        dead[0].heal()
        LiveCheckpoint(dead[0].location).commit(0)
        assert (await waiting)["outcome"] == "committed"

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_events_go_out_before_anybody_else_is_told(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenLineage's backend, or a metrics client, hangs."""
    told, answer = threading.Event(), threading.Event()

    def hangs(*_: Any) -> None:
        told.set()
        answer.wait(WAIT_S)

    monkeypatch.setattr(publishing, "publish", hangs)
    monkeypatch.setattr(publishing, "_last_s", {})
    monkeypatch.setattr(base, "TELLING_MAX_S", 0.05)
    live.hold()
    live.commit(0)

    async def scenario() -> None:
        for epoch in (0, 0, 0):
            trigger = EpochCommittedTrigger(live.location, epoch, poll_interval_s=0.01)
            assert (await event_of(trigger))["outcome"] == "committed"

    try:
        asyncio.run(asyncio.wait_for(scenario(), WAIT_S))
        assert EpochCommittedTrigger(live.location, 0).wait()["outcome"] == "committed"
        assert told.wait(WAIT_S)
    finally:
        answer.set()


@pytest.mark.skipif(RELEASE < (3, 3), reason="epochs as events of assets need Airflow 3.3")
def test_an_event_trigger_bears_it(dead: list[DeadMount], monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_continuous.triggers.events import EpochEventTrigger

    trigger = EpochEventTrigger(dead[0].location)
    monkeypatch.setattr(
        trigger, "read", lambda _: Path(dead[0].location, "control/lease").read_bytes()
    )

    async def scenario() -> None:
        with pytest.raises(StorageHangsError):
            await trigger._read(None)

    monkeypatch.setattr(pool.LookPool.soon, "__defaults__", (0.05, None))
    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_a_button_keeps_no_worker(dead: list[DeadMount], monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow asks for them before it calls back, and tells listeners, of the task's end."""
    monkeypatch.setattr(links, "PATIENCE_S", 0.05, raising=False)
    task = StopContinuousQueryOperator(task_id="t", checkpoint_location=dead[0].location)
    found = list[str]()

    def asks() -> None:
        found.append(SparkUiLink().get_link(task, ti_key=None))  # type: ignore[arg-type]

    asking = threading.Thread(target=asks, daemon=True)
    asking.start()
    asking.join(20)

    assert found == [""]


def asks_in_a_callback(dead: DeadMount) -> None:
    ContinuousQueryNotifier(checkpoint_location=dead.location, ask="drain").notify({})


def asks_in_the_triggerer(dead: DeadMount) -> None:
    asyncio.run(ContinuousQueryNotifier(checkpoint_location=dead.location).async_notify({}))


@pytest.mark.parametrize("tells", [asks_in_a_callback, asks_in_the_triggerer])
def test_a_notifier_gives_up(
    dead: list[DeadMount], monkeypatch: pytest.MonkeyPatch, tells: Any
) -> None:
    monkeypatch.setattr(pool.LookPool.within, "__defaults__", (0.05, None))
    monkeypatch.setattr(pool.LookPool.soon, "__defaults__", (0.05, None))
    monkeypatch.setattr(
        Requests, "ask", lambda *_, **__: Path(dead[0].location, "control/lease").read_bytes()
    )

    with pytest.raises(StorageHangsError):
        tells(dead[0])


@pytest.mark.parametrize("by", ["source", "function"])
def test_a_source_that_hangs_is_given_up(
    dead: list[DeadMount], monkeypatch: pytest.MonkeyPatch, context: Any, by: str
) -> None:
    """Where it ends by now is asked in the worker."""

    def hangs(*_: Any) -> Any:
        return Path(dead[0].location, "control/lease").read_bytes()

    for limit in ("UNREACHABLE_MAX_S", "LAST_LOOK_S"):
        monkeypatch.setattr(f"airflow_provider_continuous.sensors.offsets.{limit}", 0.05)
    monkeypatch.setattr(SourceEnds, "latest", hangs)
    asked: Any = {"source": {"format": "tail"}} if by == "source" else {"ask_latest": hangs}
    sensor = OffsetsCommittedSensor(
        task_id="wait",
        checkpoint_location=dead[1].location,
        offsets="latest",
        timeout=0.05 if by == "function" else 600.0,
        **asked,
    )

    with pytest.raises(StorageHangsError, match=r"The source of .*dead-1 has not answered"):
        sensor.execute(context)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call of the storage."""
    seen: list[str] = []
    for name in ("read", "list", "info", "files_below", "exists"):
        whole = getattr(LocalStorage, name)

        def counted(
            storage: LocalStorage, what: str = "", *, name: str = name, whole: Any = whole
        ) -> Any:
            seen.append(f"{name} {what}")
            return whole(storage, what)

        monkeypatch.setattr(LocalStorage, name, counted)
    return seen


@pytest.fixture
def summed_up(live: LiveCheckpoint) -> LiveCheckpoint:
    """A query with a summary, at epoch 3."""
    live.hold()
    live.commit(0, 1, 2, 3)
    assert live.lease is not None
    now_ms = round(time.time() * 1000)
    live.lease.heartbeat(
        summary=Summary("a-query", "orders", 3, now_ms, latency_p99_ms=4.0, watermark_ms=1_000)
    )
    return live


def test_a_look_is_one_read(summed_up: LiveCheckpoint, reads: list[str]) -> None:
    from airflow_provider_continuous.triggers.health import QueryHealthTrigger

    location = summed_up.location
    for trigger in (
        EpochCommittedTrigger(location, 9),
        EpochCommittedTrigger(location, 9, wait_for_restart=True),
        WatermarkTrigger(location, "2026-01-01T00:00:00+00:00"),
        WatermarkTrigger(location, "2026-01-01T00:00:00+00:00", wait_for_restart=True),
        QueryEndedTrigger(location, "run-1"),
        QueryHealthTrigger(location, from_epoch=3, latency_max_s=1.0),
    ):
        reads.clear()
        assert trigger.observe() is None
        assert reads == ["read control/lease"], trigger


def test_what_ends_a_wait_is_looked_at_as_a_whole(summed_up: LiveCheckpoint) -> None:
    """A fenced run has written over the lease: it says less, or something else, for a moment."""
    assert summed_up.lease is not None
    stale = summed_up.lease.record
    summed_up.lease.release(QueryState.STOPPED)
    newer = LiveCheckpoint(summed_up.location)
    newer.hold("run-2")
    newer.checkpoint.storage.replace("control/lease", stale.serialize())
    assert QueryEndedTrigger(summed_up.location, "run-2").observe() is None
    event = EpochCommittedTrigger(summed_up.location, 2).observe()
    assert event is not None
    assert (event["outcome"], event["offsets"]) == ("committed", [{"0": 30}])


def test_a_summary_of_a_run_that_died_is_not_the_last_word(summed_up: LiveCheckpoint) -> None:
    summed_up.commit(4)
    summed_up.lose()
    assert CheckpointHook(summed_up.location).glance() is None
    event = EpochCommittedTrigger(summed_up.location, 4, wait_for_restart=True).observe()
    assert event is not None
    assert event["outcome"] == "committed"

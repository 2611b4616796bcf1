"""Who stands by is told by the checkpoint: as long as it does, and no longer."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import count, pairwise

import pytest

from engine.base.clock import ManualClock
from engine.base.json_text import dump
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standby import NoTurn, Standby
from engine.checkpoint.standing_by import (
    FOLDER,
    FORGOTTEN_S,
    RENEWED_S,
    WATCHED_S,
    OwnNote,
    StandingBy,
    goes_on,
    standing_by,
)
from engine.errors import CheckpointError
from tests.unit.leases import acquire, elsewhere
from tests.unit.test_standby import EventfulClock, never


def test_a_standby_is_told_while_it_waits(checkpoint: Checkpoint) -> None:
    told: list[list[StandingBy]] = []
    clock = EventfulClock(lambda: told.append(standing_by(checkpoint.storage, clock)))
    elsewhere(checkpoint, acquire(checkpoint, clock))

    assert Standby(never, clock).await_turn(checkpoint)

    assert told
    assert {one.process for each in told for one in each} == {Process.current()}
    assert all(len(each) == 1 for each in told)
    assert standing_by(checkpoint.storage, clock) == [], "now it runs the query"


def test_it_is_told_and_warm_however_rare_heartbeats_are(checkpoint: Checkpoint) -> None:
    """On other machines a note counts for 35 seconds, and an idle Python worker lives a minute."""
    ages_s: list[float] = []
    warmed_s: list[float] = []

    pauses = count()

    def look() -> None:
        if next(pauses) % 40:
            return
        ages_s.extend(
            (clock.now_ms() - one.seen_at_ms) / 1000
            for one in standing_by(checkpoint.storage, clock)
        )

    clock = EventfulClock(look)
    lease = Lease.acquire(checkpoint, run_id="run-a", clock=clock, heartbeat_interval_ms=40_000)
    elsewhere(checkpoint, lease)

    assert Standby(never, clock).await_turn(
        checkpoint, lambda: warmed_s.append(clock.monotonic_s())
    )

    assert clock.monotonic_s() > 40
    assert max(ages_s) <= RENEWED_S + 1
    assert max(b - a for a, b in pairwise(warmed_s)) <= 1


@pytest.mark.parametrize("reason", ["cancelled", "over"])
def test_one_that_is_not_needed_leaves_no_note(checkpoint: Checkpoint, reason: str) -> None:
    clock = EventfulClock(lambda: lease.release(QueryState.STOPPED))
    lease = acquire(checkpoint, clock)

    with pytest.raises(NoTurn):
        Standby(lambda: reason == "cancelled", clock).await_turn(checkpoint)

    assert checkpoint.storage.list(FOLDER) == []


def test_one_that_was_killed_is_left_out(checkpoint: Checkpoint, clock: ManualClock) -> None:
    OwnNote(checkpoint.storage, clock).tell()
    (note,) = standing_by(checkpoint.storage, clock)
    (file,) = checkpoint.storage.list(FOLDER)

    def say(changed: StandingBy) -> None:
        checkpoint.storage.replace(f"{FOLDER}/{file.name}", dump(changed.to_dict()).encode())

    say(replace(note, started=note.started + "0"))
    assert standing_by(checkpoint.storage, clock) == [], "the machine knows that it is gone"
    say(replace(note, host="another-host"))
    assert len(standing_by(checkpoint.storage, clock)) == 1
    clock.sleep(FORGOTTEN_S + 1)
    assert standing_by(checkpoint.storage, clock) == [], "it has said nothing for long"
    checkpoint.storage.replace(f"{FOLDER}/{file.name}", b"{")
    assert standing_by(checkpoint.storage, clock) == []


@pytest.mark.parametrize("renewed", [True, False])
def test_one_whose_clock_is_behind_goes_on(checkpoint: Checkpoint, renewed: bool) -> None:
    """Else another one would be started beside it, and so on."""

    def tell() -> None:
        seen_at_ms = behind.now_ms() if renewed else 0
        told = StandingBy("another-host", 7, "boot/7/7", 0, seen_at_ms)
        checkpoint.storage.replace(f"{FOLDER}/a", dump(told.to_dict()).encode())

    behind = ManualClock()
    tell()
    behind.sleep(1)
    clock = EventfulClock(tell)
    clock.jump(2 * FORGOTTEN_S)
    assert standing_by(checkpoint.storage, clock) == []

    assert goes_on(checkpoint.storage, clock) == renewed

    assert clock.monotonic_s() <= WATCHED_S + 1
    checkpoint.storage.delete(f"{FOLDER}/a")
    assert not goes_on(checkpoint.storage, ManualClock())


def test_storage_that_is_away_ends_no_waiting(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise CheckpointError("the storage is away")

    clock = ManualClock()
    elsewhere(checkpoint, acquire(checkpoint, clock))
    monkeypatch.setattr(type(checkpoint.storage), "replace", away)
    monkeypatch.setattr(type(checkpoint.storage), "delete", away)

    assert Standby(never, clock).await_turn(checkpoint)


@pytest.mark.parametrize("state", [None, QueryState.STOPPED, QueryState.FAILED])
def test_one_that_only_stands_by_begins_no_query(
    checkpoint: Checkpoint, clock: ManualClock, state: QueryState | None
) -> None:
    """The query was drained while the standby was on its way."""
    if state is not None:
        acquire(checkpoint, clock).release(state, "full" if state is QueryState.FAILED else None)

    with pytest.raises(NoTurn):
        Standby(never, clock, begins=False).await_turn(checkpoint)


def test_one_that_only_stands_by_takes_over(checkpoint: Checkpoint, clock: ManualClock) -> None:
    elsewhere(checkpoint, acquire(checkpoint, clock))
    standby = Standby(never, clock, begins=False)

    assert standby.await_turn(checkpoint)

    Lease.acquire(checkpoint, run_id="run-b", clock=clock, lost=standby.lost)


@pytest.mark.parametrize("begins", [True, False])
def test_one_that_only_stands_by_ends_when_another_one_was_faster(
    checkpoint: Checkpoint, clock: ManualClock, begins: bool
) -> None:
    elsewhere(checkpoint, acquire(checkpoint, clock))
    standby = Standby(never, clock, begins=begins)
    assert standby.await_turn(checkpoint)
    standby.was_late(checkpoint)  # the run that was waited for has woken up: it is waited for again

    Lease.acquire(checkpoint, run_id="run-b", clock=clock, lost=standby.lost)

    with nullcontext() if begins else pytest.raises(NoTurn, match="run-b"):
        standby.was_late(checkpoint)


@pytest.mark.parametrize("kind", ["drain", "stop"])
@pytest.mark.parametrize("run_id", ["run-a", None])
def test_one_that_dies_after_it_was_asked_to_end_has_no_successor(
    checkpoint: Checkpoint, clock: ManualClock, kind: str, run_id: str | None
) -> None:
    lease = acquire(checkpoint, clock)
    elsewhere(checkpoint, lease)
    checkpoint.requests.ask(kind, by="a test", run_id=run_id)  # type: ignore[arg-type]

    with pytest.raises(NoTurn) as ended:
        Standby(never, _beating_once(checkpoint, lease, clock)).await_turn(checkpoint)

    assert ended.value.holder is not None


@pytest.mark.parametrize("kind", ["drain", "stop"])
def test_what_was_asked_while_it_took_over_is_meant_for_it(
    checkpoint: Checkpoint, clock: ManualClock, kind: str
) -> None:
    elsewhere(checkpoint, acquire(checkpoint, clock))
    standby = Standby(never, clock, begins=False)
    standby.await_turn(checkpoint)
    checkpoint.requests.ask(kind, by="a test", run_id="run-a")  # type: ignore[arg-type]
    checkpoint.requests.ask("rescale", by="a test", run_id="run-a")

    Lease.acquire(checkpoint, run_id="run-b", clock=clock, lost=standby.lost)

    assert checkpoint.requests.pending("run-b") == kind
    assert len(checkpoint.storage.list("control/requests")) == 1


def test_what_was_asked_of_another_run_is_no_reason(
    checkpoint: Checkpoint, clock: ManualClock
) -> None:
    elsewhere(checkpoint, acquire(checkpoint, clock))
    checkpoint.requests.ask("drain", by="a test", run_id="an-earlier-run")
    checkpoint.requests.ask("rescale", by="a test", run_id="run-a")

    assert Standby(never, clock).await_turn(checkpoint)


def test_one_that_dies_while_it_drains_has_no_successor(
    checkpoint: Checkpoint, clock: ManualClock
) -> None:
    lease = acquire(checkpoint, clock)
    lease.heartbeat(state=QueryState.DRAINING)
    elsewhere(checkpoint, lease)

    with pytest.raises(NoTurn):
        Standby(never, _beating_once(checkpoint, lease, clock)).await_turn(checkpoint)


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("told", ["asked", "draining"])
def test_one_that_had_died_while_it_ended_keeps_nobody_from_a_start(
    checkpoint: Checkpoint, clock: ManualClock, told: str, begins: bool
) -> None:
    """Else no ``continuous run --standby`` would ever run the query again."""
    lease = acquire(checkpoint, clock)
    if told == "asked":
        checkpoint.requests.ask("drain", by="a test")
    else:
        lease.heartbeat(state=QueryState.DRAINING)
    elsewhere(checkpoint, lease)
    standby = Standby(never, clock, begins=begins)

    if begins:
        assert standby.await_turn(checkpoint)
    else:
        with pytest.raises(NoTurn):
            standby.await_turn(checkpoint)


def _beating_once(checkpoint: Checkpoint, lease: Lease, own: ManualClock) -> ManualClock:
    """A clock in whose first pause the run shows that it is alive.

    :param own: that of the run.
    """
    beats = iter([lease.heartbeat])

    def beat() -> None:
        for heartbeat in beats:
            own.sleep(1)
            heartbeat()
            elsewhere(checkpoint, lease)

    return EventfulClock(beat)

"""A standby: when it is its turn, and when it is not needed any more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import EXPIRES_AFTER_INTERVALS, Lease
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standby import NoTurn, Standby, ended_error
from engine.errors import CheckpointError, ConfigError
from engine.query.write_request import WriteRequest, named_checkpoint
from tests.unit.leases import acquire, elsewhere, held_by


class EventfulClock(ManualClock):
    """Something happens at each pause."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self._happens = happens

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._happens()


class Outage:
    """The storage refuses from one time to another.

    :param begins: called then.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        monkeypatch: pytest.MonkeyPatch,
        from_s: float,
        to_s: float,
        begins: Callable[[], object],
    ) -> None:
        self.clock = ManualClock()
        kind = type(checkpoint.storage)
        for name in ("list", "read"):
            monkeypatch.setattr(kind, name, self._failing(getattr(kind, name)))
        self._from_s, self._to_s, self._begins = from_s, to_s, begins
        self._has_begun = False

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*arguments: Any) -> Any:
            if not self._from_s <= self.clock.monotonic_s() < self._to_s:
                return call(*arguments)
            if not self._has_begun:
                self._has_begun = True
                self._begins()
            raise CheckpointError("the storage is away")

        return failing


def never() -> bool:
    return False


def test_a_standby_needs_the_checkpoint_of_the_query() -> None:
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: None))
    frame: Any = SimpleNamespace(sparkSession=session)
    request = WriteRequest(frame, "noop", standby=Standby(never))
    with pytest.raises(ConfigError, match="no checkpoint location"):
        named_checkpoint(request, None, {})


def test_nobody_to_wait_for(checkpoint: Checkpoint, clock: ManualClock) -> None:
    standby = Standby(never, clock)
    assert not standby.await_turn(checkpoint)
    acquire(checkpoint, clock).release(QueryState.FAILED, "broken")
    assert not standby.await_turn(checkpoint), "that one failed before we came: a start is a start"
    assert standby.lost is None


@pytest.mark.parametrize("error", [None, "the sink is gone"])
def test_a_run_that_ends_ends_its_standby(checkpoint: Checkpoint, error: str | None) -> None:
    state = QueryState.STOPPED if error is None else QueryState.FAILED
    clock = EventfulClock(lambda: lease.release(state, error))
    lease = acquire(checkpoint, clock)
    with pytest.raises(NoTurn) as ended:
        Standby(never, clock).await_turn(checkpoint)
    assert ended.value.holder is not None
    assert (ended.value.holder.run_id, ended.value.holder.state) == ("run-a", state)
    told = ended_error(ended.value.holder)
    assert told is None if error is None else "the sink is gone" in str(told)


def test_who_is_not_to_wait_any_longer(checkpoint: Checkpoint, clock: ManualClock) -> None:
    acquire(checkpoint, clock)
    with pytest.raises(NoTurn) as ended:
        Standby(lambda: True, clock).await_turn(checkpoint)
    assert ended.value.holder is None


def test_a_process_that_has_died_is_followed_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from engine.checkpoint.checkpoint import Checkpoint; "
        "from engine.checkpoint.lease import Lease; "
        "Lease.acquire(Checkpoint(sys.argv[1]), run_id='run-a')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    checkpoint, clock = Checkpoint(str(tmp_path)), ManualClock()
    standby = Standby(never, clock)
    assert standby.await_turn(checkpoint)
    assert clock.monotonic_s() == 0
    Lease.acquire(checkpoint, run_id="run-b", clock=clock, lost=standby.lost)


def test_one_that_was_stopped_and_has_ended_is_not_followed(tmp_path: Path) -> None:
    """Its process is gone before the standby looks at the lease again."""
    code = (
        "import sys; from engine.checkpoint.checkpoint import Checkpoint; "
        "from engine.checkpoint.lease import Lease; "
        "lease = Lease.acquire(Checkpoint(sys.argv[1]), run_id='run-a'); print(flush=True); "
        "input(); from engine.checkpoint.query_state import QueryState; "
        "lease.release(QueryState.STOPPED)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        checkpoint = Checkpoint(str(tmp_path))

        def end() -> None:
            if process.poll() is None:
                process.communicate("\n")

        with pytest.raises(NoTurn) as ended:
            Standby(never, EventfulClock(end)).await_turn(checkpoint)
    assert ended.value.holder is not None
    assert ended.value.holder.state is QueryState.STOPPED


def test_one_elsewhere_is_followed_when_its_lease_is_over(checkpoint: Checkpoint) -> None:
    clock = ManualClock()
    elsewhere(checkpoint, acquire(checkpoint, clock))
    clock.jump(-3_600)  # the clocks of two machines need not agree
    standby = Standby(never, clock)
    assert standby.await_turn(checkpoint)
    waited_s = clock.monotonic_s()
    assert EXPIRES_AFTER_INTERVALS <= waited_s < EXPIRES_AFTER_INTERVALS + 1
    Lease.acquire(checkpoint, run_id="run-b", clock=clock, lost=standby.lost)
    assert clock.monotonic_s() == waited_s, "it is not watched a second time"


def test_one_that_wakes_up_keeps_what_it_has(checkpoint: Checkpoint, clock: ManualClock) -> None:
    lease = acquire(checkpoint, clock)
    standby = Standby(never, clock)
    elsewhere(checkpoint, lease)
    assert standby.await_turn(checkpoint)
    lease.heartbeat()
    with pytest.raises(Exception, match="is held by run run-a"):
        Lease.acquire(checkpoint, run_id="run-b", clock=clock, lost=standby.lost)


def test_each_heartbeat_makes_it_wait_longer(checkpoint: Checkpoint) -> None:
    beats = iter(range(400))  # twenty seconds of pauses

    def beat() -> None:
        if next(beats, None) is not None:
            lease.heartbeat()
            elsewhere(checkpoint, lease)

    clock = EventfulClock(beat)
    lease = acquire(checkpoint, clock)
    elsewhere(checkpoint, lease)
    warmed: list[float] = []
    Standby(never, clock).await_turn(checkpoint, lambda: warmed.append(clock.monotonic_s()))
    assert clock.monotonic_s() == pytest.approx(20 + EXPIRES_AFTER_INTERVALS, abs=1.1)
    assert warmed[0] == 0
    assert 20 <= warmed[-1] <= clock.monotonic_s()


def test_storage_that_is_away_for_a_moment(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a reason to take over nor to give up."""
    looks: list[bool] = []
    read = type(checkpoint.storage).list

    def failing(storage: object, *arguments: object) -> object:
        looks.append(len(looks) == 1)
        if looks[-1]:
            raise CheckpointError("the storage is away")
        return read(storage, *arguments)  # type: ignore[arg-type]

    clock = ManualClock()
    elsewhere(checkpoint, acquire(checkpoint, clock))
    monkeypatch.setattr(type(checkpoint.storage), "list", failing)
    assert Standby(never, clock).await_turn(checkpoint)
    assert any(looks)
    assert clock.monotonic_s() >= EXPIRES_AFTER_INTERVALS


def test_storage_that_is_away_for_longer_than_a_lease(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The holder could not renew it either, and does so when the storage answers; who stands by
    must not be faster."""
    away = Outage(checkpoint, monkeypatch, 1.0, 3_600.0, lambda: None)
    lease = acquire(checkpoint, away.clock)
    elsewhere(checkpoint, lease)
    assert Standby(never, away.clock).await_turn(checkpoint)
    assert away.clock.monotonic_s() >= 3_600 + EXPIRES_AFTER_INTERVALS - 1
    assert len([each for each in caplog.messages if "cannot be read" in each]) == 1


@pytest.mark.parametrize("hangs", [1, 2])
def test_a_call_that_hangs_for_longer_than_a_lease(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, hangs: int
) -> None:
    """That of its own note, and that of the lease."""
    clock, calls, read = ManualClock(), iter(range(9)), type(checkpoint.storage).list

    def hanging(storage: object, *arguments: object) -> object:
        if next(calls, None) == hangs:
            clock.advance(3_600)
        return read(storage, *arguments)  # type: ignore[arg-type]

    elsewhere(checkpoint, acquire(checkpoint, clock))
    monkeypatch.setattr(type(checkpoint.storage), "list", hanging)
    assert Standby(never, clock).await_turn(checkpoint)
    assert clock.monotonic_s() >= 3_600 + EXPIRES_AFTER_INTERVALS - 1


def test_a_process_that_dies_while_the_storage_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is followed as soon as the storage answers."""
    checkpoint = Checkpoint(str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        away = Outage(checkpoint, monkeypatch, 1.0, 60.0, lambda: child.communicate(b"\n"))
        held_by(checkpoint, acquire(checkpoint, away.clock), Process.of(child.pid))
        assert Standby(never, away.clock).await_turn(checkpoint)
    assert 60 <= away.clock.monotonic_s() < 62

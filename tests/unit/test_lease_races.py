"""The lease when several want it at once, and when its files are torn."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease, read_holder
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointError, ConcurrentRunError, StaleRunError
from tests.unit.leases import EXPIRED_S, acquire, claims, on_disk

# -- races ----------------------------------------------------------------------------------------


def test_of_many_that_start_at_once_one_wins(checkpoint: Checkpoint, clock: ManualClock) -> None:
    acquire(checkpoint, clock).release(QueryState.STOPPED)
    for generation in range(1, 16):
        lease = _race(checkpoint, clock)
        assert lease.generation == generation
        lease.check()
        assert on_disk(checkpoint).run_id == lease.run_id
        assert claims(checkpoint) == [str(generation)]
        lease.release(QueryState.STOPPED)


def _race(checkpoint: Checkpoint, clock: ManualClock) -> Lease:
    """Eight runs start at once; the one that wins."""
    start = threading.Barrier(8)
    won: list[Lease] = []
    refused: list[ConcurrentRunError] = []

    def run(index: int) -> None:
        mine = Checkpoint(checkpoint.storage, clock=clock)
        start.wait(60)
        try:
            won.append(acquire(mine, clock, f"run-{index}"))
        except ConcurrentRunError as exc:
            refused.append(exc)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (lease,) = won
    assert len(refused) == 7
    return lease


def test_a_run_that_claims_between_look_and_claim_is_not_robbed(
    tmp_path: Path, clock: ManualClock
) -> None:
    class Slow(LocalStorage):
        """Another run starts right after this one has looked who holds the checkpoint."""

        def read(self, name: str) -> bytes:
            content = super().read(name)
            if name == "control/lease" and not other:
                other.append(acquire(Checkpoint(str(tmp_path), clock=clock), clock, "other"))
            return content

    other: list[Lease] = []
    acquire(Checkpoint(str(tmp_path), clock=clock), clock, "first").release(QueryState.STOPPED)
    with pytest.raises(ConcurrentRunError, match="run other"):
        acquire(Checkpoint(Slow(tmp_path), clock=clock), clock, "slow")
    other[0].check()
    assert claims(Checkpoint(str(tmp_path))) == ["1"]


def test_a_claim_that_comes_too_late_is_withdrawn(tmp_path: Path, clock: ManualClock) -> None:
    """Between a run's look and its claim, another one takes that generation and ends, and a third
    takes the next."""

    class Slow(LocalStorage):
        interrupted = False

        def create(self, name: str, data: bytes) -> bool:
            if name == "control/generations/1" and not self.interrupted:
                self.interrupted = True
                others = Checkpoint(str(tmp_path), clock=clock)
                acquire(others, clock, "second").release(QueryState.STOPPED)
                third.append(acquire(others, clock, "third"))
            return super().create(name, data)

    third: list[Lease] = []
    checkpoint = Checkpoint(Slow(tmp_path), clock=clock)
    acquire(checkpoint, clock, "first").release(QueryState.STOPPED)
    with pytest.raises(ConcurrentRunError, match="run third"):
        acquire(checkpoint, clock, "slow")
    third[0].check()
    assert claims(checkpoint) == ["2"]
    assert on_disk(checkpoint).run_id == "third"


def test_a_heartbeat_of_a_fenced_run_that_comes_too_late_deceives_nobody(
    checkpoint: Checkpoint, clock: ManualClock
) -> None:
    old = acquire(checkpoint, clock)
    clock.advance(EXPIRED_S)
    new = acquire(checkpoint, clock, "run-b")
    late = replace(old.record, heartbeat_at_ms=clock.now_ms())
    checkpoint.storage.replace("control/lease", late.serialize())
    holder = read_holder(checkpoint.storage)
    assert holder is not None
    assert holder.run_id == "run-b"
    assert checkpoint.status().run_id == "run-b"
    with pytest.raises(ConcurrentRunError, match="run-b"):
        acquire(checkpoint, clock, "run-c")
    new.heartbeat()
    assert on_disk(checkpoint).run_id == "run-b"


@pytest.mark.parametrize("content", [b"", b"{", b'{"run_id":"x"}', b'{"state":"NEW"}', b"[]"])
def test_a_torn_lease_falls_back_to_the_claim(
    checkpoint: Checkpoint, clock: ManualClock, content: bytes
) -> None:
    acquire(checkpoint, clock)
    checkpoint.storage.replace("control/lease", content)
    holder = read_holder(checkpoint.storage)
    assert holder is not None
    assert (holder.run_id, holder.state) == ("run-a", QueryState.STARTING)
    with pytest.raises(ConcurrentRunError):
        acquire(checkpoint, clock, "run-b")
    clock.advance(EXPIRED_S)
    assert acquire(checkpoint, clock, "run-b").generation == 1


def test_a_claim_without_lease_is_a_run_that_just_starts(
    checkpoint: Checkpoint, clock: ManualClock
) -> None:
    acquire(checkpoint, clock)
    checkpoint.storage.delete("control/lease")
    with pytest.raises(ConcurrentRunError, match="STARTING"):
        acquire(checkpoint, clock, "run-b")


def test_the_count_of_generations_goes_on_without_the_lease_file(
    checkpoint: Checkpoint, clock: ManualClock
) -> None:
    for run in "abc":
        acquire(checkpoint, clock, run).release(QueryState.STOPPED)
    checkpoint.storage.delete("control/lease")
    clock.advance(EXPIRED_S)
    assert acquire(checkpoint, clock, "d").generation == 3


def test_fields_of_a_newer_engine_are_left_out(checkpoint: Checkpoint, clock: ManualClock) -> None:
    lease = acquire(checkpoint, clock)
    newer = {**json.loads(lease.record.serialize()), "zone": "eu"}
    checkpoint.storage.replace("control/lease", json.dumps(newer).encode())
    assert read_holder(checkpoint.storage) == lease.record


def test_a_run_may_take_over_from_itself(checkpoint: Checkpoint, clock: ManualClock) -> None:
    first = acquire(checkpoint, clock)
    second = acquire(checkpoint, clock)
    assert second.generation == 1
    with pytest.raises(StaleRunError):
        first.check()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_claim_whose_answer_was_lost_is_no_earlier_attempt(
    tmp_path: Path, clock: ManualClock, restarts: bool
) -> None:
    """A store says that the claim is there when the client asks it again. What was asked of an
    earlier run is forgotten all the same, and what was asked of this one is not."""

    class LosesAnAnswer(LocalStorage):
        lost = False

        def create(self, name: str, data: bytes) -> bool:
            created = super().create(name, data)
            self.lost, known = True, self.lost
            return created and known

    acquire(Checkpoint(str(tmp_path)), clock, "run-a" if restarts else "run-b").release(
        QueryState.STOPPED
    )
    checkpoint = Checkpoint(LosesAnAnswer(tmp_path), clock=clock)
    checkpoint.requests.ask("drain", by="test")
    assert acquire(checkpoint, clock).generation == 2
    assert claims(checkpoint) == ["2"]
    assert checkpoint.requests.pending("run-a") == ("drain" if restarts else None)


def test_storage_that_fails_does_not_end_the_lease(tmp_path: Path, clock: ManualClock) -> None:
    class Failing(LocalStorage):
        broken = False

        def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
            if self.broken:
                raise CheckpointError("no")
            super().replace(name, data, durable=durable)

    storage = Failing(tmp_path)
    lease = acquire(Checkpoint(storage), clock)
    storage.broken = True
    with pytest.raises(CheckpointError, match="no"):
        lease.heartbeat(epoch=1)
    lease.check()
    clock.advance(EXPIRED_S)
    with pytest.raises(CheckpointError, match="no"):
        lease.check()
    storage.broken = False
    lease.check()
    assert lease.record.epoch == -1


def test_threads_share_a_lease(checkpoint: Checkpoint, clock: ManualClock) -> None:
    lease, stop, errors = acquire(checkpoint, clock), threading.Event(), []

    def check() -> None:
        while not stop.is_set():
            try:
                lease.check()
            except Exception as exc:
                errors.append(exc)

    threads = [threading.Thread(target=check) for _ in range(2)]
    for thread in threads:
        thread.start()
    for epoch in range(100):
        lease.heartbeat(epoch=epoch)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert on_disk(checkpoint).epoch == 99

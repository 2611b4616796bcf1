"""A prune that was killed while it removed several entries at a time: it leaves gaps."""

from __future__ import annotations

import uuid

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.inspection import inspect_checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.retention import prune
from engine.checkpoint.rewind import rewind
from engine.checkpoint.storage.fsspec_storage import FsspecStorage


@pytest.fixture
def checkpoint() -> Checkpoint:
    made = Checkpoint(f"memory://{uuid.uuid4()}/checkpoint")
    made.create_or_read_query_id("q")
    commit(made, range(20))
    return made


def commit(checkpoint: Checkpoint, epochs: range) -> None:
    for epoch in epochs:
        checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
        checkpoint.commits.add(epoch, CommitEntry())


def remove(checkpoint: Checkpoint, *epochs: int) -> None:
    """As a prune that was killed before it had removed those in between."""
    for epoch in epochs:
        checkpoint.commits.delete(epoch)


def test_what_a_gap_is_of_is_told(checkpoint: Checkpoint) -> None:
    remove(checkpoint, 0, 1, 2, 4)
    (problem,) = inspect_checkpoint(checkpoint).problems
    assert problem.startswith("The log commits has gaps: 4.")
    assert "a prune that was killed" in problem
    prune(checkpoint, keep_epochs=5)
    assert inspect_checkpoint(checkpoint).problems == ()


@pytest.mark.parametrize("to_epoch", [7, 15])
def test_what_is_committed_behind_a_rewind_is_seen(checkpoint: Checkpoint, to_epoch: int) -> None:
    remove(checkpoint, 0, 1, 2, 4, 5, 6, 8, 9)
    assert checkpoint.epochs() == [3, 7, *range(10, 20)]
    rewind(checkpoint, to_epoch, accept_repeats=True)
    commit(checkpoint, range(to_epoch + 1, to_epoch + 4))
    last = to_epoch + 3
    assert checkpoint.committed_epoch() == last
    assert max(checkpoint.commit_times_ms()) == last
    assert inspect_checkpoint(checkpoint).epochs[-1]["epoch"] == last
    target = Checkpoint(f"memory://{uuid.uuid4()}/copy")
    assert copy_checkpoint(checkpoint, target).to_epoch == last
    prune(checkpoint, keep_epochs=2)
    assert checkpoint.epochs() == checkpoint.offsets.ids() == [last - 1, last]


def test_a_late_entry_behind_a_gap_is_none_still(checkpoint: Checkpoint) -> None:
    remove(checkpoint, 0, 1, 2, 4, 5)
    rewind(checkpoint, 12, accept_repeats=True)
    commit(checkpoint, range(13, 15))
    commit(checkpoint, range(20, 21))
    assert checkpoint.committed_epoch() == 14


def test_as_long_as_entries_may_come_late_no_gap_is_left(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewind(checkpoint, 5, accept_repeats=True)
    commit(checkpoint, range(6, 16))
    delete = FsspecStorage.delete

    def killed(storage: FsspecStorage, name: str) -> None:
        if name == "commits/8":
            raise InterruptedError
        delete(storage, name)

    monkeypatch.setattr(FsspecStorage, "delete", killed)
    with pytest.raises(InterruptedError):
        prune(checkpoint, keep_epochs=2)
    assert checkpoint.epochs() == checkpoint.commits.ids() == list(range(8, 16))

"""Commits that end in the middle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.lease import Lease
from engine.coordinator import epoch_runner
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.errors import PreparedEpochLostError, SourceError
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import CHECKSUM_DIGITS, SnapshotName
from tests.model import silent_binding


def runner(folder: Path, source: Any, run_id: str) -> tuple[EpochRunner, Lease]:
    checkpoint = Checkpoint(str(folder))
    checkpoint.create_or_read_query_id("a-query")
    lease = Lease.acquire(checkpoint, run_id=run_id)
    ends = QueryEnds("a-query", [source], silent_binding())
    return EpochRunner(checkpoint, lease, ends, min_epochs_to_retain=2), lease


@pytest.mark.parametrize("fenced", [False, True])
def test_a_fenced_run_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fenced: bool
) -> None:
    """It was suspended behind its last write, and somebody has rewound meanwhile."""
    checkpoint = Checkpoint(str(tmp_path))
    acknowledged: list[Any] = []
    source = SimpleNamespace(mergeOffsets=lambda parts: {"0": parts[0]}, commit=acknowledged.append)
    epochs, lease = runner(tmp_path, source, "suspended")
    for epoch in range(4):
        epochs.commit(epoch, [[epoch]], [None])

    def suspended(step: str) -> None:
        if step == "commitOffsets.after" and fenced:
            checkpoint.storage.delete(f"control/generations/{lease.generation}")
            checkpoint.storage.create("control/generations/99", b"")

    monkeypatch.setattr(epoch_runner, "reach", suspended)
    epochs.commit(4, [[4]], [None])

    assert checkpoint.epochs() == ([2, 3, 4] if fenced else [3, 4])
    assert acknowledged[-1] == {"0": 3 if fenced else 4}


def test_what_a_source_does_not_take_is_cleaned_up_all_the_same(tmp_path: Path) -> None:
    """Else a checkpoint would grow for as long as its source's commit fails."""

    def refusing(end: Any) -> None:
        raise SystemExit("the source has lost its connection")

    source = SimpleNamespace(mergeOffsets=lambda parts: {"0": parts[0]}, commit=refusing)
    epochs, _ = runner(tmp_path, source, "refused")
    for epoch in range(5):
        epochs.commit(epoch, [[epoch]], [None])

    assert Checkpoint(str(tmp_path)).epochs() == [3, 4]


def test_other_sources_hear_of_an_epoch_that_one_does_not_take(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("a-query")
    taken: list[Any] = []

    def source(commit: Callable[[Any], None]) -> Any:
        return SimpleNamespace(mergeOffsets=lambda parts: parts[0], commit=commit)

    sources = [source(raising), source(taken.append)]
    lease = Lease.acquire(checkpoint, run_id="of two")
    ends = QueryEnds("a-query", sources, silent_binding())
    EpochRunner(checkpoint, lease, ends, min_epochs_to_retain=2).commit(0, [[7], [8]], [None, None])

    assert taken == [8]


def raising(parts: list[Any]) -> Any:
    raise KeyError("topic-7")


@pytest.mark.parametrize("merge", [raising, lambda parts: {"0": date(2026, 1, 1)}])
def test_offsets_that_cannot_be_merged_are_the_sources_failure(
    tmp_path: Path, merge: Callable[[list[Any]], Any]
) -> None:
    """So the source's window counts, as for all else that it fails in."""
    epochs, _ = runner(tmp_path, SimpleNamespace(mergeOffsets=merge), "merging")

    with pytest.raises(SourceError, match=r"cannot merge its offsets of epoch 0: .*Error: "):
        epochs.commit(0, [[0]], [None])

    assert Checkpoint(str(tmp_path)).prepared.latest_id() is None


def test_an_epoch_that_is_run_again_needs_the_files_that_its_entry_names(tmp_path: Path) -> None:
    source = SimpleNamespace(
        mergeOffsets=lambda parts: {"0": parts[0]}, hasComeTo=lambda logged, end: logged == end
    )
    epochs, lease = runner(tmp_path, source, "a-run")
    epochs.log(0, [[0]], [None])
    epochs._note_lost(0, PreparedEpochLostError("It has timed out.", done=[]))

    storage = Checkpoint(str(tmp_path)).storage
    name = str(SnapshotName(1, 0, 1, 0, 128, "0" * CHECKSUM_DIGITS))
    storage.create(name, b"")
    handle = SnapshotHandle(1, 0, 128, None, None, 0, 0, 0, replaced=(name,))
    epochs.log(0, [[0]], [None], EpochState(handles=(handle,)), replayed=True)
    epochs._purge_state(0, lease.check)
    assert storage.exists(name)
    epochs._purge_state(100, lease.check)
    assert not storage.exists(name)

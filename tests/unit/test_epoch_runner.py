"""Commits that end in the middle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.coordinator import epoch_runner
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.errors import SourceError
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

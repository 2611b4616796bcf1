"""What a commit leaves alone when its run was fenced in the middle of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.coordinator import epoch_runner
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from tests.model import silent_binding


@pytest.mark.parametrize("fenced", [False, True])
def test_a_fenced_run_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fenced: bool
) -> None:
    """It was suspended behind its last write, and somebody has rewound meanwhile."""
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("a-query")
    lease = Lease.acquire(checkpoint, run_id="suspended")
    acknowledged: list[Any] = []
    source = SimpleNamespace(mergeOffsets=lambda parts: {"0": parts[0]}, commit=acknowledged.append)
    ends = QueryEnds("a-query", [source], silent_binding())  # type: ignore[list-item]
    epochs = EpochRunner(checkpoint, lease, ends, min_epochs_to_retain=2)
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

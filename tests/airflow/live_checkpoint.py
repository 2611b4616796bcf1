"""A checkpoint that a test writes as a query would: the engine's own logs and lease."""

from __future__ import annotations

import json
import time
from pathlib import Path

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState


class LiveCheckpoint:
    """A query of which the test is the engine."""

    def __init__(self, location: Path | str) -> None:
        self.location = str(location)
        self.checkpoint = Checkpoint(self.location)
        self.query_id = self.checkpoint.create_or_read_query_id("a-query")
        self.lease: Lease | None = None

    def hold(self, run_id: str = "run-1", state: QueryState = QueryState.RUNNING) -> None:
        """Take the lease and say in which state the run is."""
        self.lease = Lease.acquire(self.checkpoint, run_id=run_id, heartbeat_interval_ms=600_000)
        self.lease.heartbeat(state=state)

    def commit(self, *epochs: int) -> None:
        """Commit epochs; the source's offset is ten times what follows the epoch."""
        for epoch in epochs:
            assert self.checkpoint.offsets.add(epoch, OffsetEntry(({"0": (epoch + 1) * 10},)))
            assert self.checkpoint.commits.add(epoch, CommitEntry())

    def end(self, state: QueryState, error: str | None = None) -> None:
        """Say that the run has ended."""
        assert self.lease is not None
        self.lease.release(state, error)

    def lose(self, silent_s: float = 86_400.0) -> None:
        """Leave the lease of a run whose process has said nothing for so long."""
        lease = Path(self.location) / "control" / "lease"
        silent_since_ms = int((time.time() - silent_s) * 1000)
        silent = {"heartbeat_at_ms": silent_since_ms, "heartbeat_interval_ms": 1_000}
        lease.write_text(json.dumps({**json.loads(lease.read_text()), **silent}))

"""What a run leaves of the progress reports in its checkpoint."""

from __future__ import annotations

from pathlib import Path

from engine.base.clock import SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.execution.kept_reports import KeptReports


def test_a_run_that_commits_nothing_leaves_the_reports_of_the_one_before(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.progress.write([{"batchId": 7}])
    KeptReports(checkpoint, lambda: True, SystemClock()).save_last(None)
    assert checkpoint.progress.read() == [{"batchId": 7}]

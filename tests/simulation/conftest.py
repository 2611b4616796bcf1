"""What the simulations share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from engine.execution.execution import ContinuousExecution
from tests.simulation.story import WAIT_S, Story


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """Ends what a test has left running, one that failed for example: it would disturb those behind
    it. Made before all other fixtures, so what these have replaced is back in its place by then."""
    started: list[ContinuousExecution] = []
    start = ContinuousExecution.start

    def noted(execution: ContinuousExecution) -> None:
        start(execution)
        started.append(execution)

    with patch.object(ContinuousExecution, "start", noted):
        yield
    for execution in started:
        if execution.is_active:
            execution.stop()
            assert execution.await_termination(2 * WAIT_S), "what the test has left does not end"


@pytest.fixture(autouse=True)
def every_report() -> Iterator[None]:
    """A query's progress has all its epochs: how many there are behind one depends on how long a
    test takes."""
    with patch("engine.execution.kept_reports.RECENT_PROGRESS_MAX", 100_000):
        yield


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "checkpoint")

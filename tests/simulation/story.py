"""A query on threads that a test starts, feeds, breaks and starts again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.base.clock import Clock
from engine.checkpoint.checkpoint import Checkpoint
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import Launcher, ThreadLauncher
from engine.execution.measured import look_at
from engine.metrics.meter import QueryMeter
from engine.query.handle import ContinuousQuery
from tests.model import Feed, ModelSink, definition
from tests.waiting import wait_until

WAIT_S = 120


class Story:
    """One checkpoint, one feed, one sink; as many starts as the test wants."""

    def __init__(self, folder: Path, partitions: int = 2) -> None:
        self.folder = folder
        self.partitions = partitions
        self.feed = Feed(partitions)
        self.sink = ModelSink()

    def start(
        self,
        launcher: Launcher | None = None,
        clock: Clock | None = None,
        meter: QueryMeter | None = None,
        **options: Any,
    ) -> ContinuousQuery:
        """Start the query; without further options its first failure ends it."""
        made = replace(definition(self.feed, self.sink, self.folder, **options), meter=meter)
        execution = ContinuousExecution(made, launcher or ThreadLauncher(), clock)
        if meter is not None:
            meter.look = partial(look_at, execution)
        execution.start()
        return ContinuousQuery(execution, str)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.folder))

    def await_rows(self, query: ContinuousQuery, count: int) -> None:
        """Until the sink has so many rows, or the query has ended."""
        epoch = query.status["epoch"]
        while len(self.sink.rows()) < count and query.isActive:
            epoch += 1
            assert query.awaitEpoch(epoch, WAIT_S) or not query.isActive


def await_status(story: Story, holds: Callable[[Any], bool]) -> None:
    """Poll the checkpoint until its status is so."""
    wait_until(lambda: holds(story.checkpoint.status()), "the status", WAIT_S)

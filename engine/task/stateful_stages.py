"""From a step that keeps state to the stage that runs it."""

from __future__ import annotations

from engine.expressions.registry import Context
from engine.pipeline.stateful import (
    GroupRows,
    RunCustomState,
    StatefulStep,
)
from engine.state.contract import EventClock, StatefulStage
from engine.task.grouping import grouping_stage


def stateful_stage(
    step: StatefulStep, clock: EventClock, context: Context, groups: int
) -> StatefulStage:
    """:param groups: how many key groups the query has."""
    if isinstance(step, GroupRows):
        return grouping_stage(step, clock, context, groups)
    assert isinstance(step, RunCustomState)
    stage = step.start(step, clock, groups)  # type: ignore[call-arg]
    assert isinstance(stage, StatefulStage)
    return stage

"""From a step that keeps state to the stage that runs it."""

from __future__ import annotations

from engine.expressions.registry import Context
from engine.pipeline.stateful import (
    Deduplicate,
    GroupRows,
    GroupSessions,
    JoinStreams,
    RunCustomState,
    StatefulStep,
)
from engine.state.contract import EventClock, StatefulStage
from engine.task.deduplicating import deduplicating_stage
from engine.task.grouping import grouping_stage
from engine.task.joining import joining_stage
from engine.task.session_grouping import session_stage


def stateful_stage(
    step: StatefulStep, clock: EventClock, context: Context, groups: int
) -> StatefulStage:
    """:param groups: how many key groups the query has."""
    if isinstance(step, GroupRows):
        return grouping_stage(step, clock, context, groups)
    if isinstance(step, GroupSessions):
        return session_stage(step, clock, context, groups)
    if isinstance(step, Deduplicate):
        return deduplicating_stage(step, clock, groups)
    if isinstance(step, JoinStreams):
        return joining_stage(step, clock, context, groups)
    assert isinstance(step, RunCustomState)
    stage = step.start(step, clock, groups)
    assert isinstance(stage, StatefulStage)
    return stage

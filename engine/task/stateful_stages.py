"""From a step that keeps state to the stage that runs it."""

from __future__ import annotations

from functools import partial

from engine.exchange.key_groups import KeyGroups
from engine.exchange.partitioning import groups_of_rows
from engine.expressions.registry import Context
from engine.pipeline.stateful import (
    Deduplicate,
    GroupRows,
    GroupSessions,
    JoinStreams,
    StatefulStep,
)
from engine.state.contract import EventClock, StatefulStage
from engine.task.deduplicating import DeduplicateStage
from engine.task.grouping import grouping_stage
from engine.task.joining import JoinStage
from engine.task.session_grouping import session_stage


def stateful_stage(
    step: StatefulStep, context: Context, clock: EventClock, groups: int, owned: range
) -> StatefulStage:
    """:param groups: how many key groups the query has.
    :param owned: those of the task.
    """
    if isinstance(step, GroupRows):
        return grouping_stage(step, clock, context, groups)
    if isinstance(step, GroupSessions):
        return session_stage(step, clock, context, groups)
    if isinstance(step, Deduplicate):
        return DeduplicateStage(step, clock, groups)
    if isinstance(step, JoinStreams):
        return JoinStage(step, clock, context, groups)
    stage = step.start(step, clock, KeyGroups(owned, partial(groups_of_rows, groups=groups)))
    assert isinstance(stage, StatefulStage)
    return stage

"""A task goes by the time zones that its pipeline brings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.expressions.times import zone_rules
from engine.expressions.times.zone_rules import go_by
from engine.query.handle import ContinuousQuery
from tests.model import Feed, ModelSink, definition
from tests.unit.test_zone_rules import ONCE, java

WAIT_S = 30


def test_a_task_goes_by_the_rules_of_its_pipeline(tmp_path: Path) -> None:
    before, rules = zone_rules.rules(), java(ONCE)
    feed, sink = Feed(1), ModelSink()
    plain = definition(feed, sink, tmp_path / "checkpoint")
    (stream,) = plain.streams
    bringing = replace(stream, pipeline=replace(stream.pipeline, zone_rules=rules))
    execution = ContinuousExecution(replace(plain, streams=(bringing,)), ThreadLauncher())
    try:
        execution.start()
        feed.add(1)
        query = ContinuousQuery(execution, str)
        query.processAllAvailable()
        assert query.drain(WAIT_S)
        assert zone_rules.rules() == rules
    finally:
        go_by(before)

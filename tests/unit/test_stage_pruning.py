"""What nobody uses is neither exchanged nor kept, whatever stands between."""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.tree import Expr
from engine.pipeline.optimizer import columns_at
from engine.pipeline.pipeline import Filter, Pipeline, Project, SourceRelation, Step, Watermark
from engine.pipeline.stage_pruning import prune_stages
from engine.pipeline.stateful import (
    Aggregate,
    Deduplicate,
    Exchange,
    Exchanged,
    GroupRows,
    JoinSide,
    JoinStreams,
    PartGroup,
)

TIME = pa.timestamp("us", tz="UTC")
ROWS = pa.schema([("at", TIME), ("k", pa.string()), ("v", pa.int64()), ("unused", pa.string())])
OTHERS = pa.schema([("unused", pa.string()), ("k2", pa.string()), ("at2", TIME)])


def source(schema: pa.Schema, stage: int, *keys: int, side: int = 0) -> Pipeline:
    relation = SourceRelation("rate", {}, schema)
    return Pipeline(relation, (), schema, exchange=Exchange(stage, keys, side))


def selected(schema: pa.Schema, *places: int) -> Project:
    return Project(columns_at(schema, places), pa.schema([schema.field(place) for place in places]))


def is_positive(schema: pa.Schema, place: int) -> Filter:
    zero = Expr("Literal", (), pa.int64(), False, {"value": 0})
    return Filter(Expr("GreaterThan", (*columns_at(schema, [place]), zero), pa.bool_()))


def stage(schema: pa.Schema, *steps: Step) -> Pipeline:
    last = steps[-1]
    assert isinstance(last, Project)
    return Pipeline(Exchanged((schema,), ((0,),)), steps, last.schema)


def test_a_deduplication_carries_what_is_asked_for() -> None:
    step = Deduplicate("deduplicate-0", (1,), ROWS, 0)
    pipelines = source(ROWS, 1, 1), stage(ROWS, step, is_positive(ROWS, 2), selected(ROWS, 1))
    below, above = prune_stages(pipelines)
    assert below.schema.names == ["at", "k", "v"]
    assert below.exchange == Exchange(1, (1,))
    assert above.source.schema == below.schema
    kept = above.steps[0]
    assert kept == Deduplicate("deduplicate-0", (1,), below.schema, 0)
    assert above.schema.names == ["k"]


def test_a_key_is_found_at_its_new_place() -> None:
    step = Deduplicate("deduplicate-0", (2,), ROWS)
    below, above = prune_stages((source(ROWS, 1, 2), stage(ROWS, step, selected(ROWS, 2))))
    assert below.schema.names == ["v"]
    assert below.exchange == Exchange(1, (0,))
    assert above.steps[0] == Deduplicate("deduplicate-0", (0,), below.schema)


def test_both_sides_of_a_join() -> None:
    both = pa.schema([*ROWS, *OTHERS])
    condition = Expr("LessThan", columns_at(both, [0, 6]), pa.bool_())
    step = JoinStreams(
        "join-0",
        "inner",
        JoinSide(ROWS, (1,), 0, Expr("UnixMicros", columns_at(ROWS, [0]), pa.int64())),
        JoinSide(OTHERS, (1,), None, None),
        condition,
        both,
    )
    joined = Pipeline(
        Exchanged((ROWS, OTHERS), ((0,), (1,))),
        (step, selected(both, 6, 2)),
        pa.schema([both.field(6), both.field(2)]),
    )
    left, right, above = prune_stages((source(ROWS, 2, 1), source(OTHERS, 2, 1, side=1), joined))
    assert left.schema.names == ["at", "k", "v"]
    assert right.schema.names == ["k2", "at2"]
    assert (left.exchange, right.exchange) == (Exchange(2, (1,), 0), Exchange(2, (0,), 1))
    made = above.steps[0]
    assert isinstance(made, JoinStreams)
    assert made.schema.names == ["at", "k", "v", "k2", "at2"]
    assert (made.left.keys, made.right.keys, made.left.event_time) == ((1,), (0,), 0)
    assert made.condition is not None
    assert [c.params["ordinal"] for c in made.condition.children] == [0, 4]
    last = above.steps[1]
    assert isinstance(last, Project)
    assert [c.params["ordinal"] for c in last.columns] == [4, 2]


def test_aggregates_keep_what_is_computed_for_them() -> None:
    total = Aggregate("Sum", columns_at(ROWS, [2]), pa.int64())
    states = pa.schema([("k", pa.string()), ("0 Sum.sum", pa.int64())])
    results = pa.schema([("k", pa.string()), ("sum(v)", pa.int64())])
    folds = PartGroup((1,), (total,), states)
    below = Pipeline(
        SourceRelation("rate", {}, ROWS),
        (Watermark(0, 1), folds),
        states,
        exchange=Exchange(1, (0,)),
    )
    step = GroupRows("aggregate-0", (0,), (total,), results, "update", None, True)
    pruned = prune_stages((below, stage(states, step, selected(results, 0))))
    assert pruned[0] == below
    assert pruned[1].steps[0] == step


def test_a_stage_behind_a_stage() -> None:
    first = Pipeline(
        Exchanged((ROWS,), ((0,),)),
        (Deduplicate("deduplicate-0", (1,), ROWS),),
        ROWS,
        exchange=Exchange(2, (2,)),
    )
    step = Deduplicate("deduplicate-1", (2,), ROWS)
    second = Pipeline(Exchanged((ROWS,), ((1,),)), (step, selected(ROWS, 2)), ROWS)
    second = Pipeline(second.source, second.steps, pa.schema([ROWS.field(2)]))
    pipelines = prune_stages((source(ROWS, 1, 1), first, second))
    assert [each.schema.names for each in pipelines] == [["k", "v"], ["v"], ["v"]]
    assert [each.exchange for each in pipelines] == [Exchange(1, (0,)), Exchange(2, (0,)), None]

"""Joins of two streams.

Equalities are the keys by which rows meet; what else the condition says is looked at for each pair.
How long a row stays is Spark's own answer: it is done with when the watermark is at its key's time,
if that is an event time, or at a time that follows from what the condition says about the two event
times. Those bounds are constants behind the watermark, so Spark is asked for one of them.

Source: Spark's ``StreamingSymmetricHashJoinHelper.getStateWatermarkPredicates``,
``StreamingJoinHelper.getStateValueWatermark``, ``ExtractEquiJoinKeys``,
``StreamingSymmetricHashJoinExec.produceOutputWatermark``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.expressions.tree import Expr
from engine.pipeline.optimizer import columns_at
from engine.pipeline.pipeline import Project
from engine.pipeline.stateful import JoinSide, JoinStreams
from engine.plan.aggregates import normalized
from engine.plan.catalyst import scala_seq, simple_name
from engine.plan.drafts import Draft, Input
from engine.plan.event_time import delay_ms
from engine.plan.refusals import node_refusal
from engine.plan.scope import Attributes, Scope
from engine.plan.static_join import join_name

_KINDS: Final = {
    "INNER": "inner",
    "CROSS": "inner",
    "LEFT OUTER": "left",
    "RIGHT OUTER": "right",
    "FULL OUTER": "full",
    "LEFT SEMI": "semi",
}
_SOME_TIME_MS: Final = 1_000_000_000_000
"""A watermark to ask Spark with: far enough from 0 that it rounds as it does today."""


def joins_streams(plan: Any) -> bool:
    """Whether two streams are joined anywhere in a plan."""
    if plan.nodeName() == "Join" and plan.left().isStreaming() and plan.right().isStreaming():
        return True
    return any(joins_streams(child) for child in scala_seq(plan.children()))


@dataclass(frozen=True)
class Side:
    """One input of a join, as it was when its node had been visited."""

    drafts: tuple[Draft, ...]
    schema: pa.Schema
    attributes: Attributes

    @classmethod
    def of(cls, scope: Scope) -> Side:
        return cls(scope.open, scope.schema, scope.attributes)

    def restore(self, scope: Scope) -> None:
        """The scope has this side's rows again."""
        scope.open, scope.schema, scope.attributes = self.drafts, self.schema, self.attributes


def join_streams(scope: Scope, node: Any, left: Side, right: Side) -> None:
    """Cut both sides; the rows that go together are the scope's from now on."""
    text = join_name(node.joinType())
    found = scope.gateway.jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(
        node
    )
    if text not in _KINDS or found.isEmpty():
        scope.problems.append(node_refusal("Join", f"{text.lower()}, two streams"))
        scope.enter(node)
        return
    bounds = _Bounds(scope.gateway, node, found.get())
    inputs, sides = [], []
    for at, side in enumerate((left, right)):
        sent, kept = _send(scope, side, bounds, at)
        inputs.append(sent)
        sides.append(kept)
    stage = scope.drafts.stage(*inputs)
    stage.holds_back_ms = bounds.holds_back_ms
    scope.open = (stage,)
    condition = None
    width = len(inputs[0].schema)
    if bounds.condition.isDefined():
        moved = {key: (width + at, name) for key, (at, name) in right.attributes.items()}
        reader = scope.reader({**left.attributes, **moved})
        condition = reader.read(bounds.condition.get(), in_place=True)
    kind = _KINDS[text]
    schema = _schema(kind, inputs[0].schema, inputs[1].schema)
    name = scope.drafts.operator_name("join")
    scope.add(
        JoinStreams(name, kind, sides[0], sides[1], condition, schema),
        f"{text} JOIN of two streams ON {node.condition().get().sql()}",
    )
    kept_columns = [*range(len(left.schema))]
    if kind != "semi":
        kept_columns += range(width, width + len(right.schema))
    scope.enter(node)
    if len(kept_columns) < len(schema):
        scope.add(Project(columns_at(schema, kept_columns), scope.schema), "")


def _send(scope: Scope, side: Side, bounds: _Bounds, at: int) -> tuple[Input, JoinSide]:
    """Behind the columns of a side stand the keys that are none of them."""
    side.restore(scope)
    width = len(side.schema)
    columns = scope.read([normalized(scope.gateway, key) for key in bounds.keys[at]])
    appended = [c for c in columns if c.op != "Column" or c.params["ordinal"] >= width]
    schema = pa.schema(
        [*side.schema, *((f"key {n}", c.dtype, c.nullable) for n, c in enumerate(appended, 1))]
    )
    if appended:
        scope.add(Project((*columns_at(side.schema, range(width)), *appended), schema), "")
    behind = iter(range(width, len(schema)))
    places = tuple(
        next(behind) if column in appended else column.params["ordinal"] for column in columns
    )
    kept = JoinSide(schema, places, bounds.event_time(at), bounds.evicts(at, schema, places))
    return Input(scope.open, schema, places), kept


class _Bounds:
    """For how long rows stay, and what tells it.

    :param parts: what ``ExtractEquiJoinKeys`` has found.
    :ivar condition: what is looked at for each pair, a Scala ``Option``.
    """

    def __init__(self, gateway: Any, node: Any, parts: Any) -> None:
        self._gateway = gateway
        self._inputs = (node.left(), node.right())
        self._attributes = [list(scala_seq(each.output())) for each in self._inputs]
        self.keys = [list(scala_seq(parts.productElement(place))) for place in (1, 2)]
        self.condition = parts.productElement(3)
        self._key = next(
            (at for keys in self.keys for at, key in enumerate(keys) if _is_event_time(key)), None
        )

    def event_time(self, side: int) -> int | None:
        """The position of a side's event time: of several the first, as in Spark."""
        found = (at for at, each in enumerate(self._attributes[side]) if _is_event_time(each))
        return next(found, None)

    def evicts(self, side: int, schema: pa.Schema, keys: Sequence[int]) -> Expr | None:
        """See :attr:`JoinSide.evicts`.

        :param keys: positions of the side's keys.
        """
        behind_ms = self._behind_ms(side)
        place = self.event_time(side) if self._key is None else keys[self._key]
        return None if behind_ms is None or place is None else _micros(schema, place, behind_ms)

    @property
    def holds_back_ms(self) -> int | None:
        """How far the watermark of what comes out is behind that of what goes in; None: there is
        none, for rows stay for ever."""
        known = [behind for side in (0, 1) if (behind := self._behind_ms(side)) is not None]
        return max(known, default=None)

    def _behind_ms(self, side: int) -> int | None:
        """How far the watermark has to be past a row's time until it is done with."""
        if self._key is not None:
            return 0
        if self.event_time(side) is None:
            return None
        jvm = self._gateway.jvm
        mine, others = self._inputs[side], self._inputs[1 - side]
        found = (
            jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper.getStateValueWatermark(
                mine.outputSet(), others.outputSet(), self.condition, jvm.scala.Some(_SOME_TIME_MS)
            )
        )
        return _SOME_TIME_MS - int(found.get()) if found.isDefined() else None


def _is_event_time(expression: Any) -> bool:
    return simple_name(expression) == "AttributeReference" and delay_ms(expression) is not None


def _micros(schema: pa.Schema, place: int, behind_ms: int) -> Expr:
    """A time, or the end of a window, and so much."""
    (time,) = columns_at(schema, [place])
    if pa.types.is_struct(time.dtype):
        end = time.dtype.field("end")
        time = Expr("GetStructField", (time,), end.type, True, {"ordinal": 1})
    micros = Expr("PreciseTimestampConversion", (time,), pa.int64(), True)
    later = Expr("Literal", (), pa.int64(), False, {"value": behind_ms * 1000})
    return Expr("Add", (micros, later), pa.int64(), True, {"eval_mode": "TRY"})


def _schema(kind: str, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """A side that may be missing is NULL."""
    if kind == "semi":
        return left
    sides = (left, kind in ("right", "full")), (right, kind in ("left", "full"))
    return pa.schema(
        [f.with_nullable(True) if missing else f for side, missing in sides for f in side]
    )

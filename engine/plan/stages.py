"""Nodes that keep state about the rows of one input: aggregates and deduplications.

What such a node needs of each row is computed in front of the exchange; what the query makes of the
results behind it: the rest of its expressions, HAVING, projections.

As in Spark, -0.0 and 0.0 are one key, and so are all NaNs.

Source: Spark's ``StatefulAggregationStrategy``, ``StreamingDeduplicationStrategy``,
``PhysicalAggregation``, ``NormalizeFloatingNumbers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from engine.base.output_modes import COMPLETE
from engine.pipeline.pipeline import Project
from engine.pipeline.stateful import (
    Aggregate,
    Deduplicate,
    GroupRows,
    GroupSessions,
    PartGroup,
    RunCustomState,
)
from engine.plan.aggregates import FunctionReader, Inputs, normalized
from engine.plan.catalyst import scala_seq, simple_name
from engine.plan.custom_state import GROUP_FUNCTION, custom_state_step, emitting
from engine.plan.drafts import Input
from engine.plan.event_time import delay_ms, event_time, is_session
from engine.plan.partition_keys import reads_alone, refused_initial_state, why_exchanged
from engine.plan.scope import Scope
from engine.state.aggregates.functions import state_fields


class StagePlanning:
    """Cuts the pipelines of a scope.

    :param output_mode: of the query.
    :param partial: whether rows are folded in front of the exchange, too.
    :param keys_stay: whether the rows of a key are all in one partition of the source.
    """

    def __init__(
        self, scope: Scope, output_mode: str, *, partial: bool, keys_stay: bool = False
    ) -> None:
        self._scope = scope
        self._output_mode = output_mode
        self._partial = partial
        self._keys_stay = keys_stay

    def aggregate(self, node: Any) -> None:
        """``Aggregate``, or ``Distinct``, which is one of all columns without a function."""
        scope = self._scope
        if node.nodeName() == "Distinct":
            grouping = results = list(scala_seq(node.output()))
            functions: list[Any] = []
        else:
            planning = scope.gateway.jvm.org.apache.spark.sql.catalyst.planning
            planned = planning.PhysicalAggregation.unapply(node).get()
            grouping, functions, results = (
                list(scala_seq(part)) for part in (planned._1(), planned._2(), planned._3())
            )
        keys = [each.toAttribute() for each in grouping]
        aggregates = self._project_inputs(grouping, keys, functions)
        self._group(keys, functions, aggregates)
        scope.project(results, node, f"Project {_told(results, functions)}")

    def deduplicate(self, node: Any) -> None:
        """``dropDuplicates``, ``dropDuplicatesWithinWatermark``."""
        scope = self._scope
        attributes = list(scala_seq(node.child().output()))
        keys = tuple(scope.attributes[key.exprId().id()][0] for key in scala_seq(node.keys()))
        time = self._event_time(attributes)
        within_us = None
        if node.nodeName() == "DeduplicateWithinWatermark" and time is not None:
            within_us = (delay_ms(attributes[time]) or 0) * 1000
            if not pa.types.is_timestamp(scope.schema.field(time).type):
                scope.problems.append(
                    "dropDuplicatesWithinWatermark by a window: its event time has to be a"
                    " timestamp, e.g. window_time(window)"
                )
        self._cut(keys, list(scala_seq(node.keys())))
        name = scope.drafts.operator_name("deduplicate")
        columns = ", ".join(scope.schema.names[key] for key in keys)
        within = "" if within_us is None else " within the watermark"
        step = Deduplicate(name, keys, scope.schema, time, within_us)
        scope.add(step, f"Deduplicate by {columns}{within}")
        scope.enter(node)

    def run_custom_state(self, node: Any, static_side_bytes_max: int) -> None:
        """``applyInPandasWithState``, ``transformWithState``.

        :param static_side_bytes_max: how large an initial state may be, in Arrow's memory.
        """
        scope = self._scope
        step = custom_state_step(
            scope.spark,
            node,
            scope.drafts.operator_name("custom"),
            scope.schema,
            scope.problems,
            event_time=self._event_time(list(scala_seq(node.child().output()))),
            static_side_bytes_max=static_side_bytes_max,
        )
        if step is not None:
            given = list(scala_seq(node.child().output()))
            if self._stays and step.params.get("initial") is not None:
                scope.problems.append(refused_initial_state())
            self._cut(step.keys, [given[key] for key in step.keys])
            scope.add(step, f"{node.nodeName()} {node.functionExpr().name()}")
            if node.nodeName() == GROUP_FUNCTION:  # Spark knows of no time in its results
                scope.open[0].holds_back_ms = None
        scope.enter(node)

    def emit_event_time(self, node: Any) -> None:
        """``eventTimeColumnName`` of ``transformWithState``."""
        scope = self._scope
        place, _ = scope.attributes[node.eventTime().exprId().id()]
        for draft in scope.open:
            if draft.steps and isinstance(draft.steps[-1], RunCustomState):
                draft.steps[-1] = emitting(draft.steps[-1], place)
        scope.enter(node)

    def _project_inputs(
        self, grouping: Sequence[Any], keys: Sequence[Any], functions: Sequence[Any]
    ) -> tuple[Aggregate, ...]:
        """What is grouped by, and what is folded, are the columns from now on."""
        scope = self._scope
        parameters = scope.reader(scope.attributes).parameters
        reader = FunctionReader(scope.gateway, parameters, scope.problems)
        parts = [reader.parts(each) for each in functions]
        columns = iter(
            scope.read(
                [
                    *(normalized(scope.gateway, _without_alias(each)) for each in grouping),
                    *(part for each in parts for part in each),
                ]
            )
        )
        inputs = Inputs(scope.context)
        for key in keys:  # each has a column of its own, whatever equals it
            inputs.columns.append(next(columns))
            inputs.names.append(key.name())
        aggregates = tuple(
            reader.read(node, [next(columns) for _ in each], inputs)
            for node, each in zip(functions, parts, strict=True)
        )
        fields = zip(inputs.names, inputs.columns, strict=True)
        schema = pa.schema([(name, column.dtype, column.nullable) for name, column in fields])
        scope.add(Project(tuple(inputs.columns), schema), "")
        scope.schema = schema
        return aggregates

    def _group(
        self, keys: Sequence[Any], functions: Sequence[Any], aggregates: tuple[Aggregate, ...]
    ) -> None:
        scope = self._scope
        width = len(keys)
        sessions = [place for place, key in enumerate(keys) if is_session(key)]
        time = self._event_time(keys)
        by_key = tuple(place for place in range(width) if place not in sessions)
        mode = self._output_mode
        is_partial = self._partial and not sessions and not scope.problems and not self._stays
        if is_partial:
            self._fold_before(by_key, aggregates)
        self._cut(by_key, [keys[place] for place in by_key], all_told=mode == COMPLETE)
        scope.see([*keys, *(each.resultAttribute() for each in functions)])
        names = [*scope.schema.names[:width], *(each.sql() for each in functions)]
        # What is refused has no column.
        named = zip(scope.schema, names, strict=not scope.problems)
        fields = [field.with_name(name) for field, name in named]
        scope.schema = pa.schema(fields)
        shown = f"by {', '.join(names[:width]) or 'nothing'}: {', '.join(names[width:])}"
        if sessions:
            self._refuse_sessions(keys, sessions)
            places = (*by_key, *sessions)
            name = scope.drafts.operator_name("sessions")
            scope.add(
                GroupSessions(
                    name, by_key, sessions[0], aggregates, places, scope.schema, mode,
                    time is not None and mode != COMPLETE,
                ),
                f"Sessions {shown}",
            )  # fmt: skip
            return
        name = scope.drafts.operator_name("aggregate")
        closes = None if mode == COMPLETE else time
        step = GroupRows(name, by_key, aggregates, scope.schema, mode, closes, is_partial)
        scope.add(step, f"Aggregate {shown}")

    def _fold_before(self, keys: tuple[int, ...], aggregates: tuple[Aggregate, ...]) -> None:
        """Fewer rows may be sent then, each with states in place of what they are of."""
        scope = self._scope
        states = [
            part
            for number, each in enumerate(aggregates)
            for part in state_fields(each, f"{number} {each.function}")
        ]
        schema = pa.schema([*(scope.schema.field(key) for key in keys), *states])
        scope.append(PartGroup(keys, aggregates, schema), "")
        scope.schema = schema

    def _refuse_sessions(self, keys: Sequence[Any], sessions: Sequence[int]) -> None:
        if len(sessions) > 1:
            self._scope.problems.append("several session windows in one GROUP BY")
        if self._output_mode == COMPLETE and self._event_time(keys) is not None:
            self._scope.problems.append(
                "session_window with a watermark in output mode complete: Spark leaves late rows"
                " out there, and this engine does not; use append, or leave out withWatermark"
            )
        if len(keys) == len(sessions):
            self._scope.problems.append(
                "a session_window alone: Spark groups a stream by sessions of a key only; group by"
                " a further column"
            )

    def _event_time(self, attributes: Sequence[Any]) -> int | None:
        """See :func:`engine.plan.event_time.event_time`."""
        scope = self._scope
        time = event_time(attributes, scope.problems)
        if time is not None and all(each.rows_lag_ms is None for each in scope.open):
            scope.problems.append(
                f"the column {attributes[time].name()}: no watermark comes through the join below:"
                " let its condition bound the two event times"
            )
        return time

    @property
    def _stays(self) -> bool:
        """Whether the next step with state is to be where the source is read. Behind one that is,
        other keys may be asked for: of these nothing was said."""
        return self._keys_stay and reads_alone(self._scope.open)

    def _cut(
        self, keys: tuple[int, ...], attributes: Sequence[Any], *, all_told: bool = False
    ) -> None:
        """What follows is done where all rows with the same values in these columns meet.

        :param attributes: of these columns.
        :param all_told: whether it returns all that it knows.
        """
        scope = self._scope
        if self._stays:
            scope.problems += why_exchanged(scope.open, attributes, all_told=all_told)
            scope.describe("Keys stay in their partitions: no exchange")
        else:
            scope.open = (scope.drafts.stage(Input(scope.open, scope.schema, keys)),)


def _told(results: Sequence[Any], functions: Sequence[Any]) -> str:
    """Results as SQL. What stands for a function in them is named by numbers of this session."""
    text = ", ".join(result.sql() for result in results)
    for function in functions:
        text = text.replace(function.resultAttribute().sql(), function.sql())
    return text


def _without_alias(node: Any) -> Any:
    return node.child() if simple_name(node) == "Alias" else node

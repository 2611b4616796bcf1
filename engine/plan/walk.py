"""The walk over a plan from the sources to the top, a step per node.

======================================== ===========================
``StreamingRelationV2``                  the source
``StreamingRelation``                    Spark's file source
``Union`` of streams                     one pipeline each; what follows is a step of all
``Project``                              :class:`Project`
``Filter``                               :class:`Filter`
``EventTimeWatermark``                   :class:`Watermark`
Python functions in expressions          :class:`EvalPython`, in front of the step
``MapInArrow``, ``MapInPandas``          :class:`MapBatches`
``Generate``                             :class:`Generate`
``Expand`` (unpivot, rollup, windows)    :class:`Expand`
``Join`` with a table                    :class:`StaticJoin`
``CollectMetrics`` (``observe``)         :class:`Observe`
subqueries over tables in expressions    :class:`StaticJoin`, in front of the step
``Aggregate``, ``Distinct``              a stage, see :mod:`engine.plan.stages`
``Deduplicate`` and its relative         likewise
``TransformWithStateInPySpark``, ...     likewise, see :mod:`engine.plan.custom_state`
``Join`` of two streams                  a stage, see :mod:`engine.plan.stream_join`
``SubqueryAlias``, ``View`` (temporary)  nothing
``ResolvedHint``                         nothing
``Repartition`` and its relatives        nothing: which partition a row is in is no result
``WithCTE``, ``CTERelationRef``          the definition in its place
======================================== ===========================

Everything else is refused, all of it in one error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.expressions.releases import has
from engine.expressions.tree import Expr
from engine.expressions.types import has_variant
from engine.pipeline.optimizer import columns_at
from engine.pipeline.pipeline import (
    Expand,
    Filter,
    Generate,
    Observe,
    Project,
    Watermark,
    schema_behind,
)
from engine.plan.aggregates import aggregates_in
from engine.plan.catalyst import scala_seq, simple_name
from engine.plan.custom_state import is_custom_state
from engine.plan.drafts import Draft
from engine.plan.java_zones import go_by_java_zones
from engine.plan.observations import read_aggregates
from engine.plan.partition_keys import refused_join
from engine.plan.python_functions import map_step
from engine.plan.refusals import generator_refusal, node_refusal
from engine.plan.scope import Scope
from engine.plan.stages import StagePlanning
from engine.plan.static_join import join_kind, join_name, static_join, static_table
from engine.plan.stream_join import Side, join_streams, joins_streams
from engine.plan.stream_relation import file_relation, source_relation
from engine.plan.subqueries import has_subqueries
from engine.plan.table_functions import table_function_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PASS_THROUGH = {"SubqueryAlias", "View", "ResolvedHint", "PipeOperator"}
_EXCHANGES = {"Repartition", "RepartitionByExpression", "RebalancePartitions"}
_GENERATORS = ("Explode", "PosExplode", "Inline", "Stack")
_DEDUPLICATIONS = ("Deduplicate", "DeduplicateWithinWatermark")


class Walk:
    """Visits nodes, inputs first. ``scope`` has the rows of the last one.

    :param output_mode: of the query.
    :param partial_aggregation: whether rows are folded in front of the exchange, too.
    :param keys_stay: whether the rows of a key are all in one partition of the source.
    :param rewritten: see :class:`~engine.plan.scope.Scope`.
    """

    def __init__(
        self,
        df: DataFrame,
        static_side_bytes_max: int,
        output_mode: str,
        *,
        partial_aggregation: bool = True,
        keys_stay: bool = False,
        rewritten: bool = True,
    ) -> None:
        spark = df.sparkSession
        analyzed = df._jdf.queryExecution().analyzed()
        self._subqueries_alone = (
            rewritten and has_subqueries(spark, analyzed) and not joins_streams(analyzed)
        )
        self._static_side_bytes_max = static_side_bytes_max
        self.scope = Scope(spark, static_side_bytes_max, rewritten=rewritten)
        self.zone_rules = go_by_java_zones(self.scope.gateway)
        self._stages = StagePlanning(
            self.scope, output_mode, partial=partial_aggregation, keys_stay=keys_stay
        )
        self._keys_stay = keys_stay
        self._definitions: dict[int, Any] = {}

    def visit(self, node: Any) -> None:
        name = node.nodeName()
        if name == "StreamingRelationV2":
            self._enter_source(node)
            relation = source_relation(self.scope.spark, node, self.scope.schema)
            self.scope.open = (self.scope.drafts.source(relation),)
        elif name == "StreamingRelation":
            self._enter_source(node)
            files = file_relation(self.scope.spark, node, self.scope.schema, self.scope.problems)
            self.scope.open = () if files is None else (self.scope.drafts.source(files),)
        elif name == "Union" and node.isStreaming():
            self._union(node)
        elif name == "Project":
            self.visit(node.child())
            self._project(node)
        elif name == "Filter":
            self.visit(node.child())
            self._filter(node)
        elif name == "EventTimeWatermark":
            self.visit(node.child())
            self._watermark(node)
        elif name in ("MapInArrow", "PythonMapInArrow", "MapInPandas"):
            self.visit(node.child())
            self._map_batches(node)
        elif name == "Generate":
            self.visit(node.child())
            self._generate(node)
        elif name == "Expand":
            self.visit(node.child())
            self._expand(node)
        elif name == "Join" and node.left().isStreaming() and node.right().isStreaming():
            self._join_streams(node)
        elif name == "Join":
            stream = node.left() if node.left().isStreaming() else node.right()
            self.visit(stream)
            self._join(node, stream)
        elif name == "LateralJoin" and not self.scope.rewritten:
            self.visit(node.left())
            self.scope.enter(node)
        elif name == "CollectMetrics":
            self.visit(node.child())
            self._observe(node)
        elif name in ("Aggregate", "Distinct"):
            self.visit(node.child())
            self._stages.aggregate(node)
        elif name in _DEDUPLICATIONS:
            self.visit(node.child())
            self._stages.deduplicate(node)
        elif is_custom_state(name):
            self.visit(node.child())
            self._stages.run_custom_state(node, self._static_side_bytes_max)
        elif name == "UpdateEventTimeWatermarkColumn":
            self.visit(node.child())
            self._stages.emit_event_time(node)
        elif name in _EXCHANGES:
            self.visit(node.child())
            self.scope.describe(f"{name}: not done, records stay in the partition that read them")
        elif name in _PASS_THROUGH and (name != "View" or node.isTempView()):
            self.visit(node.child())
        elif name == "WithCTE":
            for definition in scala_seq(node.cteDefs()):
                self._definitions[definition.id()] = definition
            self.visit(node.plan())
        elif name == "CTERelationRef" and not node.recursive():
            self.visit(self._definitions[node.cteId()].child())
            self.scope.enter(node)
        else:
            self._refuse(name, node)

    def _join_streams(self, node: Any) -> None:
        scope = self.scope
        if self._subqueries_alone:  # a join of Spark's own is told in the query's words
            self._refuse("Subquery", node)
            return
        self.visit(node.left())
        left = Side.of(scope)
        self.visit(node.right())
        join_streams(scope, node, left, Side.of(scope))
        if self._keys_stay:
            scope.problems.append(refused_join())

    def _refuse(self, name: str, node: Any) -> None:
        self.scope.problems.append(node_refusal(name))
        for child in scala_seq(node.children()):
            if child.isStreaming():  # what is wrong below is worth knowing, too
                self.visit(child)
        self.scope.enter(node)

    def _union(self, node: Any) -> None:
        """Columns go together by their places; the analyzer has made their types the same."""
        scope = self.scope
        parts: list[tuple[tuple[Draft, ...], pa.Schema]] = []
        for child in scala_seq(node.children()):
            if child.isStreaming():
                self.visit(child)
                parts.append((scope.open, scope.schema))
            else:
                scope.problems.append(node_refusal("Union", "static"))
        scope.enter(node)
        for drafts, schema in parts:
            if not schema.equals(scope.schema):
                scope.open = drafts
                scope.add(Project(columns_at(schema, range(len(schema))), scope.schema), "")
        scope.open = tuple(draft for drafts, _ in parts for draft in drafts)

    def _filter(self, node: Any) -> None:
        scope = self.scope
        width = len(scope.schema)
        (condition,) = scope.read([node.condition()], in_place=True)
        scope.add(Filter(condition), f"Filter {node.condition().sql()}")
        scope.drop_results(width)
        scope.enter(node)

    def _project(self, node: Any) -> None:
        columns = list(scala_seq(node.projectList()))
        texts = ", ".join(column.sql() for column in columns)
        self.scope.project(columns, node, f"Project {texts}")

    def _generate(self, node: Any) -> None:
        scope = self.scope
        generator, width = node.generator(), len(scope.schema)
        kind, children = simple_name(generator), list(scala_seq(generator.children()))
        if kind == "JsonTuple":  # itself an array of one struct
            kind, children = "Inline", [generator]
        if kind not in (*_GENERATORS, "PythonUDTF"):
            scope.problems.append(f"the generator {generator.sql()}: {generator_refusal(kind)}")
            scope.enter(node)
            return
        rows = 0
        if kind == "Stack":
            rows, children = int(children[0].eval(None)), children[1:]
        if kind == "PythonUDTF":
            kind, arguments = "Inline", self._lists_of_rows(generator)
        else:
            arguments = scope.read(children)
        extended = scope.schema
        scope.enter(node)
        made = pa.schema(list(scope.schema)[width:])
        outer = node.outer()
        step = Generate(kind, arguments, outer, made, len(extended), rows)
        scope.add(step, f"Generate {'OUTER ' if outer else ''}{generator.sql()}")
        scope.schema = schema_behind(step, extended)
        scope.drop_results(width, len(extended))
        scope.enter(node)

    def _lists_of_rows(self, generator: Any) -> tuple[Expr, ...]:
        """The column of what a table function makes of each row."""
        scope = self.scope
        step = table_function_step(
            scope.spark, generator, scope.read, lambda: len(scope.schema), scope.problems
        )
        if step is None:
            return ()
        scope.append(step, f"Python {generator.name()}")
        return columns_at(scope.schema, [step.width])

    def _expand(self, node: Any) -> None:
        scope = self.scope
        lists = [list(scala_seq(projection)) for projection in scala_seq(node.projections())]
        columns = scope.read([each for projection in lists for each in projection])
        scope.enter(node)
        size = len(scope.schema)
        rows = tuple(columns[start : start + size] for start in range(0, len(columns), size))
        texts = ", ".join(scope.schema.names)
        scope.add(Expand(rows, scope.schema), f"Expand to {len(rows)} rows of {texts}")

    def _join(self, node: Any, stream: Any) -> None:
        scope = self.scope
        is_left = bool(node.left().isStreaming())
        text = join_name(node.joinType())
        kind = join_kind(text, stream_is_left=is_left)
        if kind is None:
            scope.problems.append(node_refusal(f"{text.title()} Join", "static"))
            scope.enter(node)
            return
        narrow, conditions = len(scope.schema), list(scala_seq(node.condition().toList()))
        scope.add_scalars(conditions)
        before, on_stream = scope.schema, scope.attributes
        plan = self._with_definitions(node.right() if is_left else node.left())
        table = static_table(scope.spark, plan, self._static_side_bytes_max)
        width = len(before)
        scope.enter(node.right() if is_left else node.left())
        of_table = {key: (width + at, name) for key, (at, name) in scope.attributes.items()}
        both = {**of_table, **on_stream}
        condition = None
        if conditions:
            condition = scope.reader(both).read(conditions[0], in_place=True)
        null_aware = scope.spark.conf.get("spark.sql.optimizeNullAwareAntiJoin") == "true"
        guards, step = static_join(
            kind,
            condition,
            table,
            width,
            scope.context,
            scope.problems,
            null_aware=null_aware,
            signed_zeros=not has(scope.spark.version, "4.2.1", "4.3.0"),
        )
        shown = "" if condition is None else f" ON {conditions[0].sql()}"
        for guard in guards:
            scope.add(guard, "")
        scope.add(
            step, f"{text} JOIN with {step.table.num_rows} rows, {step.table.nbytes} bytes{shown}"
        )
        scope.attributes = both
        scope.schema = schema_behind(step, before)
        scope.drop_results(narrow, width)
        behind = scope.schema
        scope.enter(node)
        if not is_left:  # the table's columns come first
            order = [*range(narrow, narrow + table.num_columns), *range(narrow)]
            scope.add(Project(columns_at(behind, order), scope.schema), "")

    def _observe(self, node: Any) -> None:
        scope = self.scope
        metrics, width = list(scala_seq(node.metrics())), len(scope.schema)
        found = list(aggregates_in(metrics))
        aggregates = read_aggregates(scope.gateway, found, scope.read, scope.problems)
        if len(aggregates) == len(found):
            columns = {each.resultId().id(): (i, each.sql()) for i, each in enumerate(found)}
            reader = scope.reader(columns)
            results = tuple(reader.read(metric) for metric in metrics)
            pairs = zip(metrics, results, strict=True)
            schema = pa.schema([(metric.name(), result.dtype) for metric, result in pairs])
            texts = ", ".join(metric.sql() for metric in metrics)
            scope.add(
                Observe(node.name(), aggregates, results, schema), f"Observe {node.name()}: {texts}"
            )
        scope.drop_results(width)
        scope.enter(node)

    def _with_definitions(self, table: Any) -> Any:
        """A static plan that can be run alone: a ``WITH`` above the join may define its tables."""
        definitions = [each for each in self._definitions.values() if not each.isStreaming()]
        if not definitions:
            return table
        jvm: Any = self.scope.spark._jvm
        with_cte = jvm.org.apache.spark.sql.catalyst.plans.logical.WithCTE
        return with_cte(table, jvm.PythonUtils.toSeq(definitions))

    def _watermark(self, node: Any) -> None:
        scope = self.scope
        ordinal, name = scope.attributes[node.eventTime().exprId().id()]
        jvm: Any = scope.spark._jvm
        companion = jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
        delay_ms = companion.getDelayMs(node.delay())
        number = scope.drafts.watermark(scope.open)
        scope.add(Watermark(ordinal, delay_ms, number), f"Watermark {name}, {delay_ms} ms")
        scope.enter(node)

    def _map_batches(self, node: Any) -> None:
        scope = self.scope
        before = scope.schema
        scope.enter(node)
        step = map_step(scope.spark, node, before, scope.schema, scope.problems)
        scope.add(step, f"Python {step.function.name}, {node.nodeName()}")

    def _enter_source(self, node: Any) -> None:
        scope = self.scope
        scope.enter(node)
        scope.problems += [
            f"the column {field.name}: no source gives VARIANT yet: read a STRING, and use "
            "parse_json"
            for field in scope.schema
            if has_variant(field.type)
        ]

"""The walk over a plan from the source to the top, one step per node.

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
``Expand`` (unpivot)                     :class:`Expand`
``Join`` with a table                    :class:`StaticJoin`
``CollectMetrics`` (``observe``)         :class:`Observe`
subqueries over tables in expressions    :class:`StaticJoin`, in front of the step
``SubqueryAlias``, ``View`` (temporary)  nothing
``ResolvedHint``                         nothing
``Repartition`` and its relatives        nothing: which partition a row is in is no result
``WithCTE``, ``CTERelationRef``          the definition in its place
======================================== ===========================

Everything else is refused, all of it in one error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL, UnsupportedTypeError, has_variant
from engine.pipeline.optimizer import columns_at
from engine.pipeline.pipeline import (
    Expand,
    Filter,
    Generate,
    Observe,
    Project,
    SourceRelation,
    Step,
    Watermark,
    schema_behind,
)
from engine.plan.catalyst import arrow_type, scala_seq, simple_name
from engine.plan.catalyst_expressions import ExpressionReader
from engine.plan.java_zones import go_by_java_zones
from engine.plan.observations import aggregates_in, read_aggregates
from engine.plan.python_functions import FunctionCalls, map_step
from engine.plan.refusals import generator_refusal, node_refusal
from engine.plan.static_join import join_kind, join_name, static_join, static_table
from engine.plan.stream_relation import file_relation, source_relation
from engine.plan.subqueries import has_subqueries, independent_scalars, scalar_join
from engine.plan.table_functions import table_function_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PASS_THROUGH = {"SubqueryAlias", "View", "ResolvedHint"}
_EXCHANGES = {"Repartition", "RepartitionByExpression", "RebalancePartitions"}
_GENERATORS = ("Explode", "PosExplode", "Inline", "Stack")


@dataclass
class Stream:
    """One stream of the query, and what has become of it so far."""

    source: SourceRelation
    steps: list[Step] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)


class Walk:
    """Visits nodes, inputs first. ``attributes`` and ``schema`` are those of the last one.

    :param rewritten: whether subqueries are joins already, as far as they can be; else those over
        tables are passed over.
    """

    def __init__(
        self, df: DataFrame, static_side_bytes_max: int, *, rewritten: bool = True
    ) -> None:
        self._rewritten = rewritten
        self._spark = df.sparkSession
        analyzed = df._jdf.queryExecution().analyzed()
        self._has_subqueries = rewritten and has_subqueries(self._spark, analyzed)
        self._static_side_bytes_max = static_side_bytes_max
        self._gateway = self._spark.sparkContext._gateway
        self.zone_rules = go_by_java_zones(self._gateway)
        self._definitions: dict[int, Any] = {}
        self._attributes: dict[int, tuple[int, str]] = {}
        self.context = Context(str(self._spark.conf.get("spark.sql.session.timeZone")))
        self.streams: list[Stream] = []
        self.schema = pa.schema([])
        self.problems: list[str] = []

    def visit(self, node: Any) -> None:
        name = node.nodeName()
        if name == "StreamingRelationV2":
            self._enter_source(node)
            self.streams = [Stream(source_relation(self._spark, node, self.schema))]
        elif name == "StreamingRelation":
            self._enter_source(node)
            files = file_relation(self._spark, node, self.schema, self.problems)
            self.streams = [] if files is None else [Stream(files)]
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
        elif name == "Join" and node.left().isStreaming() != node.right().isStreaming():
            stream = node.left() if node.left().isStreaming() else node.right()
            self.visit(stream)
            self._join(node, stream)
        elif name == "LateralJoin" and not self._rewritten:
            self.visit(node.left())
            self._enter(node)
        elif name == "CollectMetrics":
            self.visit(node.child())
            self._observe(node)
        elif name in _EXCHANGES:
            self.visit(node.child())
            self._describe(f"{name}: not done, records stay in the partition that read them")
        elif name in _PASS_THROUGH and (name != "View" or node.isTempView()):
            self.visit(node.child())
        elif name == "WithCTE":
            for definition in scala_seq(node.cteDefs()):
                self._definitions[definition.id()] = definition
            self.visit(node.plan())
        elif name == "CTERelationRef" and not node.recursive():
            self.visit(self._definitions[node.cteId()].child())
            self._enter(node)
        else:
            self._refuse(name, node)

    def _refuse(self, name: str, node: Any) -> None:
        if name == "Join" and self._has_subqueries:  # its own joins are told in its words
            self.problems.append(node_refusal("Subquery"))
            self._enter(node)
            return
        self.problems.append(node_refusal(name))
        for child in scala_seq(node.children()):
            if child.isStreaming():  # what is wrong below is worth knowing, too
                self.visit(child)
        self._enter(node)

    def _union(self, node: Any) -> None:
        """Columns go together by their places; the analyzer has made their types the same."""
        parts: list[tuple[list[Stream], pa.Schema]] = []
        for child in scala_seq(node.children()):
            if child.isStreaming():
                self.streams = []
                self.visit(child)
                parts.append((self.streams, self.schema))
            else:
                self.problems.append(node_refusal("Union", "static"))
        self._enter(node)
        self.streams = []
        for streams, schema in parts:
            for stream in streams:
                if not schema.equals(self.schema):
                    columns = columns_at(schema, range(len(schema)))
                    stream.steps.append(Project(columns, self.schema))
                self.streams.append(stream)

    def _filter(self, node: Any) -> None:
        width = len(self.schema)
        (condition,) = self._read([node.condition()], in_place=True)
        self._add(Filter(condition), f"Filter {node.condition().sql()}")
        self._drop_results(width)
        self._enter(node)

    def _project(self, node: Any) -> None:
        before = self.schema
        columns = self._read(list(scala_seq(node.projectList())))
        self._enter(node)
        passed_through = [c.params["ordinal"] if c.op == "Column" else None for c in columns]
        if passed_through == list(range(len(before))) and self.schema.equals(before):
            return
        texts = ", ".join(column.sql() for column in scala_seq(node.projectList()))
        self._add(Project(columns, self.schema), f"Project {texts}")

    def _generate(self, node: Any) -> None:
        generator, width = node.generator(), len(self.schema)
        kind, children = simple_name(generator), list(scala_seq(generator.children()))
        if kind == "JsonTuple":  # itself an array of one struct
            kind, children = "Inline", [generator]
        if kind not in (*_GENERATORS, "PythonUDTF"):
            self.problems.append(f"the generator {generator.sql()}: {generator_refusal(kind)}")
            self._enter(node)
            return
        rows = 0
        if kind == "Stack":
            rows, children = int(children[0].eval(None)), children[1:]
        if kind == "PythonUDTF":
            kind, arguments = "Inline", self._lists_of_rows(generator)
        else:
            arguments = self._read(children)
        extended = self.schema
        self._enter(node)
        made = pa.schema(list(self.schema)[width:])
        outer = node.outer()
        step = Generate(kind, arguments, outer, made, len(extended), rows)
        self._add(step, f"Generate {'OUTER ' if outer else ''}{generator.sql()}")
        self.schema = schema_behind(step, extended)
        self._drop_results(width, len(extended))
        self._enter(node)

    def _lists_of_rows(self, generator: Any) -> tuple[Expr, ...]:
        """The column of what a table function makes of each row."""
        step = table_function_step(
            self._spark, generator, self._read, lambda: len(self.schema), self.problems
        )
        if step is None:
            return ()
        self._add(step, f"Python {generator.name()}")
        self.schema = schema_behind(step, self.schema)
        return columns_at(self.schema, [step.width])

    def _expand(self, node: Any) -> None:
        lists = [list(scala_seq(projection)) for projection in scala_seq(node.projections())]
        columns = self._read([each for projection in lists for each in projection])
        self._enter(node)
        size = len(self.schema)
        rows = tuple(columns[start : start + size] for start in range(0, len(columns), size))
        texts = ", ".join(self.schema.names)
        self._add(Expand(rows, self.schema), f"Expand to {len(rows)} rows of {texts}")

    def _join(self, node: Any, stream: Any) -> None:
        is_left = bool(node.left().isStreaming())
        text = join_name(node.joinType())
        kind = join_kind(text, stream_is_left=is_left)
        if kind is None:
            self.problems.append(node_refusal(f"{text.title()} Join", "static"))
            self._enter(node)
            return
        narrow, conditions = len(self.schema), list(scala_seq(node.condition().toList()))
        self._add_scalars(conditions)
        before, on_stream = self.schema, self._attributes
        plan = self._with_definitions(node.right() if is_left else node.left())
        table = static_table(self._spark, plan, self._static_side_bytes_max)
        width = len(before)
        self._enter(node.right() if is_left else node.left())
        both = {key: (width + at, name) for key, (at, name) in self._attributes.items()} | on_stream
        condition = None
        if conditions:
            reader = ExpressionReader(
                self._gateway, both, self.context, self.problems, rewritten=self._rewritten
            )
            condition = reader.read(conditions[0], in_place=True)
        null_aware = self._spark.conf.get("spark.sql.optimizeNullAwareAntiJoin") == "true"
        guards, step = static_join(
            kind, condition, table, width, self.context, self.problems, null_aware=null_aware
        )
        shown = "" if condition is None else f" ON {conditions[0].sql()}"
        for guard in guards:
            self._add(guard, "")
        self._add(
            step, f"{text} JOIN with {step.table.num_rows} rows, {step.table.nbytes} bytes{shown}"
        )
        self._attributes = both
        self.schema = schema_behind(step, before)
        self._drop_results(narrow, width)
        behind = self.schema
        self._enter(node)
        if not is_left:  # the table's columns come first
            order = [*range(narrow, narrow + table.num_columns), *range(narrow)]
            self._add(Project(columns_at(behind, order), self.schema), "")

    def _observe(self, node: Any) -> None:
        metrics, width = list(scala_seq(node.metrics())), len(self.schema)
        found = list(aggregates_in(metrics))
        aggregates = read_aggregates(self._gateway, found, self._read, self.problems)
        if len(aggregates) == len(found):
            columns = {each.resultId().id(): (i, each.sql()) for i, each in enumerate(found)}
            reader = ExpressionReader(self._gateway, columns, self.context, self.problems)
            results = tuple(reader.read(metric) for metric in metrics)
            pairs = zip(metrics, results, strict=True)
            schema = pa.schema([(metric.name(), result.dtype) for metric, result in pairs])
            texts = ", ".join(metric.sql() for metric in metrics)
            self._add(
                Observe(node.name(), aggregates, results, schema), f"Observe {node.name()}: {texts}"
            )
        self._drop_results(width)
        self._enter(node)

    def _with_definitions(self, table: Any) -> Any:
        """A static plan that can be run alone: a ``WITH`` above the join may define its tables."""
        definitions = [each for each in self._definitions.values() if not each.isStreaming()]
        if not definitions:
            return table
        jvm: Any = self._spark._jvm
        with_cte = jvm.org.apache.spark.sql.catalyst.plans.logical.WithCTE
        return with_cte(table, jvm.PythonUtils.toSeq(definitions))

    def _watermark(self, node: Any) -> None:
        ordinal, name = self._attributes[node.eventTime().exprId().id()]
        jvm: Any = self._spark._jvm
        companion = jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
        delay_ms = companion.getDelayMs(node.delay())
        self._add(Watermark(ordinal, delay_ms), f"Watermark {name}, {delay_ms} ms")
        self._enter(node)

    def _add(self, step: Step, description: str) -> None:
        for stream in self.streams:
            stream.steps.append(step)
        self._describe(description)

    def _describe(self, description: str) -> None:
        if description:
            for stream in self.streams:
                stream.descriptions.append(description)

    def _map_batches(self, node: Any) -> None:
        before = self.schema
        self._enter(node)
        step = map_step(self._spark, node, before, self.schema, self.problems)
        self._add(step, f"Python {step.function.name}, {node.nodeName()}")

    def _read(self, nodes: list[Any], *, in_place: bool = False) -> tuple[Expr, ...]:
        """Expressions over the present columns. The results of functions that they call are
        columns behind these from now on.

        :param in_place: see :meth:`ExpressionReader.read`.
        """
        self._add_scalars(nodes)
        calls = FunctionCalls(self._spark, len(self.schema))
        reader = ExpressionReader(
            self._gateway,
            self._attributes,
            self.context,
            self.problems,
            calls,
            rewritten=self._rewritten,
        )
        expressions = tuple(reader.read(node, in_place=in_place) for node in nodes)
        for step in calls.steps():
            names = ", ".join(function.name for function in step.functions)
            self._add(step, f"Python {names}")
            self.schema = schema_behind(step, self.schema)
        return expressions

    def _add_scalars(self, nodes: list[Any]) -> None:
        """The values of scalar subqueries are columns behind the present ones from now on."""
        if not self._rewritten:
            return
        for node in independent_scalars(self._spark, nodes):
            number = node.exprId().id()
            if number not in self._attributes:
                width = len(self.schema)
                step = scalar_join(self._spark, node, width, self._static_side_bytes_max)
                self._add(step, f"Scalar subquery {node.sql()}")
                self.schema = schema_behind(step, self.schema)
                self._attributes = {**self._attributes, number: (width, "scalar")}

    def _drop_results(self, start: int, end: int | None = None) -> None:
        """Drop the columns of functions' results and of scalar subqueries, which nobody will ask
        for."""
        end = len(self.schema) if end is None else end
        if start < end:
            kept = [i for i in range(len(self.schema)) if not start <= i < end]
            schema = pa.schema([self.schema.field(index) for index in kept])
            columns = columns_at(self.schema, kept)
            self._add(Project(columns, schema), "")

    def _enter_source(self, node: Any) -> None:
        self._enter(node)
        self.problems += [
            f"the column {field.name}: no source gives VARIANT yet: read a STRING, and use "
            "parse_json"
            for field in self.schema
            if has_variant(field.type)
        ]

    def _enter(self, node: Any) -> None:
        """From here on, expressions see this node's output."""
        fields = []
        self._attributes = {}
        for ordinal, attribute in enumerate(scala_seq(node.output())):
            name = attribute.name()
            self._attributes[attribute.exprId().id()] = (ordinal, name)
            try:
                dtype = arrow_type(attribute.dataType())
                if dtype == YEAR_MONTH_INTERVAL:
                    raise UnsupportedTypeError("intervals of months cannot be columns")
            except UnsupportedTypeError as error:
                self.problems.append(f"the column {name}: {error}")
                continue
            fields.append(pa.field(name, dtype, attribute.nullable()))
        self.schema = pa.schema(fields)

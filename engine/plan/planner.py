"""Analyzed plan of a streaming DataFrame → :class:`Pipeline`.

Spark's analyzer has resolved every name, inserted every cast and chosen the evaluation modes.
What is left is to walk the tree from the source to the top, one step per node:

======================================== ===========================
``StreamingRelationV2``                  the source
``Project``                              :class:`Project`
``Filter``                               :class:`Filter`
``EventTimeWatermark``                   :class:`Watermark`
``SubqueryAlias``, ``View`` (temporary)  nothing
``WithCTE``, ``CTERelationRef``          the definition in its place
======================================== ===========================

Everything else is refused, all of it in one error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.errors import UnsupportedQueryError
from engine.expressions.registry import Context
from engine.expressions.types import YEAR_MONTH_INTERVAL, UnsupportedTypeError
from engine.plan.expressions import ExpressionReader, arrow_type, scala_seq
from engine.plan.pipeline import Filter, Pipeline, Project, SourceRelation, Step, Watermark
from engine.plan.refusals import HINT, node_refusal
from engine.plan.source import source_relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PASS_THROUGH = {"SubqueryAlias", "View"}


def plan_query(df: DataFrame) -> Pipeline:
    """Turn a streaming DataFrame into a plan that needs no JVM.

    :raises UnsupportedQueryError: it is no stream, or holds what cannot run continuously;
        ``problems`` names every such node and expression.
    """
    if not df.isStreaming:
        raise UnsupportedQueryError(
            ["this DataFrame is not a stream"],
            hint="Read it with spark.readStream, or write it with df.write.",
        )
    walk = _Walk(df)
    walk.visit(df._jdf.queryExecution().analyzed())
    if walk.problems or walk.source is None:
        raise UnsupportedQueryError(dict.fromkeys(walk.problems), hint=HINT)
    return Pipeline(
        source=walk.source,
        steps=tuple(walk.steps),
        schema=walk.schema,
        session_timezone=walk.context.session_timezone,
        descriptions=tuple(walk.descriptions),
    )


class _Walk:
    """Visits nodes, inputs first. ``attributes`` and ``schema`` are those of the last one."""

    def __init__(self, df: DataFrame) -> None:
        self._spark = df.sparkSession
        self._gateway = self._spark.sparkContext._gateway
        self._definitions: dict[int, Any] = {}
        self._attributes: dict[int, tuple[int, str]] = {}
        self.context = Context(str(self._spark.conf.get("spark.sql.session.timeZone")))
        self.source: SourceRelation | None = None
        self.schema = pa.schema([])
        self.steps: list[Step] = []
        self.descriptions: list[str] = []
        self.problems: list[str] = []

    def visit(self, node: Any) -> None:
        name = node.nodeName()
        if name == "StreamingRelationV2":
            self._enter(node)
            self.source = source_relation(self._spark, node, self.schema)
        elif name == "Project":
            self.visit(node.child())
            self._project(node)
        elif name == "Filter":
            self.visit(node.child())
            condition = self._reader().read(node.condition())
            self._add(Filter(condition), f"Filter {node.condition().sql()}")
            self._enter(node)
        elif name == "EventTimeWatermark":
            self.visit(node.child())
            self._watermark(node)
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
        detail = node.sourceName() if name == "StreamingRelation" else ""
        self.problems.append(node_refusal(name, detail))
        for child in scala_seq(node.children()):
            if child.isStreaming():  # what is wrong below is worth knowing, too
                self.visit(child)
        self._enter(node)

    def _project(self, node: Any) -> None:
        reader = self._reader()
        columns = tuple(reader.read(column) for column in scala_seq(node.projectList()))
        before = self.schema
        self._enter(node)
        passed_through = [c.params["ordinal"] if c.op == "Column" else None for c in columns]
        if passed_through == list(range(len(before))) and self.schema.equals(before):
            return
        texts = ", ".join(column.sql() for column in scala_seq(node.projectList()))
        self._add(Project(columns, self.schema), f"Project {texts}")

    def _watermark(self, node: Any) -> None:
        ordinal, name = self._attributes[node.eventTime().exprId().id()]
        jvm: Any = self._spark._jvm
        companion = jvm.org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
        delay_ms = companion.getDelayMs(node.delay())
        self._add(Watermark(ordinal, delay_ms), f"Watermark {name}, {delay_ms} ms")
        self._enter(node)

    def _add(self, step: Step, description: str) -> None:
        self.steps.append(step)
        self.descriptions.append(description)

    def _reader(self) -> ExpressionReader:
        return ExpressionReader(self._gateway, self._attributes, self.context, self.problems)

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

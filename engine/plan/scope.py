"""What the expressions of a plan's node see: columns, and the pipelines whose rows have these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL, UnsupportedTypeError
from engine.pipeline.optimizer import columns_at
from engine.pipeline.pipeline import Project, Step, schema_behind
from engine.plan.catalyst import arrow_type, scala_seq
from engine.plan.catalyst_expressions import ExpressionReader
from engine.plan.drafts import Draft, Drafts
from engine.plan.python_functions import FunctionCalls
from engine.plan.subqueries import independent_scalars, scalar_join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Attributes = Mapping[int, tuple[int, str]]
"""From an attribute's exprId to its position among the columns, and its name."""


class Scope:
    """The rows of the node that was visited last.

    :param rewritten: whether subqueries are joins already, as far as they can be; else those over
        tables are passed over.
    :ivar open: the pipelines that these are the rows of.
    :ivar problems: what is in the way of the query.
    """

    def __init__(
        self, spark: SparkSession, static_side_bytes_max: int, *, rewritten: bool = True
    ) -> None:
        self.spark = spark
        self.rewritten = rewritten
        self.gateway: Any = spark.sparkContext._gateway
        self.context = Context(str(spark.conf.get("spark.sql.session.timeZone")))
        self.drafts = Drafts()
        self.open: tuple[Draft, ...] = ()
        self.schema = pa.schema([])
        self.attributes: Attributes = {}
        self.problems: list[str] = []
        self._static_side_bytes_max = static_side_bytes_max

    def enter(self, node: Any) -> None:
        """From here on, expressions see this node's output."""
        self.see(scala_seq(node.output()))

    def see(self, attributes: Iterable[Any]) -> None:
        """From here on, expressions see these of Spark's attributes."""
        fields = []
        found = {}
        for ordinal, attribute in enumerate(attributes):
            name = attribute.name()
            found[attribute.exprId().id()] = (ordinal, name)
            try:
                dtype = arrow_type(attribute.dataType())
                if dtype == YEAR_MONTH_INTERVAL:
                    raise UnsupportedTypeError("intervals of months cannot be columns")
            except UnsupportedTypeError as error:
                self.problems.append(f"the column {name}: {error}")
                continue
            fields.append(pa.field(name, dtype, attribute.nullable()))
        self.attributes, self.schema = found, pa.schema(fields)

    def read(self, nodes: Sequence[Any], *, in_place: bool = False) -> tuple[Expr, ...]:
        """Expressions over the present columns. The results of functions that they call are
        columns behind these from now on.

        :param in_place: see :meth:`ExpressionReader.read`.
        """
        self.add_scalars(nodes)
        calls = FunctionCalls(self.spark, len(self.schema))
        reader = self.reader(self.attributes, calls)
        expressions = tuple(reader.read(node, in_place=in_place) for node in nodes)
        for step in calls.steps():
            names = ", ".join(function.name for function in step.functions)
            self.append(step, f"Python {names}")
        return expressions

    def reader(
        self, attributes: Attributes, calls: FunctionCalls | None = None
    ) -> ExpressionReader:
        """Reads expressions over other columns.

        :param calls: collects the calls of Python functions; without it they are an obstacle.
        """
        return ExpressionReader(
            self.gateway, attributes, self.context, self.problems, calls, rewritten=self.rewritten
        )

    def add_scalars(self, nodes: Sequence[Any]) -> None:
        """The values of scalar subqueries are columns behind the present ones from now on."""
        if not self.rewritten:
            return
        for node in independent_scalars(self.spark, nodes):
            number = node.exprId().id()
            if number not in self.attributes:
                width = len(self.schema)
                step = scalar_join(self.spark, node, width, self._static_side_bytes_max)
                self.append(step, f"Scalar subquery {node.sql()}")
                self.attributes = {**self.attributes, number: (width, "scalar")}

    def add(self, step: Step, description: str) -> None:
        """A step of all present pipelines."""
        for draft in self.open:
            draft.steps.append(step)
        self.describe(description)

    def append(self, step: Step, description: str) -> None:
        """A step whose columns are behind the present ones from now on."""
        self.add(step, description)
        self.schema = schema_behind(step, self.schema)

    def describe(self, description: str) -> None:
        """A line of ``explain``."""
        if description:
            for draft in self.open:
                draft.descriptions.append(description)

    def project(self, nodes: Sequence[Any], node: Any, description: str) -> None:
        """Compute the columns of a node's output; those that are there already are no step.

        :param nodes: Spark's expressions for them.
        """
        before = self.schema
        columns = self.read(nodes)
        self.enter(node)
        passed_on = [c.params["ordinal"] if c.op == "Column" else None for c in columns]
        if passed_on != list(range(len(before))) or not self.schema.equals(before):
            self.add(Project(columns, self.schema), description)

    def drop_results(self, start: int, end: int | None = None) -> None:
        """Drop the columns of functions' results and of scalar subqueries, which nobody will ask
        for."""
        end = len(self.schema) if end is None else end
        if start < end:
            kept = [i for i in range(len(self.schema)) if not start <= i < end]
            schema = pa.schema([self.schema.field(index) for index in kept])
            self.add(Project(columns_at(self.schema, kept), schema), "")

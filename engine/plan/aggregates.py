"""Spark's ``AggregateExpression`` → :class:`Aggregate`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from py4j.java_gateway import JavaObject, is_instance_of

from engine.expressions.compile import fold, may_raise
from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.pipeline.stateful import Aggregate
from engine.plan.catalyst import arrow_type, constructor_parts, scala_seq, simple_name
from engine.state.aggregates.distinct_counts import REGISTER_BITS_MIN, register_bits
from engine.state.aggregates.functions import FUNCTIONS, why_not

Read = Callable[[list[Any]], tuple[Expr, ...]]
"""From Spark's expressions over the rows to ours."""
_REPLACEABLE: Final = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
_ORDER: Final = "SortOrder"
_APPROXIMATE: Final = "HyperLogLogPlusPlus"
_OF_SPARKS_BUFFERS: Final = {
    "mutable_agg_buffer_offset",
    "input_agg_buffer_offset",
    "eval_mode",
}
"""Constructor parameters that say where Spark keeps a state, or that a field of its own has."""


def aggregates_in(nodes: Sequence[Any]) -> Iterator[Any]:
    """The ``AggregateExpression`` of some expressions, each once."""
    seen = set()
    for node in nodes:
        if simple_name(node) != "AggregateExpression":
            yield from aggregates_in(list(scala_seq(node.children())))
        elif node.resultId().id() not in seen:
            seen.add(node.resultId().id())
            yield node


def function_of(gateway: Any, node: JavaObject) -> JavaObject:
    """What computes it: ``count_if`` is a count, ``bool_and`` a minimum."""
    function = node.aggregateFunction()
    while is_instance_of(gateway, function, _REPLACEABLE):
        function = function.replacement()
    return function


def eval_mode_of(function: JavaObject) -> str:
    """``ANSI``, ``TRY`` or ``LEGACY``; of ``corr`` that of its last division."""
    for name, value in constructor_parts(function):
        if name == "evalContext":
            return str(value.evalMode().toString())
        if name == "evalMode":
            return str(value.toString())
    if simple_name(function) == "Corr":
        return eval_mode_of(_last_division(function.evaluateExpression()))
    return "LEGACY"


def _last_division(node: JavaObject) -> JavaObject:
    """That which stands in the last branches."""
    while simple_name(node) != "Divide":
        *_, node = scala_seq(node.children())
    return node


def normalized(gateway: Any, node: JavaObject) -> JavaObject:
    """What rows are grouped or joined by: -0.0 is 0.0 there, within arrays and structs, too."""
    rules = gateway.jvm.org.apache.spark.sql.catalyst.optimizer
    rule = getattr(getattr(rules, "NormalizeFloatingNumbers$"), "MODULE$")
    found: JavaObject = rule.normalize(node)
    return found


class Inputs:
    """The columns that rows take along to where they are folded; equal ones are one.

    :ivar columns: what they are computed by, and ``names`` what the query calls them.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.columns: list[Expr] = []
        self.names: list[str] = []

    def folded(self, column: Expr) -> Expr:
        """What is constant as a literal, if it has a value."""
        return fold(column, self._context)

    def add(self, column: Expr, name: str) -> Expr:
        """The column as it is seen there. A constant travels as one."""
        column = self.folded(column)
        if column.op == "Literal":
            return column
        if column not in self.columns:
            self.columns.append(column)
            self.names.append(name)
        ordinal = self.columns.index(column)
        params = {"ordinal": ordinal, "name": self.names[ordinal]}
        return Expr("Column", (), column.dtype, column.nullable, params)


class FunctionReader:
    """Reads the aggregate functions of one node.

    :param parameters: of a function's constructor, those that are no expressions, and the settings
        that it reads.
    :param problems: gets what cannot be folded.
    """

    def __init__(
        self,
        gateway: Any,
        parameters: Callable[[JavaObject, Collection[str]], dict[str, Any]],
        problems: list[str],
    ) -> None:
        self._gateway = gateway
        self._parameters = parameters
        self._problems = problems

    def parts(self, node: JavaObject) -> list[JavaObject]:
        """What it looks at of each row: its arguments, and behind them the condition of FILTER."""
        children = scala_seq(function_of(self._gateway, node).children())
        arguments = [each for each in children if simple_name(each) != _ORDER]
        return [*arguments, *scala_seq(node.filter().toList())]

    def read(self, node: JavaObject, parts: Sequence[Expr], inputs: Inputs) -> Aggregate:
        """The function over columns of ``inputs``, which gets them.

        :param parts: what :meth:`parts` has become.
        """
        function = function_of(self._gateway, node)
        texts = [part.sql() for part in self.parts(node)]
        condition = None
        if node.filter().isDefined():
            *parts, condition = parts
            parts = [_only_where(condition, inputs.folded(part)) for part in parts]
        kind = simple_name(function)
        if kind == "Count":  # a constant is there in every row
            parts = [part for part in parts if part.op != "Literal" or part.params["value"] is None]
        known = FUNCTIONS.get(kind)
        params = self._parameters(function, known.reads if known else ())
        if kind == _APPROXIMATE:
            params |= self._corrections(params["relative_sd"])
        if kind == "ListAgg":
            params |= self._order(node, function)
        aggregate = Aggregate(
            kind,
            tuple(inputs.add(part, text) for part, text in zip(parts, texts, strict=False)),
            arrow_type(node.dataType()),
            eval_mode_of(function),
            None if condition is None else inputs.add(condition, texts[-1]),
            bool(node.isDistinct()),
            {name: value for name, value in params.items() if name not in _OF_SPARKS_BUFFERS},
        )
        reason = why_not(aggregate) or _unread(aggregate)
        if reason:
            self._problems.append(f"the aggregate {node.sql()}: {reason}")
        return aggregate

    def _order(self, node: JavaObject, function: JavaObject) -> dict[str, Any]:
        """Of ``WITHIN GROUP``: NULL is not among the texts, so its place is of no matter."""
        orders = [each for each in scala_seq(function.children()) if simple_name(each) == _ORDER]
        if not orders:
            return {}
        if len(orders) > 1 or not orders[0].child().semanticEquals(function.child()):
            self._problems.append(
                f"the aggregate {node.sql()}: it can be ordered by its own values only"
            )
        return {"descending": not orders[0].isAscending()}

    def _corrections(self, relative_sd: float) -> dict[str, Any]:
        """What Spark corrects small counts by, of this many registers."""
        place = register_bits(relative_sd) - REGISTER_BITS_MIN
        helpers = self._gateway.jvm.org.apache.spark.sql.catalyst.util
        tables = getattr(getattr(helpers, "HyperLogLogPlusPlusHelper$"), "MODULE$")
        thresholds = tables.THRESHOLDS()
        if place >= len(thresholds):
            return {}
        return {
            "threshold": float(thresholds[place]),
            "estimates": tuple(map(float, tables.RAW_ESTIMATE_DATA()[place])),
            "biases": tuple(map(float, tables.BIAS_DATA()[place])),
        }


def _unread(aggregate: Aggregate) -> str | None:
    """What the function does not look at, and Spark does."""
    reads = FUNCTIONS[aggregate.function].reads
    unread = [name for name in aggregate.params if name not in reads]
    return f"it does not look at {', '.join(unread)}" if unread else None


def _only_where(condition: Expr, argument: Expr) -> Expr:
    """Spark evaluates arguments for the rows that are counted: what raises for others must not."""
    if not may_raise(argument):
        return argument
    nothing = Expr("Literal", (), argument.dtype, True, {"value": None})
    return Expr("If", (condition, argument, nothing), argument.dtype, True)

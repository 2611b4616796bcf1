"""Python functions in a plan → steps that run them.

A call of a scalar function stands somewhere inside of an expression. Like Spark's optimizer, this
takes it out: a step :class:`EvalPython` in front appends its result as a column, and the expression
reads that column. So a function sees every row of its step's input, also behind ``CASE WHEN``:

- ``f(g(x))`` of functions of the same kind is a chain: ``f`` gets the raw result of ``g``;
- equal calls of deterministic functions are made once;
- a function that takes the result of another kind of function runs in a later step.

Source: Spark's ``ExtractPythonUDFs``, ``PythonUDF`` and ``MapInBatchExec``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException

from engine.expressions.tree import Expr
from engine.expressions.types import UnsupportedTypeError, has_variant
from engine.functions.invoke import start_functions, start_map
from engine.functions.pyspark_worker import unknown_version
from engine.pipeline.pipeline import EvalPython, FunctionSession, MapBatches, PythonFunction
from engine.plan.catalyst import arrow_type, scala_seq, simple_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Convert = Callable[[Any, list[str]], Expr]

ITERATORS: Final = (204, 251)
"""``PythonEvalType`` of functions from an iterator of columns to an iterator of columns."""

SCALAR: Final = (100, 101, 200, 250, *ITERATORS)

_CONF: Final = (
    "spark.sql.session.timeZone",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.execution.pythonUDF.arrow.concurrency.level",
    "spark.sql.execution.pythonUDF.mapInBatch.legacy.acceptAnyIterable.enabled",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled",
)
"""What Spark tells its Python workers."""


@dataclass(frozen=True)
class _Call:
    eval_type: int
    function: PythonFunction  # its arguments are positions in the list below
    arguments: tuple[Expr, ...]
    broadcasts: dict[int, bytes]

    def same_as(self, other: _Call) -> bool:
        return (
            self.function.deterministic
            and replace(self.function, name="") == replace(other.function, name="")
            and (self.eval_type, self.arguments) == (other.eval_type, other.arguments)
        )


class FunctionCalls:
    """The calls in the expressions of one plan node.

    :param width: how many columns the node's input has; results follow them, in order of calls.
    """

    def __init__(self, spark: SparkSession, width: int) -> None:
        self._spark = spark
        self._width = width
        self._calls: list[_Call] = []

    def call(self, node: Any, convert: Convert, obstacles: list[str]) -> Expr:
        """The column with the result of a ``PythonUDF``."""
        eval_type = node.evalType()
        if eval_type not in SCALAR:
            obstacles.append(f"the Python function {node.name()} is an aggregate")
        dtype = _dtype(node, obstacles)
        name = node.name()
        commands = [command_of(node)]
        broadcasts = broadcasts_of(node)
        deterministic = node.udfDeterministic()
        children = list(scala_seq(node.children()))
        while len(children) == 1 and _is_call(children[0], eval_type):
            (inner,) = children
            name = f"{name}({inner.name()})"
            commands.insert(0, command_of(inner))
            broadcasts.update(broadcasts_of(inner))
            deterministic = deterministic and inner.udfDeterministic()
            children = list(scala_seq(inner.children()))
        keywords: list[str | None] = []
        arguments: list[Expr] = []
        for child in children:
            named = simple_name(child) == "NamedArgumentExpression"
            keywords.append(child.key() if named else None)
            arguments.append(convert(child.value() if named else child, obstacles))
        if reason := unknown_version() or _with_variants(
            name, dtype, *(a.dtype for a in arguments)
        ):
            obstacles.append(reason)
        function = PythonFunction(
            name, tuple(commands), tuple(range(len(arguments))), tuple(keywords), dtype,
            deterministic,
        )  # fmt: skip
        return self._column(_Call(eval_type, function, tuple(arguments), broadcasts))

    def _column(self, call: _Call) -> Expr:
        known = [position for position, each in enumerate(self._calls) if call.same_as(each)]
        position = known[0] if known else len(self._calls)
        if not known:
            self._calls.append(call)
        params = {"ordinal": self._width + position, "name": call.function.name}
        return Expr("Column", (), call.function.dtype, True, params)

    def __len__(self) -> int:
        return len(self._calls)

    def forget(self, count: int) -> None:
        """Keep the first ``count`` calls: the expressions that made the others are not used."""
        del self._calls[count:]

    def steps(self) -> Iterator[EvalPython]:
        """In the order in which they have to run. Calls next to each other share a step if they
        are of one kind and do not need each other's results; an iterator function is alone."""
        group: list[_Call] = []
        start = self._width
        for position, call in enumerate(self._calls):
            if group and (
                call.eval_type != group[0].eval_type
                or call.eval_type in ITERATORS
                or any(_highest_ordinal(argument) >= start for argument in call.arguments)
            ):
                yield self._step(group, start)
                group, start = [], self._width + position
            group.append(call)
        if group:
            yield self._step(group, start)

    def _step(self, group: list[_Call], width: int) -> EvalPython:
        arguments: list[Expr] = []
        functions = []
        for call in group:
            positions = []
            for argument in call.arguments:
                if argument not in arguments:
                    arguments.append(argument)
                positions.append(arguments.index(argument))
            functions.append(replace(call.function, arguments=tuple(positions)))
        broadcasts = {number: value for call in group for number, value in call.broadcasts.items()}
        return EvalPython(
            width=width,
            eval_type=group[0].eval_type,
            functions=tuple(functions),
            arguments=tuple(arguments),
            schema=pa.schema([(f"_{i}", f.dtype) for i, f in enumerate(functions)]),
            session=function_session(self._spark, broadcasts),
            start=start_functions,
            aligned=group[0].eval_type not in ITERATORS,
        )


def map_step(
    spark: SparkSession, node: Any, before: pa.Schema, schema: pa.Schema, problems: list[str]
) -> MapBatches:
    """``mapInArrow`` or ``mapInPandas``.

    :param before: the columns of the node's input.
    :param schema: those of its output.
    """
    udf = node.functionExpr()
    types = (*before.types, *schema.types)
    if reason := unknown_version() or _with_variants(udf.name(), *types):
        problems.append(reason)
    if node.isBarrier():
        problems.append("barrier mode has no meaning for tasks that never end")
    function = PythonFunction(
        udf.name(),
        (command_of(udf),),
        (0,),
        (None,),
        pa.struct(list(schema)),
        udf.udfDeterministic(),
    )
    session = function_session(spark, broadcasts_of(udf))
    return MapBatches(udf.evalType(), function, before, schema, session, start_map)


def function_session(spark: SparkSession, broadcasts: dict[int, bytes]) -> FunctionSession:
    """What the functions of a session need of it."""
    conf: dict[str, str] = {}
    for key in _CONF:
        with suppress(PySparkException):  # which this version of Spark does not have
            value: str | None = spark.conf.get(key)
            if value is not None:  # an optional setting that is not set
                conf[key] = value
    return FunctionSession(conf, broadcasts)


def _is_call(node: Any, eval_type: int) -> bool:
    return simple_name(node) == "PythonUDF" and node.evalType() == eval_type


def command_of(node: Any) -> bytes:
    return bytes(node.func().command().unsafeArray())


def broadcasts_of(node: Any) -> dict[int, bytes]:
    """The pickled values of a function's broadcast variables; a function of more than a megabyte is
    one itself."""
    variables = node.func().broadcastVars()
    return {
        each.id(): Path(each.value().path()).read_bytes()
        for each in (variables.get(index) for index in range(variables.size()))
    }


def _dtype(node: Any, obstacles: list[str]) -> pa.DataType:
    try:
        return arrow_type(node.dataType())
    except UnsupportedTypeError as error:
        obstacles.append(str(error))
        return pa.null()


def _with_variants(name: str, *types: pa.DataType) -> str | None:
    if not any(map(has_variant, types)):
        return None
    return f"the Python function {name} cannot have VARIANT yet: give it JSON, by to_json"


def _highest_ordinal(expr: Expr) -> int:
    """The highest position of a column in the tree, -1 without any."""
    return max((n.params["ordinal"] for n in expr.walk() if n.op == "Column"), default=-1)

"""The user's own state in a plan → the step that runs it.

=====================================  =========================================
node, and since which PySpark          made by
=====================================  =========================================
``FlatMapGroupsInPandasWithState``     ``applyInPandasWithState``
``TransformWithStateInPySpark`` (4.1)  ``transformWithState``, ``...InPandas``
``TransformWithStateInPandas``         the latter, in earlier ones
=====================================  =========================================

The rows that reach the step are those of the node's input: those of ``transformWithState`` begin
with the grouping columns, whether they are among the others or not. Which of them the user gets is
Spark's choice, see :func:`_arguments`.

The columns of ``UpdateEventTimeWatermarkColumn`` (``eventTimeColumnName``) are those below it; see
:func:`emitting`.

Source: Spark's ``PandasGroupUtils.resolveArgOffsets``, ``TransformWithStateInPySparkExec`` and
``FlatMapGroupsInPandasWithStateExec``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.expressions.types import (
    UnsupportedTypeError,
    from_spark_json,
    has_variant,
)
from engine.functions.custom_state.declared import Declared, declared
from engine.functions.custom_state.group_states import start_group_function
from engine.functions.custom_state.processors import start_processor
from engine.functions.custom_state.spec import EVENT_TIME, GroupFunction, InitialState, Processor
from engine.functions.pyspark_worker import unknown_version, unpickled
from engine.pipeline.pipeline import PythonFunction
from engine.pipeline.stateful import RunCustomState
from engine.plan.catalyst import arrow_type, scala_seq
from engine.plan.python_functions import broadcasts_of, command_of, function_session
from engine.plan.static_join import static_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP_FUNCTION: Final = "FlatMapGroupsInPandasWithState"
PROCESSORS: Final = ("TransformWithStateInPySpark", "TransformWithStateInPandas")
_EVENT_TIMEOUT: Final = "EventTimeTimeout"
"""See :attr:`engine.functions.custom_state.spec.GroupFunction.timeout`."""
_IN_PANDAS: Final = (211, 212)
"""``PythonEvalType`` of processors that get DataFrames."""
_EXTENSION_TYPES: Final = "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"


def custom_state_step(
    spark: SparkSession,
    node: Any,
    name: str,
    before: pa.Schema,
    problems: list[str],
    *,
    event_time: int | None,
    static_side_bytes_max: int,
) -> RunCustomState | None:
    """The step of a node that is :data:`GROUP_FUNCTION` or one of :data:`PROCESSORS`.

    :param name: of the step: the same at each start.
    :param before: the columns of the node's input.
    :param event_time: the position of the event time among these; None: there is none.
    :param static_side_bytes_max: how large an initial state may be, in Arrow's memory.
    :return: None if it is refused.
    """
    udf = node.functionExpr()
    refused = _refusals(spark, udf, before, problems)
    schema = _columns(node.output(), problems)
    if refused or len(schema) < node.output().size():
        return None
    if node.nodeName() == GROUP_FUNCTION:
        return _group_function(spark, node, name, before, schema, problems, event_time)
    return _processor(
        spark, node, name, before, schema, problems, event_time, static_side_bytes_max
    )


def emitting(step: RunCustomState, event_time: int) -> RunCustomState:
    """The step of a processor whose results have an event time for the steps behind.

    :param event_time: its position among the results.
    """
    return replace(step, params={**step.params, "emitted_time": event_time})


def _group_function(
    spark: SparkSession,
    node: Any,
    name: str,
    before: pa.Schema,
    schema: pa.Schema,
    problems: list[str],
    event_time: int | None,
) -> RunCustomState | None:
    places = {
        attribute.exprId().id(): place
        for place, attribute in enumerate(scala_seq(node.child().output()))
    }
    grouping = [places.get(each.exprId().id()) for each in scala_seq(node.groupingAttributes())]
    keys = tuple(place for place in grouping if place is not None)
    if len(keys) < len(grouping):
        problems.append("applyInPandasWithState: group by columns of the DataFrame itself")
        return None
    udf = node.functionExpr()
    state = str(node.stateType().json())
    _check_types(problems, **{"the state": state})
    spec = GroupFunction(
        function=_function(udf, udf.name(), schema),
        session=function_session(spark, broadcasts_of(udf)),
        arguments=tuple(range(len(before))),
        state=state,
        timeout=str(node.timeout().toString()),
        has_watermark=event_time is not None,
    )
    return RunCustomState(
        name=name,
        keys=keys,
        input=before,
        schema=schema,
        start=start_group_function,
        output_mode=_mode(node),
        params=vars(spec),
        event_time=event_time if spec.timeout == _EVENT_TIMEOUT else None,
    )


def _processor(
    spark: SparkSession,
    node: Any,
    name: str,
    before: pa.Schema,
    schema: pa.Schema,
    problems: list[str],
    event_time: int | None,
    static_side_bytes_max: int,
) -> RunCustomState | None:
    udf = node.functionExpr()
    found = _declared(spark, udf, problems)
    if found is None:
        return None
    for variable in found.variables:
        _check_types(
            problems,
            **{
                f"the values of the state variable {variable.name}": variable.value,
                f"the keys of the state variable {variable.name}": variable.key,
            },
        )
    in_pandas = udf.evalType() in _IN_PANDAS
    whole_rows = node.hasInitialState() or not in_pandas
    width = node.groupingAttributesLen()
    initial = None
    if node.hasInitialState():
        initial = _initial_state(spark, node, before, problems, static_side_bytes_max)
    spec = Processor(
        function=_function(udf, found.processor, schema),
        session=function_session(spark, broadcasts_of(udf)),
        arguments=_arguments(node.child(), width, with_keys=whole_rows),
        in_pandas=in_pandas,
        time_mode=found.time_mode,
        variables=tuple(found.variables),
        deleted=frozenset(found.deleted),
        types=found.types,
        initial=initial,
    )
    return RunCustomState(
        name=name,
        keys=tuple(range(width)),
        input=before,
        schema=schema,
        start=start_processor,
        output_mode=_mode(node),
        params=vars(spec),
        event_time=event_time if spec.time_mode == EVENT_TIME else None,
    )


def _arguments(plan: Any, width: int, *, with_keys: bool) -> tuple[int, ...]:
    """Positions of the columns that a processor gets.

    :param plan: its output begins with the grouping columns.
    :param width: how many these are.
    :param with_keys: those of them that are not among the others are put in front.
    """
    numbers = [attribute.exprId().id() for attribute in scala_seq(plan.output())]
    others = range(width, len(numbers))
    if not with_keys:
        return tuple(others)
    alone = (place for place in range(width) if numbers[place] not in numbers[width:])
    return (*alone, *others)


def _initial_state(
    spark: SparkSession,
    node: Any,
    before: pa.Schema,
    problems: list[str],
    static_side_bytes_max: int,
) -> InitialState | None:
    plan, width = node.initialState(), node.initGroupingAttrsLen()
    if plan.isStreaming():
        problems.append("initialState: a stream cannot be the state that a query begins with")
        return None
    schema = _columns(plan.output(), problems)
    if schema.types[:width] != before.types[: node.groupingAttributesLen()]:
        problems.append(
            "initialState: its grouping columns have to be of the types of the stream's"
        )
        return None
    rows = pa.Table.from_batches([static_table(spark, plan, static_side_bytes_max)])
    return InitialState(rows, tuple(range(width)), _arguments(plan, width, with_keys=True))


def _declared(spark: SparkSession, udf: Any, problems: list[str]) -> Declared | None:
    parsers: Any = spark._jvm.org.apache.spark.sql.catalyst.parser  # type: ignore[union-attr]
    parser = getattr(getattr(parsers, "CatalystSqlParser$"), "MODULE$")
    method, _ = unpickled(_function(udf, udf.name(), pa.schema([])))
    try:
        found = declared(method, lambda text: str(parser.parseTableSchema(text).json()))
    except Exception as exc:  # whatever the user's init raises
        problems.append(f"transformWithState: init() failed: {type(exc).__name__}: {exc}")
        return None
    names = {each.name for each in found.variables}
    if again := names & found.deleted:
        problems.append(
            f"transformWithState: init() declares and deletes {', '.join(sorted(again))}: its"
            " values would be gone at the end of each epoch"
        )
    return found


def _refusals(spark: SparkSession, udf: Any, before: pa.Schema, problems: list[str]) -> list[str]:
    found = []
    if reason := unknown_version():
        found.append(reason)
    if str(spark.conf.get(_EXTENSION_TYPES, "false")) == "true":
        found.append(f"{udf.name()}: {_EXTENSION_TYPES} is not honoured for functions with state")
    found += [
        f"{udf.name()}: the column {field.name} is a VARIANT: give it JSON, by to_json"
        for field in before
        if has_variant(field.type)
    ]
    problems += found
    return found


def _check_types(problems: list[str], **schemas: str | None) -> None:
    """:param schemas: the JSON of each."""
    for what, schema in schemas.items():
        try:
            if schema is not None and has_variant(from_spark_json(schema)):
                raise UnsupportedTypeError("a VARIANT cannot be kept: keep JSON, by to_json")
        except UnsupportedTypeError as error:
            problems.append(f"{what}: {error}")


def _columns(attributes: Any, problems: list[str]) -> pa.Schema:
    fields = []
    for attribute in scala_seq(attributes):
        try:
            dtype = arrow_type(attribute.dataType())
            if has_variant(dtype):
                raise UnsupportedTypeError("a function with state cannot return a VARIANT")
            fields.append(pa.field(attribute.name(), dtype, attribute.nullable()))
        except UnsupportedTypeError as error:
            problems.append(f"the column {attribute.name()}: {error}")
    return pa.schema(fields)


def _function(udf: Any, name: str, schema: pa.Schema) -> PythonFunction:
    return PythonFunction(name, (command_of(udf),), (), (), pa.struct(list(schema)))


def _mode(node: Any) -> str:
    return str(node.outputMode().toString()).lower()


def is_custom_state(name: str) -> bool:
    """Whether a node of this name is one of these."""
    return name == GROUP_FUNCTION or name in PROCESSORS

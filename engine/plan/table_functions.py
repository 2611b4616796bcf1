"""Python table functions (``udtf``) → the step that runs them.

Of each row such a function makes a list of structs, and the generator ``inline`` makes rows of
these: what Spark does in ``EvalPythonUDTFExec``. Refused is what is made of more than a row:
``terminate``, which makes rows at the end of a partition, and arguments that are tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.errors import ConfigError
from engine.functions.pyspark_worker import unknown_version
from engine.functions.table_functions import IN_ARROW, PICKLED, start_table_function
from engine.pipeline.pipeline import EvalPython, PythonFunction
from engine.plan.aggregates import Read
from engine.plan.catalyst import arrow_type, scala_seq, simple_name
from engine.plan.python_functions import broadcasts_of, command_of, function_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PANDAS: Final = "spark.sql.legacy.execution.pythonUDTF.pandas.conversion.enabled"


def table_function_step(
    spark: SparkSession, node: Any, read: Read, width: Any, problems: list[str]
) -> EvalPython | None:
    """The step that appends the lists of rows.

    :param node: a ``PythonUDTF``.
    :param read: converts the arguments.
    :param width: tells how many columns there are before it, when the arguments are read.
    :return: None if it is refused.
    """
    refused = _refusals(spark, node)
    if refused:
        problems += [f"the table function {node.name()}: {reason}" for reason in refused]
        return None
    children = list(scala_seq(node.children()))
    named = [simple_name(child) == "NamedArgumentExpression" for child in children]
    keywords = tuple(
        child.key() if is_named else None for child, is_named in zip(children, named, strict=True)
    )
    arguments = read(
        [
            child.value() if is_named else child
            for child, is_named in zip(children, named, strict=True)
        ]
    )
    rows = pa.list_(arrow_type(node.elementSchema()))
    analyzed = list(scala_seq(node.pickledAnalyzeResult().toList()))
    function = PythonFunction(
        node.name(),
        (command_of(node),),
        tuple(range(len(arguments))),
        keywords,
        rows,
        node.udfDeterministic(),
        bytes(analyzed[0]) if analyzed else None,
    )
    return EvalPython(
        width=width(),
        eval_type=node.evalType(),
        functions=(function,),
        arguments=arguments,
        schema=pa.schema([("_0", rows)]),
        session=function_session(spark, broadcasts_of(node)),
        start=start_table_function,
        aligned=False,
    )


def _refusals(spark: SparkSession, node: Any) -> list[str]:
    reasons = []
    if reason := unknown_version():
        reasons.append(reason)
    if node.evalType() not in (PICKLED, IN_ARROW):
        reasons.append("those over Arrow's own arrays (arrow_udtf) are not supported")
    if node.evalType() == IN_ARROW and str(spark.conf.get(_PANDAS, "false")) == "true":
        reasons.append(f"it is not run by way of pandas, as {_PANDAS} asks for")
    tables = scala_seq(node.tableArguments().toList())
    if any(any(scala_seq(each)) for each in tables):
        reasons.append("a table as argument has no end in a stream")
    elif not reasons and hasattr(_handler(node), "terminate"):
        reasons.append("terminate() makes rows at the end of a partition, and a stream has none")
    return reasons


def _handler(node: Any) -> Any:
    from pyspark.serializers import CPickleSerializer

    serializer: Any = CPickleSerializer()  # which is not annotated
    try:
        return serializer.loads(command_of(node))
    except Exception as exc:
        raise ConfigError(
            f"The table function {node.name()} cannot be loaded: {type(exc).__name__}: {exc}"
        ) from exc

"""Reads Spark's own objects over py4j: what every reader of a plan needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from py4j.java_gateway import JavaObject

from engine.expressions.types import UnsupportedTypeError, from_spark_json

_OPTIMIZER: Final = "org.apache.spark.sql.catalyst.optimizer"


def simple_name(obj: JavaObject) -> str:
    """The class name of a JVM object without its package."""
    return str(obj.getClass().getSimpleName())


def scala_seq(seq: JavaObject) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (seq.apply(index) for index in range(seq.size()))


def is_excluded(gateway: Any, *rules: str) -> bool:
    """Whether ``spark.sql.optimizer.excludedRules`` names one of these rules of the optimizer.

    :param rules: their class names without the package.
    """
    conf = gateway.jvm.org.apache.spark.sql.internal.SQLConf.get()
    excluded = str(conf.optimizerExcludedRules().toString())
    return any(f"{_OPTIMIZER}.{rule}" in excluded for rule in rules)


def constructor_parts(obj: JavaObject) -> Iterator[tuple[str, Any]]:
    """Name and value of each constructor argument of a case class."""
    for index in range(obj.productArity()):
        yield obj.productElementName(index), obj.productElement(index)


def arrow_type(data_type: JavaObject) -> pa.DataType:
    """The Arrow type of a Catalyst data type.

    :raises UnsupportedTypeError: there is none, or the type has a collation.
    """
    name = data_type.sql()
    if "COLLATE" in name:
        raise UnsupportedTypeError(
            f"the data type {name} is not supported: use CAST(... AS STRING)"
        )
    return from_spark_json(data_type.json())

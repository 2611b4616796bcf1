"""Which trees write floating numbers as Java before 19 does, which is not how we do.

Nothing can be learned of them there: they are left to runs on a newer Java.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.expressions.tree import Expr

_WRITERS = {"FormatString", "FormatNumber", "StructsToJson", "Round", "BRound", "RoundCeil"}
_WRITERS |= {"RoundFloor", "StructsToCsv", "ToPrettyString"}


@cache
def _java_release(spark: SparkSession) -> int:
    jvm = spark._jvm
    assert jvm is not None
    return int(jvm.System.getProperty("java.specification.version"))


def writes_floating(spark: SparkSession, tree: Expr) -> bool:
    """Whether the tree turns a FLOAT or DOUBLE into a text or a DECIMAL on such a Java."""
    return _java_release(spark) < 19 and any(_writes(node) for node in tree.walk())


def _writes(node: Expr) -> bool:
    takes = any(_has_floating(child.dtype) for child in node.children)
    if node.op == "Cast":
        return takes and not _has_only_plain(node.dtype)
    return takes and node.op in _WRITERS


def _has_only_plain(dtype: pa.DataType) -> bool:
    """Neither texts nor DECIMALs in it."""
    if dtype.num_fields:
        return all(_has_only_plain(dtype.field(i).type) for i in range(dtype.num_fields))
    return not (pa.types.is_string(dtype) or pa.types.is_decimal(dtype))


def _has_floating(dtype: pa.DataType) -> bool:
    if dtype.num_fields:
        return any(_has_floating(dtype.field(i).type) for i in range(dtype.num_fields))
    return bool(pa.types.is_floating(dtype))

"""Which trees write floating numbers as Java before 19 does, which is not how we do.

Nothing can be learned of them there: they are left to runs on a newer Java.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.expressions.tree import Expr
from engine.expressions.types import has_variant, is_variant

_WRITERS = {"FormatString", "FormatNumber", "StructsToJson", "Round", "BRound", "RoundCeil"}
_WRITERS |= {"RoundFloor", "StructsToCsv", "ToPrettyString"}
_OF_SKETCHES = {"KllSketchToStringDouble", "KllSketchToStringFloat"}
_CASTS = {"Cast", "VariantGet"}


@cache
def _java_release(spark: SparkSession) -> int:
    jvm = spark._jvm
    assert jvm is not None
    return int(jvm.System.getProperty("java.specification.version"))


def writes_floating(spark: SparkSession, tree: Expr) -> bool:
    """Whether the tree turns a FLOAT or DOUBLE into a text or a DECIMAL on such a Java, also by the
    way of a VARIANT."""
    if _java_release(spark) >= 19:
        return False
    nodes = list(tree.walk())
    by_variant = any(map(_puts_into_variant, nodes)) and any(map(_writes_variant, nodes))
    return by_variant or any(map(_writes, nodes))


def _writes(node: Expr) -> bool:
    return node.op in _OF_SKETCHES or (_writes_values(node) and _takes(node, _has_floating))


def _writes_variant(node: Expr) -> bool:
    return _writes_values(node) and _takes(node, has_variant)


def _writes_values(node: Expr) -> bool:
    """Whether it makes texts or DECIMALs of what it takes."""
    return node.op in _WRITERS or (node.op in _CASTS and not _has_only_plain(node.dtype))


def _puts_into_variant(node: Expr) -> bool:
    return has_variant(node.dtype) and _takes(node, _has_floating)


def _takes(node: Expr, what: Callable[[pa.DataType], bool]) -> bool:
    return any(what(child.dtype) for child in node.children)


def _has_only_plain(dtype: pa.DataType) -> bool:
    """Neither texts nor DECIMALs in it; in a VARIANT numbers stay what they are."""
    if dtype.num_fields and not is_variant(dtype):
        return all(_has_only_plain(dtype.field(i).type) for i in range(dtype.num_fields))
    return not (pa.types.is_string(dtype) or pa.types.is_decimal(dtype))


def _has_floating(dtype: pa.DataType) -> bool:
    if dtype.num_fields:
        return any(_has_floating(dtype.field(i).type) for i in range(dtype.num_fields))
    return bool(pa.types.is_floating(dtype))

"""``df.observe(name, ...)`` (``CollectMetrics``) → the step that folds rows.

A metric is an expression over aggregates: each aggregate becomes a column, and the metric an
expression over these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from engine.pipeline.aggregates import FUNCTIONS
from engine.pipeline.stateful import Aggregate
from engine.plan.aggregates import Read, eval_mode_of, function_of
from engine.plan.catalyst import arrow_type, scala_seq, simple_name

_ORDERED: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def read_aggregates(
    gateway: Any, nodes: Sequence[Any], read: Read, problems: list[str]
) -> tuple[Aggregate, ...]:
    """What is to be folded.

    :param read: converts expressions over the rows.
    :param problems: gets what cannot be folded.
    """
    functions = [function_of(gateway, node) for node in nodes]
    parts: list[Any] = []
    shapes = []
    for node, function in zip(nodes, functions, strict=True):
        arguments = list(scala_seq(function.children()))
        kind = simple_name(function)
        if kind not in FUNCTIONS:
            problems.append(f"the metric {node.sql()}: {_unknown(kind)}")
            arguments = []
        shapes.append((kind, eval_mode_of(function), len(arguments)))
        parts += arguments
    expressions = iter(read(parts))
    folded = []
    for node, (kind, mode, count) in zip(nodes, shapes, strict=True):
        taken = tuple(next(expressions) for _ in range(count))
        if kind != "Count" and not all(_is_folded(kind, each.dtype) for each in taken):
            problems.append(
                f"the metric {node.sql()}: {kind.lower()} of this type is not supported"
            )
            continue
        dtype = arrow_type(node.dataType())
        folded.append(Aggregate(kind, taken, dtype, mode))
    return tuple(folded)


def _unknown(kind: str) -> str:
    return f"observe() folds {', '.join(each.lower() for each in FUNCTIONS)}, and not {kind}"


def _is_folded(kind: str, dtype: pa.DataType) -> bool:
    if kind in ("Min", "Max"):
        return any(is_one(dtype) for is_one in _ORDERED)
    return bool(
        pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)
    )

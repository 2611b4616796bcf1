"""Expressions as plain data: what the planner hands to the kernels.

No JVM and no pyspark in here: an :class:`Expr` is picklable and travels to the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

NONDETERMINISTIC: Final = frozenset({"Rand", "Randn", "RandStr", "Shuffle", "Uuid"})
"""What has another value whenever it is computed."""


@dataclass(frozen=True)
class Expr:
    """One node of a resolved Catalyst expression.

    :param op: Catalyst's class name without its package, e.g. ``"Add"``; ``"Column"`` for a bound
        reference, ``"Literal"`` for a constant.
    :param children: the argument expressions, in Catalyst's order.
    :param dtype: the Arrow type of the result (see :mod:`engine.expressions.types`).
    :param nullable: whether the result may be null.
    :param params: what the node carries besides its children, e.g. ``{"eval_mode": "ANSI"}``,
        ``{"ordinal": 2, "name": "value"}`` for a column, ``{"value": 3}`` for a literal (inside of
        it, structs are tuples, maps lists of pairs, texts that are no UTF-8 their bytes).
    """

    op: str
    children: tuple[Expr, ...] = ()
    dtype: pa.DataType = field(default_factory=pa.null)
    nullable: bool = True
    params: Mapping[str, Any] = field(default_factory=dict)

    def walk(self) -> Iterator[Expr]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def depth(self) -> int:
        """The levels of the tree; one for a leaf."""
        levels, level = 0, [self]
        while level:
            levels += 1
            level = list({id(child): child for each in level for child in each.children}.values())
        return levels

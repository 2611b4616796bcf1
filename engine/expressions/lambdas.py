"""Lambda functions, ``x -> x + y``: evaluated once, for all items of all rows of a batch.

The items stand in a batch of their own, one per row. The columns of the outer batch are repeated
for them as far as the lambda uses any, its variables are columns behind those.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.expressions.datum import may_raise, to_array
from engine.expressions.lists import Ints
from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.tree import Expr


@lazy("NamedLambdaVariable")
def variable(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """A column of the batch, by its name, which is unique among the variables."""
    name: str = expr.params["name"]

    def find(batch: pa.RecordBatch) -> pa.Array:
        from_behind = batch.schema.names[::-1].index(name)
        return batch.column(batch.num_columns - 1 - from_behind)

    return find


@lazy("LambdaFunction")
def lambda_function(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Its body, over a batch that holds its variables."""
    return children[0]


class Lambda:
    """A lambda to be called on items.

    :param expr: a ``LambdaFunction``, or the ``Literal`` that it was folded to.
    :param evaluator: that of ``expr``.
    """

    def __init__(self, expr: Expr, evaluator: Evaluator) -> None:
        self.dtype = expr.dtype
        self.may_raise = may_raise(expr)
        self.names: tuple[str, ...] = expr.params.get("arguments", ())
        self._evaluator = evaluator
        nodes = list(expr.walk())
        self._ordinals = {node.params["ordinal"] for node in nodes if node.op == "Column"}
        self._variables = {n.params["name"] for n in nodes if n.op == "NamedLambdaVariable"}

    def __call__(self, batch: pa.RecordBatch, rows: Ints, *arguments: pa.Array) -> pa.Array:
        """Its values.

        :param rows: for each item the row of ``batch`` that it belongs to.
        :param arguments: a column of items for each variable; those that the lambda does not name
            are ignored.
        """
        if len(rows) == 0:
            return pa.nulls(0, self.dtype)
        names = batch.schema.names
        columns = [
            batch.column(index).take(pa.array(rows)) if self._uses(index, name)
            # The others keep their place.
            else pa.nulls(len(rows))
            for index, name in enumerate(names)
        ]  # fmt: skip
        bound = list(zip(self.names, arguments, strict=False))
        items = pa.RecordBatch.from_arrays(
            [*columns, *(argument for _, argument in bound)],
            names=[*names, *(name for name, _ in bound)],
        )
        if items.num_columns == 0:  # a constant, over no columns
            items = pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=[""])
        return to_array(self._evaluator(items), len(rows), self.dtype)

    def _uses(self, index: int, name: str) -> bool:
        return index in self._ordinals or name in self._variables

"""Lambda functions, ``x -> x + y``: evaluated once, for all items of all rows of a batch.

The items stand in a batch of their own, one per row. Its variables are columns with a name; what
else the lambda uses, columns and variables of the batch around it, is repeated for the items.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.datum import to_array
from engine.expressions.lists import Ints
from engine.expressions.registry import Context, Datum, Evaluator, lazy
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr


@lazy("NamedLambdaVariable")
def variable(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """A column of the batch, by its name, which is unique among the variables."""
    name: str = expr.params["name"]
    return lambda batch: batch.column(name)


@lazy("LambdaFunction", takes=Rare.ALL)
def lambda_function(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Its body, over a batch that holds its variables."""
    return children[0]


@lazy("Let", reads=("name",), takes=Rare.ALL_AND_VARIANT, always=1)
def let(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Its second child, in which the first one is a variable: computed once for each row, however
    often it is used, and before that. The plan reader makes it of Spark's ``With``."""
    name: str = expr.params["name"]
    dtype, (value, body) = expr.children[0].dtype, children

    def evaluate(batch: pa.RecordBatch) -> Datum:
        found = to_array(value(batch), batch.num_rows, dtype)
        return body(with_variable(batch, name, found))

    return evaluate


def with_variable(batch: pa.RecordBatch, name: str, value: pa.Array) -> Rows:
    """The batch, and a variable of that name."""
    return Rows(batch.num_rows, lambda key: value if key == name else batch.column(key))


class Lambda:
    """A lambda to be called on items.

    :param expr: a ``LambdaFunction``, or the ``Literal`` that it was folded to.
    :param evaluator: that of ``expr``.
    """

    def __init__(self, expr: Expr, evaluator: Evaluator) -> None:
        self.dtype = expr.dtype
        self._names: tuple[str, ...] = expr.params.get("arguments", ())
        self._evaluator = evaluator

    def __call__(self, batch: pa.RecordBatch, rows: Ints, *arguments: pa.Array) -> pa.Array:
        """Its values.

        :param rows: for each item the row of ``batch`` that it belongs to.
        :param arguments: a column of items for each variable; those that the lambda does not name
            are ignored.
        """
        if len(rows) == 0:
            return pa.nulls(0, self.dtype)
        bound = dict(zip(self._names, arguments, strict=False))
        owners = pa.array(rows)

        def load(key: int | str) -> pa.Array:
            found = bound.get(key) if isinstance(key, str) else None
            return batch.column(key).take(owners) if found is None else found

        items = Rows(len(rows), load)
        return to_array(self._evaluator(items), len(rows), self.dtype)

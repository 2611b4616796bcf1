"""``sort_array``, and ``array_sort`` with and without a comparator.

A comparator is asked about all pairs of items at once. If its answers make an order, any stable
sort gives what Java's does. If they contradict each other (a comparator that forgets NULL, say), it
is Java's algorithm that decides, and that is followed for arrays of less than 32 items; for longer
ones an error is raised.

Source: ``SortArray`` and ``ArraySort`` of Spark; ``java.util.TimSort``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.argument_types import Rare
from engine.expressions.collections.array_errors import comparator_returns_null
from engine.expressions.collections.array_search import items_orderable
from engine.expressions.collections.higher_order import lists_of
from engine.expressions.datum import constant
from engine.expressions.lambdas import Lambda
from engine.expressions.lists import Ints, Lists, on_arrays, ranges, take, valid
from engine.expressions.logic.ranks import ranks
from engine.expressions.registry import Context, Evaluator, ValueFunction, lazy, strict
from engine.expressions.tree import Expr

Sign = Callable[[int, int], int]

_INSERTION_SORT_MAX: Final = 31
"""The longest array that Java sorts by binary insertion alone."""
_PAIRS_AT_ONCE: Final = 1 << 20
_NULL_SIGN: Final = 2


def _sort_array_supports(expr: Expr) -> str | None:
    ascending = constant(expr.children[1])
    if ascending is None or not ascending.is_valid:
        return "the direction must be a constant"
    return items_orderable(expr)


@strict("SortArray", supports=_sort_array_supports, takes=Rare.ALL)
def sort_array(expr: Expr, context: Context) -> ValueFunction:
    """NULL first when ascending, last when descending."""
    scalar = constant(expr.children[1])
    assert scalar is not None
    ascending: bool = scalar.as_py()
    field = expr.children[0].dtype.value_field
    # Then Spark sorts Java's primitive numbers, by Java's own order.
    primitive = ascending and not field.nullable

    def sort(array: pa.Array, _: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        keys = ranks(lists.items, signed_zeros=primitive)
        order = np.lexsort((keys if ascending else -keys, lists.rows))
        return lists.taken(order).array(expr.dtype)

    return on_arrays(expr, sort)


@lazy(
    "ArraySort",
    can_fail=lambda expr: not _is_natural(expr.children[1]),
    loop=True,
    reads=("allow_null_comparison_result",),
    takes=Rare.ALL,
)
def array_sort(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``array_sort``: NULL last, or as the comparator says."""
    argument = expr.children[0]
    if _is_natural(expr.children[1]):

        def sort(batch: pa.RecordBatch) -> pa.Array:
            lists = lists_of(argument, children[0], batch)
            keys = ranks(lists.items)
            last = np.where(keys == 0, len(keys) + 1, keys)
            return lists.taken(np.lexsort((last, lists.rows))).array(expr.dtype)

        return sort
    comparator = Lambda(expr.children[1], children[1])
    null_is_zero = bool(expr.params["allow_null_comparison_result"])

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(argument, children[0], batch)
        order = _Sorter(comparator, null_is_zero, batch, lists).order()
        return lists.taken(order).array(expr.dtype)

    return evaluate


def _is_natural(function: Expr) -> bool:
    """Whether it is the comparator that Spark adds where the user has given none."""
    if function.op != "LambdaFunction" or len(function.params["arguments"]) != 2:
        return False
    left, right = (
        Expr("NamedLambdaVariable", params={"name": name}) for name in function.params["arguments"]
    )

    def node(op: str, *parts: Expr) -> Expr:
        return Expr(op, parts)

    minus, zero, plus = (Expr("Literal", params={"value": value}) for value in (-1, 0, 1))
    compared = node("If", node("GreaterThan", left, right), plus, zero)
    compared = node("If", node("LessThan", left, right), minus, compared)
    one_null = node("If", node("IsNull", right), minus, compared)
    one_null = node("If", node("IsNull", left), plus, one_null)
    both_null = node("And", node("IsNull", left), node("IsNull", right))
    natural = node("If", both_null, zero, one_null)
    return _outline(function.children[0]) == _outline(natural)


def _outline(expr: Expr) -> list[tuple[str, object]]:
    params = [node.params.get("name", node.params.get("value")) for node in expr.walk()]
    return [(node.op, param) for node, param in zip(expr.walk(), params, strict=True)]


class _Sorter:
    """Sorts the arrays of one batch."""

    def __init__(
        self, comparator: Lambda, null_is_zero: bool, batch: pa.RecordBatch, lists: Lists
    ) -> None:
        self._comparator = comparator
        self._null_sign = 0 if null_is_zero else _NULL_SIGN
        self._batch = batch
        self._lists = lists

    def order(self) -> Ints:
        """The indices of the items, sorted row by row.

        :raises TransformError: ``COMPARATOR_RETURNS_NULL``, or what the comparator raises.
        """
        lists = self._lists
        pairs = lists.lengths**2
        starts = np.cumsum(pairs) - pairs
        rows = np.repeat(np.arange(len(lists)), pairs)
        places = ranges(np.zeros_like(pairs), pairs)
        width, base = lists.lengths[rows], lists.starts[rows]
        left, right = base + places // np.maximum(width, 1), base + places % np.maximum(width, 1)
        try:
            signs = self._signs(rows, left, right)
        except TransformError:
            return self._one_by_one()
        # How many items of its row are less than each one.
        scores = np.bincount(right[signs == -1], minlength=len(lists.items))
        contradictory = signs != np.sign(scores[left] - scores[right])
        doubtful = np.unique(rows[contradictory])
        order = np.lexsort((scores, lists.rows))
        for row in doubtful.tolist():
            length, start = int(lists.lengths[row]), int(lists.starts[row])
            table = signs[starts[row] : starts[row] + length**2].reshape(length, length)
            order[start : start + length] = start + self._java_order(
                length, self._known(table, start)
            )
        return order

    def _signs(self, rows: Ints, left: Ints, right: Ints) -> npt.NDArray[np.int8]:
        """What the comparator says of each pair: -1, 0, 1, or 2 for NULL. An item equals itself."""
        signs = np.zeros(len(rows), np.int8)
        different = np.flatnonzero(left != right)
        for start in range(0, len(different), _PAIRS_AT_ONCE):
            part = different[start : start + _PAIRS_AT_ONCE]
            items = (take(self._lists.items, side[part]) for side in (left, right))
            answers = self._comparator(self._batch, rows[part], *items)
            numbers = np.sign(answers.fill_null(0).to_numpy(zero_copy_only=False))
            signs[part] = np.where(valid(answers), numbers, self._null_sign)
        return signs

    def _one_by_one(self) -> Ints:
        """Asks only for the pairs that Java asks for: another one has raised an error."""
        order = np.arange(len(self._lists.items))
        for row, length in enumerate(self._lists.lengths.tolist()):
            start = int(self._lists.starts[row])
            order[start : start + length] = start + self._java_order(
                length, self._asked(row, start)
            )
        return order

    def _known(self, table: npt.NDArray[np.int8], start: int) -> Sign:
        return lambda i, j: self._checked(table[i, j], start + i, start + j)

    def _asked(self, row: int, start: int) -> Sign:
        def sign(i: int, j: int) -> int:
            left, right = np.array([start + i]), np.array([start + j])
            answer = self._signs(np.array([row]), left, right)[0]
            return self._checked(answer, start + i, start + j)

        return sign

    def _checked(self, sign: np.int8, left: int, right: int) -> int:
        if sign == _NULL_SIGN:
            items = self._lists.items
            raise comparator_returns_null(not items[left].is_valid)
        return int(sign)

    def _java_order(self, length: int, sign: Sign) -> Ints:
        """What Java's binary insertion sort makes of these answers."""
        if length > _INSERTION_SORT_MAX:
            sign(1, 0)  # The first pair that Java asks for: it may raise an error.
            raise TransformError(
                f"The comparator of array_sort contradicts itself for an array of {length} items",
                hint="Compare any two items, NULL included, so that the order is the same from"
                " both sides.",
            )
        order = list(range(length))
        if length < 2:
            return np.arange(length)
        run = 2
        descending = sign(1, 0) < 0
        while run < length and (sign(run, run - 1) < 0) == descending:
            run += 1
        if descending:
            order[:run] = order[:run][::-1]
        for position in range(run, length):
            low, high = 0, position
            while low < high:
                middle = (low + high) // 2
                if sign(position, order[middle]) < 0:
                    high = middle
                else:
                    low = middle + 1
            order.insert(low, order.pop(position))
        return np.array(order)

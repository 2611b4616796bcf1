"""Kernels that are a plain Python function of a row's values.

They see texts as ``str``, whole numbers as ``int``, dates as days, timestamps and day-time
intervals as microseconds (see :func:`engine.expressions.vectors.to_list`), and may return None for
NULL. They tell when they register what they see of texts that are no UTF-8, see
:mod:`engine.expressions.malformed`. Most functions of texts are such; what Arrow or NumPy can do
for a whole column at once is faster by far, see :func:`engine.expressions.registry.strict`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from engine.expressions.malformed import JAVA, View
from engine.expressions.registry import Context, Datum, Declared, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import all_null, per_row, per_row_with_nulls

if TYPE_CHECKING:
    from typing_extensions import Unpack

RowFunction = Callable[..., Any]
RowFactory = Callable[[Expr], "RowFunction | None"]
_Function = TypeVar("_Function", bound=RowFunction)


def rowwise(
    *ops: str, nulls: bool = False, malformed: View = JAVA, **declared: Unpack[Declared]
) -> Callable[[_Function], _Function]:
    """Register a function of a row's values, which stays what it is.

    :param nulls: it sees NULL, as None; otherwise NULL in any argument gives NULL.
    :param malformed: what it sees of a batch's texts if one of them is no UTF-8.
    """

    def register(function: _Function) -> _Function:
        def make(expr: Expr) -> RowFunction:
            return function

        make.__module__ = function.__module__
        rowwise_factory(*ops, nulls=nulls, malformed=malformed, **declared)(make)
        return function

    return register


def rowwise_factory(
    *ops: str,
    nulls: bool = False,
    arguments: tuple[int, ...] | None = None,
    malformed: View = JAVA,
    **declared: Unpack[Declared],
) -> Callable[[RowFactory], RowFactory]:
    """Register ``make(expr) -> function(*values of a row)``, where the function depends on the
    node: on its type, on constants, on what it reads. None instead of a function: NULL in all rows.

    :param arguments: the children whose values the function gets, by number; the others are
        constants that ``make`` has looked at. None: all of them.
    """

    def register(make: RowFactory) -> RowFactory:
        def kernel(expr: Expr, context: Context) -> ValueFunction:
            function, each = make(expr), per_row_with_nulls if nulls else per_row

            def evaluate(*values: Datum) -> Datum:
                if function is None:
                    return all_null(values, expr.dtype)
                if arguments is not None:
                    values = tuple(values[number] for number in arguments)
                return each(function, expr.dtype, *values, malformed=malformed)

            return evaluate

        kernel.__module__ = make.__module__
        declared["loop"] = True
        strict(*ops, **declared)(kernel)
        return make

    return register

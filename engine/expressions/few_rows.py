"""Few rows, one by one in Python, as Spark's own generated code does it.

A kernel of Arrow takes 1.5 to 5 µs however few rows it gets: of a tree with some of them, ten rows
cost as much as a thousand. So trees of simple nodes (see
:class:`~engine.expressions.registry.Formula`) are also compiled to one function of Python, which
evaluates a node only where Spark does: a branch that is not taken raises nothing.

It is for values that are not NULL and for what goes well. Whatever else there is, an error too, is
left to the kernels, which start again: nothing is decided here that they would decide otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from engine.expressions.compile import fold
from engine.expressions.datum import constant
from engine.expressions.few_values import Values, array_of, is_for_python, listed
from engine.expressions.registry import KERNELS, Context
from engine.expressions.row_context import Rows, taken
from engine.expressions.tree import Expr

InPython = Callable[["FewRows"], "Values | None"]

_DEPTH_MAX: Final = 20
_NODES_MAX: Final = 100


class FewRows(Rows):
    """Rows of which Python's values are at hand, too: an Array is made when one is asked for.

    :param num_rows: not more than :data:`~engine.expressions.few_values.FEW`.
    :param load_values: makes the values of a column, or None: see :meth:`values`.
    """

    __slots__ = ("_lists", "_load_values")

    def __init__(
        self,
        num_rows: int,
        load: Callable[[Any], pa.Array],
        load_values: Callable[[int], Values | None] | None = None,
    ) -> None:
        super().__init__(num_rows, load)
        self._lists: dict[int, Values | None] = {}
        self._load_values = load_values

    def values(self, index: int) -> Values | None:
        """The column at a position, of timestamps the microseconds; None if a value is NULL, or of
        a type that is not for Python.

        :raises UnicodeDecodeError: a text is no UTF-8.
        """
        if index not in self._lists:
            load = self._load_values
            self._lists[index] = listed(self.column(index)) if load is None else load(index)
        return self._lists[index]

    def kept(self, keep: Values) -> FewRows:
        """The rows for which ``keep`` is true: these very columns, if it is for all of them."""
        count = sum(keep)
        if count == self.num_rows:
            return self
        positions: pa.Array | None = None

        def load(index: int) -> pa.Array:
            nonlocal positions
            column = self.column(index)
            if pa.types.is_primitive(column.type) and (values := rows.values(index)) is not None:
                return array_of(values, column.type)
            if positions is None:
                positions = pa.array(itertools.compress(range(self.num_rows), keep), pa.int64())
            return taken(column, positions)

        def load_values(index: int) -> Values | None:
            values = self.values(index)
            return None if values is None else list(itertools.compress(values, keep))

        rows = FewRows(count, load, load_values)
        return rows


def in_python(expr: Expr, context: Context) -> InPython | None:
    """The function of a tree; None for one that has no simple form. It returns None for what is
    left to the kernels."""
    expr = fold(expr, context)
    if expr.depth() > _DEPTH_MAX or sum(1 for _ in expr.walk()) > _NODES_MAX:
        return None
    writing = _Writing()
    text = writing.text(expr)
    if text is None or not writing.columns:
        return None
    ordinals = list(writing.columns)
    compute = writing.function(text)

    def few(rows: FewRows) -> Values | None:
        try:
            columns = [values for each in ordinals if (values := rows.values(each)) is not None]
            return compute(*columns) if len(columns) == len(ordinals) else None
        except Exception:  # of whatever kind: it is for the kernels to say which
            return None

    return few


class _Writing:
    """A tree as text.

    :ivar columns: the names of the variables, by the positions of their columns.
    """

    def __init__(self) -> None:
        self.columns: dict[int, str] = {}
        self._names: dict[str, Any] = {"beyond": _beyond}
        self._numbers = itertools.count()

    def text(self, expr: Expr) -> str | None:
        """An expression of Python; None if a node has none."""
        if not is_for_python(expr.dtype):
            return None
        if expr.op == "Column":
            ordinal = expr.params["ordinal"]
            return self.columns.setdefault(ordinal, f"c{ordinal}")
        if expr.op == "Literal":
            try:
                values = listed(pa.repeat(constant(expr), 1))
            except UnicodeDecodeError:
                return None
            return None if values is None else self._named(values[0])
        kernel = KERNELS.get(expr.op)
        formula = None if kernel is None else kernel.formula(expr)
        if formula is None:
            return None
        children = [self.text(child) for child in expr.children]
        if None in children:
            return None
        called = {name: self._named(value) for name, value in formula.names.items()}
        text = f"({formula.text.format(*children, **called)})"
        if not formula.may_be_beyond:
            return text
        limit, name = 1 << (expr.dtype.bit_width - 1), self._new()
        return f"({name} if {-limit} <= ({name} := {text}) < {limit} else beyond())"

    def function(self, text: str) -> Callable[..., Values]:
        """From the columns to the results."""
        names = list(self.columns.values())
        columns = [f"{name}s" for name in names]
        each = columns[0] if len(names) == 1 else f"zip({', '.join(columns)})"
        lines = [
            f"def compute({', '.join(columns)}):",
            "    results = []",
            "    add = results.append",
            f"    for {', '.join(names)} in {each}:",
            f"        add({text})",
            "    return results",
        ]
        exec("\n".join(lines), self._names)  # noqa: S102 - no text in it is a user's
        compute: Callable[..., Values] = self._names["compute"]
        return compute

    def _named(self, value: Any) -> str:
        name = self._new()
        self._names[name] = value
        return name

    def _new(self) -> str:
        return f"v{next(self._numbers)}"


def _beyond() -> Any:
    raise OverflowError

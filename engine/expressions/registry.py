"""The table of kernels: Catalyst class name → how to evaluate it on Arrow data.

A *kernel factory* is called once per query with the node, the evaluators of its children and the
context, and returns the node's own evaluator. Simple functions register with :func:`strict`:
they only see values. Conditionals register with :func:`lazy`: they decide which rows their
children are evaluated on, because Spark never raises an error for a branch it does not take. Where
``context.hopeful`` is set they need not mind: see :mod:`engine.expressions.compile`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict

import pyarrow as pa

from engine.expressions.argument_types import Rare, refused_argument
from engine.expressions.tree import Expr

if TYPE_CHECKING:
    from typing_extensions import Unpack

Datum = Any  # a pyarrow Array, or a Scalar that stands for a column of equal values
Evaluator = Callable[[pa.RecordBatch], Datum]
Factory = Callable[[Expr, Sequence[Evaluator], "Context"], Evaluator]
ValueFunction = Callable[..., Datum]


@dataclass(frozen=True)
class Context:
    """What kernels need to know about the session they come from.

    :param session_timezone: IANA name, e.g. ``"Europe/Berlin"`` (``spark.sql.session.timeZone``).
    :param hopeful: whatever raises is evaluated again, by a kernel that is made without this: so
        conditionals may evaluate their branches on all rows.
    :param partition: the number of the task's first partition among all of the query.
    :param exact_math: functions of DOUBLE have the very bits of Java's, see
        :mod:`engine.expressions.numbers.doubles`.
    """

    session_timezone: str = "UTC"
    hopeful: bool = False
    partition: int = 0
    exact_math: bool = False


@dataclass(frozen=True)
class Formula:
    """How a node reads in Python, for values that are not NULL, with which it is not NULL either:
    see :mod:`engine.expressions.few_rows`. For all that goes another way it raises.

    :param text: an expression; ``{0}``, ``{1}``... are the arguments.
    :param may_be_beyond: a whole number that its type may not have. Then it raises, too.
    :param names: what stands in braces besides.
    """

    text: str
    may_be_beyond: bool = False
    names: Mapping[str, Any] = field(default_factory=dict)


def no_formula(expr: Expr) -> Formula | None:
    return None


def never(expr: Expr) -> bool:
    return False


def always(expr: Expr) -> bool:
    """``can_fail`` of what may raise whatever the node."""
    return True


def always_supported(expr: Expr) -> str | None:
    return None


@dataclass(frozen=True)
class Kernel:
    """One row of the table.

    :param op: the Catalyst class name.
    :param module: where it is.
    :param factory: builds the evaluator.
    :param can_fail: tells for a node whether it may raise for some values (ANSI errors).
    :param supports: returns why a node cannot be evaluated, or None if it can.
    :param loop: it runs Python code for each row, for some types at least.
    :param unbounded: the size of a result is what a value says: it is never evaluated for a row
        that does not ask for it.
    :param reads: what it heeds beyond the children and the type of the node: constructor
        parameters of Spark's class, under their snake-case names, and session settings, under
        their keys. They are in the node's ``params``; nothing else is.
    :param presumes: session settings that Spark's class looks at, and this does not: it computes
        what Spark does where they have their defaults, and is refused where they have not.
    :param takes: which rare types its arguments may have, see
        :mod:`engine.expressions.argument_types`.
    :param always: of its children so many, from the first one, are evaluated for every row.
    :param formula: how a node reads in Python, or None.
    """

    op: str
    module: str
    factory: Factory
    can_fail: Callable[[Expr], bool] = never
    supports: Callable[[Expr], str | None] = always_supported
    loop: bool = False
    reads: tuple[str, ...] = ()
    presumes: tuple[str, ...] = ()
    unbounded: bool = False
    takes: Rare = Rare.NONE
    always: int = 0
    formula: Callable[[Expr], Formula | None] = no_formula

    def refusal(self, expr: Expr) -> str | None:
        """Why a node cannot be evaluated, or None if it can."""
        return refused_argument(expr, self.takes) or self.supports(expr)


class Declared(TypedDict, total=False):
    """What a kernel declares when it registers: see :class:`Kernel`, which has the defaults."""

    can_fail: Callable[[Expr], bool]
    supports: Callable[[Expr], str | None]
    loop: bool
    reads: tuple[str, ...]
    presumes: tuple[str, ...]
    unbounded: bool
    takes: Rare
    always: int
    formula: Callable[[Expr], Formula | None]


KERNELS: dict[str, Kernel] = {}
STRICT: set[str] = set()
"""Nodes whose children are always evaluated on all rows."""
ALL: Final = sys.maxsize
"""Of children."""


def lazy(*ops: str, **declared: Unpack[Declared]) -> Callable[[Factory], Factory]:
    """Register a factory that gets its children's evaluators."""

    def register(factory: Factory) -> Factory:
        for op in ops:
            if op in KERNELS:
                raise ValueError(f"two kernels for {op}")
            KERNELS[op] = Kernel(op, factory.__module__, factory, **declared)
        return factory

    return register


def strict(
    *ops: str, **declared: Unpack[Declared]
) -> Callable[[Callable[[Expr, Context], ValueFunction]], Callable[[Expr, Context], ValueFunction]]:
    """Register ``make(expr, context) -> function(*values)`` for a node whose children are always
    evaluated on all rows. Values are Arrays or Scalars; so may be the result."""

    def register(
        make: Callable[[Expr, Context], ValueFunction],
    ) -> Callable[[Expr, Context], ValueFunction]:
        def factory(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
            function = make(expr, context)
            if len(children) == 1:
                (only,) = children
                return lambda batch: function(only(batch))
            if len(children) == 2:
                left, right = children
                return lambda batch: function(left(batch), right(batch))
            return lambda batch: function(*(child(batch) for child in children))

        factory.__module__ = make.__module__
        declared["always"] = ALL
        lazy(*ops, **declared)(factory)
        STRICT.update(ops)
        return make

    return register

"""Constants that raise: Spark's optimizer computes them, so that the query fails before any row.

Only those behind a condition are left for the rows that reach them. Ours wait for a row always.
"""

from __future__ import annotations

from engine.expressions.compile import fold
from engine.expressions.registry import Context
from engine.expressions.tree import NONDETERMINISTIC, Expr
from engine.plan.common_expressions import ALWAYS_EVALUATED


def raises_before_any_row(tree: Expr, context: Context) -> bool:
    """Whether a constant part of the tree raises that no condition guards."""
    try:
        return _raises(fold(tree, context))
    except Exception:
        return False  # which the comparison tells


def _raises(folded: Expr) -> bool:
    children = folded.children
    constant = all(child.op == "Literal" for child in children)
    if children and constant and folded.op not in NONDETERMINISTIC:
        return True
    return any(_raises(child) for child in children[: ALWAYS_EVALUATED.get(folded.op)])

"""Which common expressions, those of Spark's ``With``, are computed before the rest.

``nullif`` and ``BETWEEN`` name what they use twice. Of that Spark makes a column of a projection
beneath, unless it is cheap: it is computed first and for every row, also where nobody asks for it
(``false AND nullif(1 / x, 2) > 1``, an argument of ``elt``, what stands behind a NULL). Behind a
condition it is computed in its places; so it is in a filter, which moves below that projection.
What is within another one is computed in its places behind any condition, also in the part of it
that is evaluated always: ``nullif(a, nullif(1 / x, 2))``.

Source: ``RewriteWithExpression`` of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from py4j.java_gateway import JavaObject, is_instance_of

from engine.plan.catalyst import scala_seq, simple_name

ALWAYS_EVALUATED: Final = {"If": 1, "CaseWhen": 1, "Coalesce": 1, "NaNvl": 1}
"""Of these nodes' children so many, from the first one; of all others every child."""


_CATALYST: Final = "org.apache.spark.sql.catalyst.expressions"


def computed_first(gateway: Any, columns: Collection[int], node: JavaObject) -> list[str]:
    """Their names, see :func:`name_of`, in the order in which they are computed.

    :param columns: exprIds of the input.
    :param node: an expression of a projection.
    """
    catalyst = gateway.jvm.org.apache.spark.sql.catalyst
    patterns = catalyst.trees.TreePattern
    kinds = (patterns.WITH_EXPRESSION(), patterns.RUNTIME_REPLACEABLE())
    if not any(node.containsPattern(kind) for kind in kinds):
        return []
    return _Search(gateway, catalyst, columns).order([node])


def name_of(node: JavaObject) -> str:
    """That of a definition, or of a reference to one."""
    return str(node.id().toString())


class _Search:
    def __init__(self, gateway: Any, catalyst: Any, columns: Collection[int]) -> None:
        self._gateway = gateway
        self._catalyst = catalyst
        self._columns = columns
        self._in_place: dict[str, JavaObject] = {}

    def order(self, nodes: Iterable[JavaObject], within: bool = False) -> list[str]:
        """Those within definitions come before these, those within what uses them behind.

        :param within: whether the nodes are parts of a ``With``."""
        found = [each for node in nodes for each in self._unconditional(node, within)]
        first: dict[str, JavaObject] = {}
        for each in found:
            uses = Counter(self._uses(each.child()))
            for definition in scala_seq(each.defs()):
                name, value = name_of(definition), definition.child()
                is_column = uses[name] > 1 and self._is_column(value)
                (first if is_column else self._in_place)[name] = value
        if not found:
            return []
        inner = [each.child() for each in found]
        return [*self.order(first.values(), True), *first, *self.order(inner, True)]

    def _unconditional(self, node: JavaObject, within: bool) -> Iterator[JavaObject]:
        """Every ``With`` that is in no other (but for the one that all are in) and behind no
        condition."""
        name = simple_name(node)
        if name == "With":
            yield node
            return
        if _is_reference(node) and (value := self._in_place.get(name_of(node))) is not None:
            yield from self._unconditional(value, True)
            return
        children = self._children(node)
        if name in ALWAYS_EVALUATED:
            children = [] if within else children[: ALWAYS_EVALUATED[name]]
        for child in children:
            yield from self._unconditional(child, within)

    def _is_column(self, value: JavaObject) -> bool:
        # Only what stands for a function tells whether that is a constant.
        logical, optimizer = self._catalyst.plans.logical, self._catalyst.optimizer
        holder = logical.Filter(value, logical.OneRowRelation())
        written = optimizer.ReplaceExpressions.apply(holder).condition()
        if optimizer.CollapseProject.isCheap(written):
            return False
        references = scala_seq(value.references().toSeq())
        return all(each.exprId().id() in self._columns for each in references)

    def _uses(self, node: JavaObject) -> Iterator[str]:
        if _is_reference(node):
            yield name_of(node)
        for child in self._children(node):
            yield from self._uses(child)

    def _children(self, node: JavaObject) -> list[JavaObject]:
        """Spark has put others in the place of functions that stand for them."""
        if is_instance_of(self._gateway, node, f"{_CATALYST}.RuntimeReplaceable"):
            return [node.replacement()]
        return list(scala_seq(node.children()))


def _is_reference(node: JavaObject) -> bool:
    return simple_name(node) == "CommonExpressionRef"

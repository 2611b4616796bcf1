"""Constants written out, as the rules of Spark's optimizer expect them.

``1 = 2`` and ``CAST(NULL AS INT)`` are values to ``BooleanSimplification`` and ``NullPropagation``,
for ``ConstantFolding`` has computed them. That would also freeze what the day decides, such as
``now()``. So of its work only truth values, whole numbers and NULL are taken, which is all that the
other rules look at.

What stands for others, such as ``try_subtract`` or ``nullif``, Spark has replaced before it
computes constants, and before it looks for NULL: ``encode(s, NULL)`` is NULL whatever ``s`` raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.plan.catalyst import scala_seq, simple_name

_PLAIN: Final = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT"})
_OF_DAYS: Final = re.compile(r"TIMESTAMP(?!_NTZ)")
"""What is computed of a text may depend on the day: ``CAST('10:00' AS TIMESTAMP)``."""
_COLLECTIONS: Final = frozenset({"CreateArray", "CreateMap"})
_AS_THEY_ARE: Final = frozenset({"Literal", "KnownFloatingPointNormalized"})
_SETS: Final = frozenset(
    {"ArrayDistinct", "ArrayUnion", "ArrayIntersect", "ArrayExcept", "ArraysOverlap"}
)
_TRIED: Final = frozenset({"TryAdd", "TrySubtract", "TryMultiply"})
_FLOATS: Final = ("FLOAT", "DOUBLE")
_TEXTUAL: Final = re.compile(r"STRING|VARIANT|\bTIME\b")
"""Types of what tells a moment without its day."""
_SPECIAL: Final = re.compile(r"epoch|now|today|tomorrow|yesterday", re.IGNORECASE)
"""In texts that become days without a zone; computed by another rule, of which there is none here
but for texts that are cast as they stand."""
_OF_ONE_DAY: Final = re.compile(r"\s*(\d{4,}(-|\s*$)|epoch\b)", re.IGNORECASE)
"""How a text begins that is the same moment on any day."""


class Constants:
    """A rule like Spark's own.

    :param rule: ``ConstantFolding``.
    :param replacing: ``ReplaceExpressions``.
    :param naming: ``RewriteWithExpression``.
    :param special: ``SpecialDatetimeValues``.
    :param propagating: ``NullPropagation``; None if it is not to be.
    """

    def __init__(
        self,
        jvm: Any,
        rule: JavaObject,
        replacing: JavaObject,
        naming: JavaObject,
        special: JavaObject,
        propagating: JavaObject | None,
    ) -> None:
        self._jvm = jvm
        self._rule = rule
        self._catalyst = jvm.org.apache.spark.sql.catalyst
        patterns = self._catalyst.trees.TreePattern
        self._current = patterns.CURRENT_LIKE()
        self._looked_into = (patterns.LITERAL(), patterns.CREATE_MAP())
        self._replaceable = (patterns.RUNTIME_REPLACEABLE(), patterns.WITH_EXPRESSION())
        self._replacing = replacing
        self._naming = naming
        self._special = special
        self._propagating, self._null = propagating, patterns.NULL_LITERAL()

    def apply(self, plan: JavaObject) -> JavaObject:
        """The plan with the constants computed that rules look at."""
        known = self._jvm.java.util.HashMap()
        for expression in _expressions(plan):
            for constant, value in self._constants(expression):
                known.put(constant, value)
        return _substituted(self._jvm, plan, known)

    def _constants(self, node: JavaObject) -> Iterator[tuple[JavaObject, JavaObject]]:
        """The largest ones that are not written as such, and their values."""
        if simple_name(node) in _AS_THEY_ARE or not (
            any(map(node.containsPattern, self._looked_into)) or _has_empty_collection(node)
        ):
            return
        if (value := self._known(node)) is not None:
            yield node, value
        elif not self._foldable(node):
            for child in scala_seq(node.children()):
                yield from self._constants(child)
        elif not node.containsPattern(self._current) and not _depends_on_the_day(node):
            value = self._folded(self._special.apply(self._replaced(node)))
            if value is not None and _is_plain(value):
                yield node, value

    def _known(self, node: JavaObject) -> JavaObject | None:
        """Of what is no constant, but has one value: ``x IN (NULL, NULL)``, ``size(map(..))`` and
        ``encode(s, NULL)``; or may have one.

        Source: ``OptimizeIn``, of which the rest makes sets that no kernel reads, and
        ``ConstantFolding``."""
        name = simple_name(node)
        items = list(scala_seq(node.list())) if name == "In" else []
        if items and all(map(_is_null, items)):
            null: JavaObject = self._catalyst.expressions.Literal.create(None, node.dataType())
            return null
        if name == "Size" and simple_name(node.child()) in _COLLECTIONS:
            return self._folded(self._holder(node))
        if name == "NullIf" and simple_name(node.left()) == "Literal":
            return self._compared(node)
        if node.containsPattern(self._null) and node.containsPattern(self._replaceable[0]):
            return self._propagated(self._replaced(node))
        return None

    def _foldable(self, node: JavaObject) -> bool:
        if not any(map(node.containsPattern, self._replaceable)):
            return bool(node.foldable())
        if not node.references().isEmpty():
            return False
        plan = self._replaced(node)
        return simple_name(plan) == "Filter" and bool(plan.condition().foldable())

    def _replaced(self, node: JavaObject) -> JavaObject:
        """A plan with the expression that this one stands for; more than a filter, if a part of
        that is computed first."""
        plan: JavaObject = self._naming.apply(self._replacing.apply(self._holder(node)))
        return plan

    def _holder(self, node: JavaObject) -> JavaObject:
        """A plan with this expression, as rules take it."""
        logical = self._catalyst.plans.logical
        plan: JavaObject = logical.Filter(node, logical.OneRowRelation())
        return plan

    def _compared(self, node: JavaObject) -> JavaObject | None:
        """``nullif(1000, x)`` as the comparison that rules know: no TINYINT is 1000."""
        holder = self._replaced(node)
        return holder.condition() if simple_name(holder) == "Filter" else None

    def _propagated(self, holder: JavaObject) -> JavaObject | None:
        """NULL if NULL makes it so; else None, also of what has ``CAST('now' AS TIMESTAMP)`` in it:
        that is computed for each epoch."""
        if self._propagating is None or simple_name(holder) != "Filter":
            return None
        if not self._special.apply(holder).fastEquals(holder):
            return None
        before = None
        while before is None or not before.fastEquals(holder):
            before, holder = holder, self._propagating.apply(holder)
            if (value := self._folded(holder)) is not None:
                return value if _is_null(value) else None
        return None

    def _folded(self, holder: JavaObject) -> JavaObject | None:
        """None if it raises, or stays what it is."""
        try:
            value: JavaObject = self._rule.apply(holder).condition()
        except (Py4JJavaError, PySparkException):
            return None
        return value if simple_name(value) == "Literal" else None


def without_null_sets(jvm: Any, plan: JavaObject) -> JavaObject:
    """The plan with NULL hidden from the rules where an array of floating numbers is a set: Spark
    has put it into a function by then, which makes -0.0 in arrays 0.0."""
    catalyst = jvm.org.apache.spark.sql.catalyst
    pattern = catalyst.trees.TreePattern.NULL_LITERAL()
    hidden = jvm.java.util.HashMap()
    for expression in _expressions(plan):
        for node in _with_pattern(expression, pattern):
            if simple_name(node) in _SETS:
                children = list(scala_seq(node.children()))
                if any(map(_is_null_of_floats, children)):
                    known = catalyst.expressions.KnownFloatingPointNormalized
                    of = [known(each) if _is_null_of_floats(each) else each for each in children]
                    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
                    hidden.put(node, node.withNewChildren(to_seq(of)))
    return _substituted(jvm, plan, hidden)


def with_sums_written_out(jvm: Any, plan: JavaObject) -> JavaObject:
    """The plan with the sums and products that ``try_add``, ``try_subtract`` and ``try_multiply``
    stand for: Spark puts their constants together with those around them, and what overflows in
    ``try_add(a, 5) + b`` is not NULL any more."""
    pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.RUNTIME_REPLACEABLE()
    written = jvm.java.util.HashMap()
    for expression in _expressions(plan):
        for node in _with_pattern(expression, pattern):
            if simple_name(node) in _TRIED:
                written.put(node, node.replacement())
    return _substituted(jvm, plan, written)


def with_zone_written_out(jvm: Any, plan: JavaObject, zone_name: str) -> JavaObject:
    """The plan with ``current_timezone()`` as the text that it is."""
    catalyst = jvm.org.apache.spark.sql.catalyst
    pattern = catalyst.trees.TreePattern.CURRENT_LIKE()
    written = jvm.java.util.HashMap()
    for expression in _expressions(plan):
        for node in _with_pattern(expression, pattern):
            if simple_name(node) == "CurrentTimeZone":
                written.put(node, catalyst.expressions.Literal.create(zone_name, node.dataType()))
    return _substituted(jvm, plan, written)


def _substituted(jvm: Any, plan: JavaObject, by: JavaObject) -> JavaObject:
    """The plan with these expressions replaced: a Java map of them."""
    if by.isEmpty():
        return plan
    # A map of Scala's is a partial function.
    to_scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
    replaced: JavaObject = plan.transformAllExpressions(to_scala(by))
    return replaced


def _has_empty_collection(node: JavaObject) -> bool:
    """``array()`` is a constant, and has no literal."""
    return any(simple_name(leaf) in _COLLECTIONS for leaf in scala_seq(node.collectLeaves()))


def _with_pattern(node: JavaObject, pattern: JavaObject) -> Iterator[JavaObject]:
    if node.containsPattern(pattern):
        yield node
        for child in scala_seq(node.children()):
            yield from _with_pattern(child, pattern)


def _is_null_of_floats(node: JavaObject) -> bool:
    if simple_name(node) == "Cast":
        node, dtype = node.child(), node.dataType()
    else:
        dtype = node.dataType()
    return _is_null(node) and any(name in str(dtype.sql()) for name in _FLOATS)


def _is_plain(value: JavaObject) -> bool:
    """Whether rules look at such a value."""
    return _type(value) in _PLAIN or value.value() is None


def _is_null(node: JavaObject) -> bool:
    return simple_name(node) == "Literal" and node.value() is None


def _expressions(plan: JavaObject) -> Iterator[JavaObject]:
    yield from scala_seq(plan.expressions())
    for child in scala_seq(plan.children()):
        yield from _expressions(child)


def _depends_on_the_day(node: JavaObject) -> bool:
    name = simple_name(node)
    if name == "Literal":
        return False
    if name == "Cast" and simple_name(node.child()) == "Literal" and _has_text(node.child()):
        text = node.child().value()  # of a TIME a number
        if text is None or (isinstance(text, JavaObject) and _OF_ONE_DAY.match(str(text))):
            return False
    children = list(scala_seq(node.children()))
    of_moments = any(_OF_DAYS.search(_type(child)) for child in children)
    if name not in _COLLECTIONS and not of_moments and any(map(_has_text, children)):
        named = _type(node) in ("DATE", "TIMESTAMP_NTZ") and _SPECIAL.search(str(node.sql()))
        if named or _OF_DAYS.search(_type(node)):
            return True
    return any(map(_depends_on_the_day, children))


def _has_text(node: JavaObject) -> bool:
    return _TEXTUAL.search(_type(node)) is not None


def _type(node: JavaObject) -> str:
    return str(node.dataType().sql())

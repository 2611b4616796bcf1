"""What Spark's optimizer does to a plan before it is read, as far as rows or errors show it.

An optimizer decides which rows an expression is computed for: a filter that moves before a join, or
before a projection, keeps rows away from what would have raised, or meets rows that the join would
have dropped. And it takes expressions away: ``array(a, b)[2]`` is NULL without a look at the array,
``if(x, 1, 1)`` is 1 whatever ``x`` raises, ``CAST(CAST(i AS FLOAT) AS DOUBLE)`` loses no digits any
more. So Spark's own rules are run, of the very version that is there, in Spark's order; those that
``spark.sql.optimizer.excludedRules`` names are not.

Left out are rules that nobody can see the work of, such as ``LikeSimplification``, and those that
:mod:`engine.pipeline.optimizer` has counterparts of. Of ``ConstantFolding`` there is as much as the
others need, see :mod:`engine.plan.constants`; kernels compute the rest. Therefore

- a constant that raises, raises for the first row that reaches it; in Spark the optimizer fails;
- a filter stays where it is beside functions that Spark itself replaces by others (``nvl``).

Subqueries become joins here, where Spark does it: see :mod:`engine.plan.subqueries`.

Source: ``Optimizer.scala`` of Spark, ``operatorOptimizationBatch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.plan.constants import (
    Constants,
    with_sums_written_out,
    with_zone_written_out,
    without_null_sets,
)
from engine.plan.stream_join import joins_streams
from engine.plan.subqueries import has_subqueries, with_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTIMIZER: Final = "org.apache.spark.sql.catalyst.optimizer"
_EXCLUDED: Final = "spark.sql.optimizer.excludedRules"
_FOLDING: Final = "ConstantFolding"
_PROPAGATION: Final = "NullPropagation"
_BEFORE_FOLDING: Final = ("ReplaceExpressions", "RewriteWithExpression", "SpecialDatetimeValues")
_FINISH_ANALYSIS: Final = ("EliminateSubqueryAliases", "EliminateView")
_OPERATORS: Final = (
    "CombineFilters",
    "PushPredicateThroughNonJoin",
    "PushPredicateThroughJoin",
    "CollapseProject",
    "OptimizeUpdateFields",
    _PROPAGATION,
    "NullDownPropagation",
    _FOLDING,
    "ReorderAssociativeOperator",
    "BooleanSimplification",
    "SimplifyConditionals",
    "SimplifyBinaryComparison",
    "ReplaceNullWithFalseInPredicate",
    "SimplifyCasts",
    "SimplifyCaseConversionExpressions",
    "RewriteCorrelatedScalarSubquery",
    "RewriteLateralSubquery",
    "UnwrapCastInBinaryComparison",
    "SimplifyExtractValueOps",
    "OptimizeCsvJsonExprs",
    "SimplifyDateTimeConversions",
)
"""Repeated until nothing changes any more; not every version has all of them."""
_SUBQUERIES_FIRST: Final = (
    "RewriteNonCorrelatedExists",
    "OptimizeOneRowRelationSubquery",
    "PullupCorrelatedPredicates",
)
_SUBQUERIES_LAST: Final = (
    "RewritePredicateSubquery",
    "PushPredicateThroughJoin",
    "CollapseProject",
)
"""Before and behind the others."""
_JOINS_IN_SUBQUERIES: Final = (
    "RewriteCorrelatedScalarSubquery",
    "RewriteLateralSubquery",
    "RewritePredicateSubquery",
)
_NOT_EXCLUDABLE: Final = frozenset(
    {
        "RewriteNonCorrelatedExists",
        "PullupCorrelatedPredicates",
        "RewriteCorrelatedScalarSubquery",
        "RewriteLateralSubquery",
        "RewritePredicateSubquery",
    }
)
"""Source: ``nonExcludableRules``."""
_SUBSTITUTING: Final = ("CollapseProject", "PushPredicateThroughNonJoin")
_ZONE: Final = "spark.sql.session.timeZone"
_ROUNDS_MAX: Final = 100
"""``spark.sql.optimizer.maxIterations`` by default."""


def optimized(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The plan as Spark would compute it.

    :param plan: an analyzed one, which stays as it is.
    """
    jvm: Any = spark._jvm
    optimizer = jvm.org.apache.spark.sql.catalyst.optimizer
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    excluded = {name.strip() for name in str(spark.conf.get(_EXCLUDED, "")).split(",")}
    plan = _plain(optimizer.InlineCTE).apply(plan.clone())
    for name in _FINISH_ANALYSIS:
        plan = _singleton(analysis, name).apply(plan)
    pipes = _singleton(jvm.org.apache.spark.sql.catalyst.expressions, "EliminatePipeOperators")
    plan = plan if pipes is None else pipes.apply(plan)
    # ``current_database()`` and the like are texts.
    catalogs: Any = spark._jsparkSession.sessionState().catalogManager()
    plan = optimizer.ReplaceCurrentLike(catalogs).apply(plan)
    plan = with_zone_written_out(jvm, plan, str(spark.conf.get(_ZONE)))
    plan = with_sums_written_out(jvm, with_grouping_columns(spark, plan))
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    # A table is read once, when the query starts: what tells the time stays above the join.
    if plan.containsPattern(patterns.CURRENT_LIKE()):
        excluded.add(f"{_OPTIMIZER}.PushPredicateThroughJoin")
    # These put columns' expressions in place of columns, but not where functions that stand for
    # others, such as parse_url, remember their arguments; Spark has replaced these before.
    if plan.containsPattern(patterns.RUNTIME_REPLACEABLE()):
        excluded |= {f"{_OPTIMIZER}.{name}" for name in _SUBSTITUTING}
    if not plan.containsPattern(patterns.JSON_TO_STRUCT()):
        excluded.add(f"{_OPTIMIZER}.OptimizeCsvJsonExprs")  # parts of CSV's schemas are not read

    def rules(names: Iterable[str]) -> list[Any]:
        kept = (n for n in names if n in _NOT_EXCLUDABLE or f"{_OPTIMIZER}.{n}" not in excluded)
        found = {name: rule for name in kept if (rule := _singleton(optimizer, name)) is not None}
        if (folding := found.get(_FOLDING)) is not None:
            replacing, naming, special = (_singleton(optimizer, name) for name in _BEFORE_FOLDING)
            propagating = found.get(_PROPAGATION)
            found[_FOLDING] = Constants(jvm, folding, replacing, naming, special, propagating)
        return list(found.values())

    subqueries = has_subqueries(spark, plan)
    if subqueries:
        first, joins = rules(_SUBQUERIES_FIRST), rules(_JOINS_IN_SUBQUERIES)
        plain = partial(_plain_subquery, analysis, optimizer, patterns)

        def pulled_up(plan: JavaObject) -> JavaObject:
            return with_plans(spark, _all_applied(first, with_plans(spark, plan, plain)), joined)

        def joined(plan: JavaObject) -> JavaObject:
            """Once the subquery is a side of a join, nobody makes joins of its own ones."""
            return _all_applied(joins, pulled_up(plan)) if has_subqueries(spark, plan) else plan

        plan = pulled_up(plan)
    plan = without_null_sets(jvm, plan)
    operators = rules(_OPERATORS)
    plan = _repeated(operators, plan)
    if joins_streams(plan):  # a row without a key matches none, and moves no watermark
        for rule in rules(["InferFiltersFromConstraints"]):
            plan = _repeated(operators, _applied(rule, plan))
    return _all_applied(rules(_SUBQUERIES_LAST), plan) if subqueries else plan


def with_grouping_columns(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """What is grouped by are columns, so that it is told from others that read alike.

    :param plan: an analyzed one.
    """
    jvm: Any = spark._jvm
    rule = _singleton(jvm.org.apache.spark.sql.catalyst.optimizer, "PullOutGroupingExpressions")
    changed: JavaObject = rule.apply(plan)
    return changed


def _plain_subquery(analysis: Any, optimizer: Any, patterns: Any, plan: JavaObject) -> JavaObject:
    """As Spark's rules for subqueries expect it. They look for aggregates by class, so those that
    stand for others, such as ``count_if``, have to be these. Elsewhere kernels know the names."""
    for name in _FINISH_ANALYSIS:
        plan = _singleton(analysis, name).apply(plan)
    if plan.containsPattern(patterns.AGGREGATE()):
        plan = _singleton(optimizer, "ReplaceExpressions").apply(plan)
    return plan


def _repeated(rules: Sequence[Any], plan: JavaObject) -> JavaObject:
    """Until nothing changes any more."""
    for _ in range(_ROUNDS_MAX):
        before = plan
        plan = _all_applied(rules, plan)
        if before.fastEquals(plan):
            break
    return plan


def _all_applied(rules: Iterable[Any], plan: JavaObject) -> JavaObject:
    return reduce(lambda changed, rule: _applied(rule, changed), rules, plan)


def _applied(rule: Any, plan: JavaObject) -> JavaObject:
    """Of what a rule itself fails for, such as ``to_json(struct())``, nothing is changed."""
    try:
        changed: JavaObject = rule.apply(plan)
    except (Py4JJavaError, PySparkException):
        return plan
    return changed


def _plain(rule: Any) -> Any:
    """A rule with none of its options, of which versions have more or fewer."""
    options = rule._java_lang_class.getConstructors()[0].getParameterCount()
    return rule(*[False] * options)


def _singleton(package: Any, name: str) -> Any:
    """The Scala object of that name; None if this version has none."""
    found = getattr(getattr(package, f"{name}$"), "MODULE$", None)
    return found if isinstance(found, JavaObject) else None

"""The table of aggregate functions: Spark's class name → how it is folded, and of which types.

A query may use what is here and nothing else; the planner asks :func:`why_not`. Functions that
Spark replaces by others before it runs a query (``count_if``, ``bool_and``, ``any_value``,
``median``, ``regr_count``...) arrive here as those others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from engine.expressions.datum import constant
from engine.expressions.logic.ranks import is_orderable
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.types import has_variant, is_integral, sql_name
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.averages import Average
from engine.state.aggregates.bits import Bits
from engine.state.aggregates.collections import Collect, JoinedTexts
from engine.state.aggregates.counts import Count
from engine.state.aggregates.decimal_sums import DecimalAverage, DecimalSum
from engine.state.aggregates.distinct_counts import DistinctCount, register_bits
from engine.state.aggregates.extremes import ExtremeBy, extreme
from engine.state.aggregates.fold import Fold
from engine.state.aggregates.frequencies import (
    ApproximatePercentile,
    DiscretePercentile,
    Mode,
    Percentile,
)
from engine.state.aggregates.moments import Moments, Pairs
from engine.state.aggregates.picks import Pick
from engine.state.aggregates.sums import DoubleSum, LongSum, Product
from engine.state.contract import KIND


@dataclass(frozen=True)
class Function:
    """One row of the table.

    :param make: its states.
    :param refusal: why an aggregate with these arguments cannot be folded, or None.
    :param reads: which constructor parameters of Spark's class it heeds, beyond its children, under
        their snake-case names, and which settings; they are in the aggregate's ``params``.
    """

    make: Callable[[Aggregate], Fold]
    refusal: Callable[[Aggregate], str | None]
    reads: tuple[str, ...] = ()


def fold_of(aggregate: Aggregate) -> Fold:
    """The states of an aggregate that :func:`why_not` has nothing against."""
    return FUNCTIONS[aggregate.function].make(aggregate)


def state_fields(aggregate: Aggregate, name: str) -> list[pa.Field]:
    """The columns of the partial form.

    :param name: of the column of its results; theirs start with it.
    """
    fold = fold_of(aggregate)
    kind = {KIND: fold.kind} if fold.kind else None
    return [pa.field(f"{name}.{part}", dtype, metadata=kind) for part, dtype in fold.state]


def why_not(aggregate: Aggregate) -> str | None:
    """Why this cannot be folded, or None if it can."""
    function = FUNCTIONS.get(aggregate.function)
    if function is None:
        return "is not supported"
    if aggregate.distinct:
        return "DISTINCT is not supported: use approx_count_distinct, or dropDuplicates before"
    return function.refusal(aggregate)


Refusal = Callable[[Aggregate], str | None]


def _types(is_one: Callable[[pa.DataType], bool], count: int | None = 1) -> Refusal:
    """Refuses arguments of other types. Only the first ones are looked at; None: all."""

    def refusal(aggregate: Aggregate) -> str | None:
        for argument in aggregate.arguments[:count]:
            if not is_one(argument.dtype):
                return f"{sql_name(argument.dtype)} is not supported"
        return None

    return refusal


def _is_number(dtype: pa.DataType) -> bool:
    return is_integral(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)


def _has_order(dtype: pa.DataType) -> bool:
    return is_orderable(dtype) and not has_variant(dtype) and not pa.types.is_null(dtype)


def _no_map(dtype: pa.DataType) -> bool:
    if pa.types.is_map(dtype) or has_variant(dtype):
        return False
    return all(_no_map(dtype.field(index).type) for index in range(dtype.num_fields))


def _by_extreme(aggregate: Aggregate) -> str | None:
    order = aggregate.arguments[1].dtype
    return None if _has_order(order) else f"ordering by {sql_name(order)} is not supported"


def _percentile(aggregate: Aggregate) -> str | None:
    if constant(aggregate.arguments[1]) is None:
        return "the percentage has to be constant"
    return _types(_is_number)(aggregate)


def _approximate_percentile(aggregate: Aggregate) -> str | None:
    dtype = aggregate.arguments[0].dtype
    if constant(aggregate.arguments[1]) is None:
        return "the percentage has to be constant"
    if pa.types.is_decimal(dtype) and dtype.precision > 15:
        return f"{sql_name(dtype)} is not supported: a DOUBLE does not hold it; use percentile"
    return _types(lambda each: _is_number(each) or pa.types.is_temporal(each))(aggregate)


def _discrete_percentile(aggregate: Aggregate) -> str | None:
    if aggregate.params.get("legacy_calculation"):
        return "spark.sql.legacy.percentileDiscCalculation is not supported: unset it"
    return _percentile(aggregate)


def _joined_texts(aggregate: Aggregate) -> str | None:
    if constant(aggregate.arguments[1]) is None:
        return "the delimiter has to be constant"
    return _types(lambda dtype: pa.types.is_string(dtype) or pa.types.is_binary(dtype))(aggregate)


def _distinct_count(aggregate: Aggregate) -> str | None:
    if register_bits(aggregate.params["relative_sd"]) < 4:
        return "an error of more than 39 % is not supported"
    return _types(_no_map)(aggregate)


def _sum(aggregate: Aggregate) -> Fold:
    dtype = aggregate.arguments[0].dtype
    if pa.types.is_decimal(dtype):
        return DecimalSum(aggregate)
    return LongSum(aggregate) if is_integral(dtype) else DoubleSum(aggregate)


def _average(aggregate: Aggregate) -> Fold:
    is_decimal = pa.types.is_decimal(aggregate.arguments[0].dtype)
    return DecimalAverage(aggregate) if is_decimal else Average(aggregate)


def _anything(aggregate: Aggregate) -> str | None:
    return None


_DIVISION: Final = ("null_on_divide_by_zero",)
_MOMENTS: Final = Function(Moments, _types(_is_number, None), _DIVISION)
_PAIRS: Final = Function(Pairs, _types(_is_number, None), _DIVISION)
_BITS: Final = Function(Bits, _types(is_integral))
_PICK: Final = Function(Pick, _anything, ("ignore_nulls",))
_EXTREME: Final = Function(extreme, _types(_has_order))
_BY_EXTREME: Final = Function(ExtremeBy, _by_extreme)

FUNCTIONS: Final[Mapping[str, Function]] = {
    "Count": Function(Count, _anything),
    "Sum": Function(_sum, _types(_is_number)),
    "Average": Function(_average, _types(_is_number)),
    "Product": Function(Product, _types(_is_number)),
    "Min": _EXTREME,
    "Max": _EXTREME,
    "MinBy": _BY_EXTREME,
    "MaxBy": _BY_EXTREME,
    "First": _PICK,
    "Last": _PICK,
    "BitAndAgg": _BITS,
    "BitOrAgg": _BITS,
    "BitXorAgg": _BITS,
    "VariancePop": _MOMENTS,
    "VarianceSamp": _MOMENTS,
    "StddevPop": _MOMENTS,
    "StddevSamp": _MOMENTS,
    "Skewness": _MOMENTS,
    "Kurtosis": _MOMENTS,
    "RegrReplacement": _MOMENTS,
    "CovPopulation": _PAIRS,
    "CovSample": _PAIRS,
    "Corr": _PAIRS,
    "RegrR2": _PAIRS,
    "RegrSXY": _PAIRS,
    "RegrSlope": _PAIRS,
    "RegrIntercept": _PAIRS,
    "CollectList": Function(Collect, _anything, ("ignore_nulls",)),
    "CollectSet": Function(Collect, _types(_no_map), ("ignore_nulls",)),
    "ListAgg": Function(JoinedTexts, _joined_texts, ("descending",)),
    "Mode": Function(Mode, _types(_has_order), ("reverse_opt",)),
    "Percentile": Function(Percentile, _percentile, ("reverse", SPARK_VERSION)),
    "PercentileDisc": Function(
        DiscretePercentile, _discrete_percentile, ("reverse", "legacy_calculation")
    ),
    "ApproximatePercentile": Function(ApproximatePercentile, _approximate_percentile),
    "HyperLogLogPlusPlus": Function(
        DistinctCount, _distinct_count, ("relative_sd", "threshold", "estimates", "biases")
    ),
}

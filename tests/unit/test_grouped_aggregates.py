"""Each aggregate function by key, against a model that folds a list of values in plain Python.

The same rows take three ways: folded as they are; folded in parts whose states are merged; and
folded, moved to other slots through their states in the middle, and folded on.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import TransformError
from engine.expressions.decimals import EXACT
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.tree import Expr
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import Fold
from engine.state.aggregates.functions import FUNCTIONS, fold_of, state_fields, why_not

SLOTS = 4
Rows = list[tuple[int, tuple[Any, ...]]]
LONG, DOUBLE = pa.int64(), pa.float64()
MONEY = pa.decimal128(12, 2)
PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])


def column(dtype: pa.DataType, ordinal: int = 0) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": ordinal, "name": f"c{ordinal}"})


def literal(value: Any, dtype: pa.DataType) -> Expr:
    return Expr("Literal", (), dtype, value is None, {"value": value})


def aggregate(
    function: str, types: list[pa.DataType], dtype: pa.DataType, mode: str = "ANSI", **params: Any
) -> Aggregate:
    arguments = tuple(column(each, index) for index, each in enumerate(types))
    return Aggregate(function, arguments, dtype, mode, params=params)


def arrays(what: Aggregate, rows: Rows) -> list[pa.Array]:
    return [
        pa.repeat(pa.scalar(each.params["value"], each.dtype), len(rows))
        if each.op == "Literal"
        else pa.array([values[index] for _, values in rows], each.dtype)
        for index, each in enumerate(what.arguments)
    ]


def folded(what: Aggregate, batches: list[Rows], fold: Fold | None = None) -> Fold:
    if fold is None:
        fold = fold_of(what)
        fold.grow(1)
        fold.grow(SLOTS)
    for rows in batches:
        fold.update(np.array([slot for slot, _ in rows], np.int64), arrays(what, rows))
    return fold


def moved(what: Aggregate, fold: Fold, shift: int = 0) -> Fold:
    """Through the states."""
    other = fold_of(what)
    other.grow(SLOTS)
    states = fold.states(np.arange(SLOTS))
    assert [each.type for each in states] == [f.type for f in state_fields(what, "x")]
    other.merge((np.arange(SLOTS) + shift) % SLOTS, states)
    return other


def in_parts(what: Aggregate, batches: list[Rows]) -> Fold:
    """Each batch by another task; all their states come in one batch."""
    slots, states = np.empty(0, np.int64), [pa.nulls(0, f.type) for f in state_fields(what, "x")]
    for rows in batches:
        present = np.unique(np.array([slot for slot, _ in rows], np.int64))
        slots = np.concatenate([slots, present])
        more = folded(what, [rows]).states(present)
        states = [pa.concat_arrays(each) for each in zip(states, more, strict=True)]
    other = fold_of(what)
    other.grow(SLOTS)
    other.merge(slots, states)
    return other


def results(fold: Fold) -> list[Any]:
    found = fold.results(np.arange(SLOTS))
    found.validate(full=True)
    assert found.type == fold.aggregate.dtype
    return list(found.to_pylist())


Model = Callable[[list[Any]], Any]


def some(function: Model) -> Model:
    """Of the values that are not NULL; of none it is NULL."""

    def model(rows: list[Any]) -> Any:
        values = [value for (value,) in rows if value is not None]
        return function(values) if values else None

    return model


def least(values: list[float]) -> float:
    numbers = [value for value in values if not math.isnan(value)]
    return (
        reduce(lambda best, value: value if value < best else best, numbers)
        if numbers
        else math.nan
    )


def largest(values: list[float]) -> float:
    if any(math.isnan(value) for value in values):
        return math.nan
    return reduce(lambda best, value: value if value > best else best, values)


def by(rows: list[Any], is_max: bool) -> Any:
    best: Any = None
    for value, order in rows:
        if order is not None and (
            best is None or (order >= best[1] if is_max else order <= best[1])
        ):
            best = value, order
    return best and best[0]


def average_of_money(values: list[Decimal]) -> Decimal:
    return (sum(values) / Decimal(len(values))).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def distinct(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


longs = st.integers(-(2**40), 2**40)
small = st.integers(-3, 3)
doubles = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, math.inf, -math.inf, math.nan])
exact = st.integers(-1000, 1000).map(lambda n: n / 4)
money = st.integers(-(10**11), 10**11).map(lambda n: Decimal(n).scaleb(-2))
texts = st.text(max_size=3)
pairs = st.builds(lambda a, b: {"a": a, "b": b}, st.none() | small, st.none() | texts)


def list_of(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item, False))


CASES: dict[str, tuple[Aggregate, list[st.SearchStrategy[Any]], Model]] = {
    "count": (
        aggregate("Count", [LONG, pa.string()], LONG), [longs, texts],
        lambda rows: sum(None not in row for row in rows),
    ),
    "count all": (aggregate("Count", [], LONG), [], len),
    "sum": (aggregate("Sum", [LONG], LONG), [longs], some(sum)),
    "sum of smaller": (aggregate("Sum", [pa.int8()], LONG), [small], some(sum)),
    "try_sum": (aggregate("Sum", [LONG], LONG, "TRY"), [longs], some(sum)),
    "sum of doubles": (aggregate("Sum", [DOUBLE], DOUBLE), [exact], some(sum)),
    "sum of decimals": (aggregate("Sum", [MONEY], pa.decimal128(22, 2)), [money], some(sum)),
    "sum of long decimals": (
        aggregate("Sum", [pa.decimal128(38, 2)], pa.decimal128(38, 2)),
        [st.integers(-(10**32), 10**32).map(lambda n: EXACT.scaleb(Decimal(n), -2))],
        some(lambda values: reduce(EXACT.add, values)),
    ),
    "avg": (
        aggregate("Average", [LONG], DOUBLE), [small],
        some(lambda values: float(sum(values)) / len(values)),
    ),
    "avg of decimals": (
        aggregate("Average", [MONEY], pa.decimal128(16, 6)), [money], some(average_of_money)
    ),
    "product": (aggregate("Product", [DOUBLE], DOUBLE), [small.map(float)], some(math.prod)),
    "min": (aggregate("Min", [LONG], LONG), [longs], some(min)),
    "max of dates": (aggregate("Max", [pa.int32()], pa.int32()), [small], some(max)),
    "min of doubles": (aggregate("Min", [DOUBLE], DOUBLE), [doubles], some(least)),
    "max of doubles": (aggregate("Max", [DOUBLE], DOUBLE), [doubles], some(largest)),
    "min of booleans": (
        aggregate("Min", [pa.bool_()], pa.bool_()), [st.booleans()], some(min)
    ),
    "max of booleans": (
        aggregate("Max", [pa.bool_()], pa.bool_()), [st.booleans()], some(max)
    ),
    "min of texts": (
        aggregate("Min", [pa.string()], pa.string()), [texts],
        some(lambda values: min(values, key=str.encode)),
    ),
    "max of decimals": (aggregate("Max", [MONEY], MONEY), [money], some(max)),
    "max_by": (
        aggregate("MaxBy", [pa.string(), LONG], pa.string()), [texts, small],
        lambda rows: by(rows, True),
    ),
    "min_by": (
        aggregate("MinBy", [pa.string(), LONG], pa.string()), [texts, small],
        lambda rows: by(rows, False),
    ),
    "first": (
        aggregate("First", [PAIR], PAIR), [pairs], lambda rows: rows[0][0] if rows else None
    ),
    "first of values": (
        aggregate("First", [LONG], LONG, ignore_nulls=True), [longs], some(lambda v: v[0])
    ),
    "last": (
        aggregate("Last", [LONG], LONG), [longs], lambda rows: rows[-1][0] if rows else None
    ),
    "last of values": (
        aggregate("Last", [pa.string()], pa.string(), ignore_nulls=True), [texts],
        some(lambda v: v[-1]),
    ),
    "bit_and": (
        aggregate("BitAndAgg", [LONG], LONG), [longs], some(lambda v: reduce(int.__and__, v))
    ),
    "bit_or": (
        aggregate("BitOrAgg", [pa.int16()], pa.int16()), [small],
        some(lambda v: reduce(int.__or__, v)),
    ),
    "bit_xor": (
        aggregate("BitXorAgg", [LONG], LONG), [longs], some(lambda v: reduce(int.__xor__, v))
    ),
    "collect_list": (
        aggregate("CollectList", [pa.string()], list_of(pa.string())), [texts],
        lambda rows: [value for (value,) in rows if value is not None],
    ),
    "collect_list with NULL": (
        aggregate("CollectList", [LONG], pa.list_(LONG), ignore_nulls=False), [longs],
        lambda rows: [value for (value,) in rows],
    ),
    "collect_set": (
        aggregate("CollectSet", [LONG], list_of(LONG)), [small],
        lambda rows: distinct([value for (value,) in rows if value is not None]),
    ),
    "listagg": (
        Aggregate("ListAgg", (column(pa.string()), literal("; ", pa.string())), pa.string()),
        [texts], some("; ".join),
    ),
    "mode": (
        aggregate("Mode", [LONG], LONG), [small],
        some(lambda values: Counter(values).most_common(1)[0][0]),
    ),
    "mode, the least": (
        aggregate("Mode", [pa.string()], pa.string(), reverse_opt=True), [texts],
        some(lambda v: min(Counter(v).items(), key=lambda e: (-e[1], e[0].encode()))[0]),
    ),
    "listagg, sorted": (
        Aggregate(
            "ListAgg", (column(pa.string()), literal("", pa.string())), pa.string(),
            params={"descending": True},
        ),
        [texts], some(lambda values: "".join(sorted(values, key=str.encode, reverse=True))),
    ),
    "percentile_disc": (
        Aggregate("PercentileDisc", (column(LONG), literal(0.4, DOUBLE)), DOUBLE),
        [small, st.none()],
        lambda rows: some(lambda v: float(sorted(v)[max(math.ceil(len(v) * 0.4) - 1, 0)]))(
            [row[:1] for row in rows]
        ),
    ),
    "approx_percentile": (
        Aggregate("ApproximatePercentile", (column(LONG), literal(0.4, DOUBLE)), LONG),
        [small, st.none()],
        lambda rows: some(lambda v: sorted(v)[max(math.ceil(len(v) * 0.4) - 1, 0)])(
            [row[:1] for row in rows]
        ),
    ),
    "median": (
        Aggregate(
            "Percentile",
            (column(LONG), literal(0.5, DOUBLE), literal(1, LONG)),
            DOUBLE,
            params={SPARK_VERSION: "4.2.1"},
        ),
        [small, st.none(), st.none()],
        lambda rows: some(lambda v: float(statistics.median(v)))([row[:1] for row in rows]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_as_the_model(name: str, data: Any) -> None:
    what, values, model = CASES[name]
    assert why_not(what) is None
    row = st.tuples(st.integers(0, SLOTS - 1), st.tuples(*(st.none() | each for each in values)))
    batches = data.draw(st.lists(st.lists(row, max_size=12), max_size=3))
    expected = [
        model([values for rows in batches for owner, values in rows if owner == slot])
        for slot in range(SLOTS)
    ]
    whole = folded(what, batches)
    assert repr(results(whole)) == repr(expected)
    assert repr(results(in_parts(what, batches))) == repr(expected)
    halfway = folded(what, batches[1:], moved(what, folded(what, batches[:1])))
    assert repr(results(halfway)) == repr(expected)
    assert repr(results(moved(what, whole, 1))) == repr(expected[-1:] + expected[:-1])
    whole.clear(np.array([1, 3]))
    nothing = model([])
    assert repr(results(whole)) == repr([expected[0], nothing, expected[2], nothing])
    assert repr(results(folded(what, batches, whole))[1]) == repr(expected[1])


DEVIATIONS: dict[str, Callable[[np.ndarray], float]] = {
    "VariancePop": lambda x: float(np.var(x)),
    "VarianceSamp": lambda x: float(np.var(x, ddof=1)),
    "StddevPop": lambda x: float(np.std(x)),
    "StddevSamp": lambda x: float(np.std(x, ddof=1)),
    "RegrReplacement": lambda x: float(((x - x.mean()) ** 2).sum()),
    "Skewness": lambda x: float(((x - x.mean()) ** 3).mean() / np.std(x) ** 3),
    "Kurtosis": lambda x: float(((x - x.mean()) ** 4).mean() / np.var(x) ** 2 - 3),
}


@pytest.mark.parametrize("function", DEVIATIONS)
def test_deviations(function: str) -> None:
    random = np.random.default_rng(7)
    what = aggregate(function, [DOUBLE], DOUBLE)
    values = random.normal(50, 3, 1000)
    owners = random.integers(0, SLOTS, 1000)
    rows: Rows = [(int(owner), (float(v),)) for owner, v in zip(owners, values, strict=True)]
    batches = [rows[:1], rows[1:2], rows[2:300], rows[300:]]
    expected = [DEVIATIONS[function](values[owners == slot]) for slot in range(SLOTS)]
    assert results(folded(what, batches)) == pytest.approx(expected, rel=1e-9)
    assert results(in_parts(what, batches)) == pytest.approx(expected, rel=1e-9)
    whole = folded(what, batches)
    assert results(moved(what, whole)) == results(whole)  # to the bit


def test_deviations_of_few_values() -> None:
    one: list[Rows] = [[(0, (5.0,)), (1, (2.0,)), (1, (2.0,))]]

    def of(function: str, **params: Any) -> list[Any]:
        return results(folded(aggregate(function, [DOUBLE], DOUBLE, **params), one))[:3]

    assert of("StddevSamp") == [None, 0.0, None]
    assert of("VariancePop") == [0.0, 0.0, None]
    assert of("Skewness") == of("Kurtosis") == [None, None, None]
    instead = of("VarianceSamp", null_on_divide_by_zero=False)
    assert math.isnan(instead[0])
    assert instead[1:] == [0.0, None]


PAIRS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "CovPopulation": lambda y, x: float(np.cov(y, x, ddof=0)[0, 1]),
    "CovSample": lambda y, x: float(np.cov(y, x)[0, 1]),
    "Corr": lambda y, x: float(np.corrcoef(y, x)[0, 1]),
    "RegrR2": lambda y, x: float(np.corrcoef(y, x)[0, 1] ** 2),
    "RegrSXY": lambda y, x: float(np.cov(y, x, ddof=0)[0, 1] * len(x)),
    "RegrSlope": lambda y, x: float(np.polyfit(x, y, 1)[0]),
    "RegrIntercept": lambda y, x: float(np.polyfit(x, y, 1)[1]),
}


@pytest.mark.parametrize("function", PAIRS)
def test_pairs(function: str) -> None:
    random = np.random.default_rng(8)
    what = aggregate(function, [DOUBLE, DOUBLE], DOUBLE)
    x = random.normal(50, 3, 1000)
    y = 2 * x + random.normal(0, 3, 1000)
    owners = random.integers(0, SLOTS, 1000)
    rows: Rows = [(int(o), (float(a), float(b))) for o, a, b in zip(owners, y, x, strict=True)]
    rows[500:500] = [(0, (None, 1e9)), (1, (1e9, None))]
    batches = [rows[:1], rows[1:2], rows[2:300], rows[300:]]
    mine = [owners == slot for slot in range(SLOTS)]
    expected = [PAIRS[function](y[each], x[each]) for each in mine]
    assert results(folded(what, batches)) == pytest.approx(expected, rel=1e-8)
    assert results(in_parts(what, batches)) == pytest.approx(expected, rel=1e-8)


def test_pairs_that_do_not_vary() -> None:
    """As Spark 4.2 answers."""
    same_y: list[Rows] = [[(0, (1.0, 2.0)), (0, (1.0, 3.0)), (1, (1.0, 2.0))]]
    same_x: list[Rows] = [[(0, (1.0, 2.0)), (0, (5.0, 2.0))]]

    def of(function: str, rows: list[Rows], mode: str = "LEGACY") -> Any:
        return results(folded(aggregate(function, [DOUBLE, DOUBLE], DOUBLE, mode), rows))[:2]

    assert of("RegrR2", same_y)[0] == 1.0
    assert of("RegrSlope", same_y)[0] == 0.0
    assert of("RegrIntercept", same_y)[0] == 1.0
    assert [of(each, same_x)[0] for each in ("RegrR2", "RegrSlope", "RegrIntercept")] == [None] * 3
    assert of("Corr", same_y) == of("Corr", same_x) == [None, None]
    with pytest.raises(TransformError, match="DIVIDE_BY_ZERO"):
        of("Corr", same_x, "ANSI")
    assert of("CovSample", same_y, "ANSI") == [0.0, None]


def test_sums_that_are_too_large() -> None:
    rows: list[Rows] = [[(0, (2**63 - 1,)), (1, (5,))], [(0, (1,)), (1, (6,))], [(0, (-1,))]]
    with pytest.raises(TransformError, match="ARITHMETIC_OVERFLOW"):
        folded(aggregate("Sum", [LONG], LONG, "ANSI"), rows)
    assert results(folded(aggregate("Sum", [LONG], LONG, "LEGACY"), rows[:2]))[:2] == [-(2**63), 11]
    what = aggregate("Sum", [LONG], LONG, "TRY")
    lost = folded(what, rows)
    assert results(lost) == results(moved(what, lost)) == [None, 11, None, None]
    assert results(folded(what, rows, moved(what, lost))) == [None, 22, None, None]
    batch: list[Rows] = [[(0, (2**63 - 1,)), (0, (1,)), (0, (-1,))]]
    assert results(folded(aggregate("Sum", [LONG], LONG), batch))[0] == 2**63 - 1


def test_decimals_that_are_too_large() -> None:
    dtype = pa.decimal128(38, 0)
    nines, less = Decimal(10**38 - 1), Decimal(1 - 10**38)
    rows: list[Rows] = [[(0, (nines,)), (1, (less,))], [(0, (nines,))], [(0, (less,))]]
    for mode in ("LEGACY", "TRY"):
        what = aggregate("Sum", [dtype], dtype, mode)
        lost = folded(what, rows)
        assert results(lost) == results(moved(what, lost)) == [None, less, None, None]
    for function, instead in (("Sum", "try_sum"), ("Average", "try_avg")):
        what = aggregate(function, [dtype], dtype, "ANSI")
        with pytest.raises(TransformError, match="ARITHMETIC_OVERFLOW") as raised:
            results(folded(what, rows))
        assert instead in str(raised.value.hint)
    many: list[Rows] = [[(0, (nines,)), (0, (less,))] * 50]
    assert results(folded(aggregate("Sum", [dtype], dtype), many))[0] == 0


def test_sets_have_one_zero_and_one_nan() -> None:
    rows: list[Rows] = [[(0, (-0.0,)), (0, (math.nan,))], [(0, (0.0,)), (0, (math.nan,))]]
    found = results(folded(aggregate("CollectSet", [DOUBLE], list_of(DOUBLE)), rows))[0]
    assert repr(found) == "[0.0, nan]"
    modes = results(folded(aggregate("Mode", [DOUBLE], DOUBLE), [*rows, [(0, (-0.0,))]]))
    assert repr(modes[0]) == "0.0"


def test_distinct_values_are_estimated() -> None:
    """Few of them by linear counting; how many registers are used does not depend on the way."""
    what = aggregate(
        "HyperLogLogPlusPlus", [LONG], LONG, relative_sd=0.05,
        estimates=(400.0, 500.0), biases=(300.0, 200.0), threshold=400.0,
    )  # fmt: skip
    batches: list[Rows] = [
        [(number % 2, (number % 100,)) for number in range(1000)],
        [(number % 2, (number % 110,)) for number in range(1000)],
    ]
    found = results(folded(what, batches))
    assert found == results(in_parts(what, batches)) == results(moved(what, folded(what, batches)))
    assert found[0] == pytest.approx(55, abs=4)
    assert found[2] == 0


def test_every_refusal_has_a_reason() -> None:
    variant = pa.map_(pa.string(), LONG)
    refused = [
        aggregate("Sum", [pa.string()], LONG),
        aggregate("Max", [variant], variant),
        aggregate("MaxBy", [LONG, variant], LONG),
        aggregate("CollectSet", [variant], pa.list_(variant)),
        aggregate("Percentile", [LONG, DOUBLE, LONG], DOUBLE),
        aggregate("HistogramNumeric", [LONG], LONG),
        Aggregate("Count", (column(LONG),), LONG, distinct=True),
    ]
    assert all(why_not(each) for each in refused)


def test_every_function_is_tried() -> None:
    tried = {what.function for what, _, _ in CASES.values()}
    assert set(FUNCTIONS) == {*tried, *DEVIATIONS, *PAIRS, "HyperLogLogPlusPlus"}

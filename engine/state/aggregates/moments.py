"""Functions of how values deviate from their mean, and pairs of values from theirs: ``stddev``,
``variance``, ``skewness``, ``kurtosis``, ``covar``, ``corr``, ``regr_*``.

States are merged by Spark's formulas; so are the rows of a batch, of which the mean and the
deviations from it are computed first. Last digits depend on how rows are divided into batches, as
in Spark.

Source: Spark's ``CentralMomentAgg``, ``Covariance``, ``PearsonCorrelation``, ``linearRegression``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.expressions import ansi
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import NumbersFold, Values, rows_with_values
from engine.state.columns import Slots, fixed_array, fixed_values

_DOUBLE = ("f8", 0.0)
_MOMENTS = {
    "StddevPop": 2, "StddevSamp": 2, "VariancePop": 2, "VarianceSamp": 2, "RegrReplacement": 2,
    "Skewness": 3, "Kurtosis": 4,
}  # fmt: skip


class _Deviations(NumbersFold):
    """The state's numbers are doubles, the first of them how many rows there are."""

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        slots, columns = rows_with_values(slots, columns)
        if not len(slots):
            return
        distinct, owners = np.unique(slots, return_inverse=True)
        values = [fixed_values(column).astype(np.float64, copy=False) for column in columns]
        with np.errstate(all="ignore"):
            self._join(distinct, self._of_rows(owners, np.bincount(owners), values))

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        values = [fixed_values(state) for state in states]
        rows = np.flatnonzero(values[0] != 0)
        rows = rows[np.argsort(slots[rows], kind="stable")]
        slots, values = slots[rows], [each[rows] for each in values]
        with np.errstate(all="ignore"):
            while len(left := _left_of_two(slots)):
                # Two by two: a key with many rows takes as many rounds as their number has bits.
                both = [[each[side] for each in values] for side in (left, left + 1)]
                for each, merged in zip(values, self._merged(*both), strict=True):
                    each[left] = merged
                slots = np.delete(slots, left + 1)
                values = [np.delete(each, left + 1) for each in values]
            self._join(slots, values)

    def _join(self, slots: Slots, theirs: Sequence[Values]) -> None:
        """Merge states of distinct slots."""
        ours = [array[slots] for array in self.arrays]
        is_new = ours[0] == 0  # what is restored has the very bits that it had
        merged = self._merged(ours, theirs)
        for array, joined, other in zip(self.arrays, merged, theirs, strict=True):
            array[slots] = np.where(is_new, other, joined)

    def _of_rows(self, owners: Slots, counts: Slots, values: Sequence[Values]) -> list[Values]:
        raise NotImplementedError

    def _merged(self, left: Sequence[Values], right: Sequence[Values]) -> Sequence[Values]:
        raise NotImplementedError

    def states(self, slots: Slots) -> list[pa.Array]:
        return [fixed_array(pa.float64(), array[slots]) for array in self.arrays]

    def results(self, slots: Slots) -> pa.Array:
        with np.errstate(all="ignore"):
            values, known = self._value(*(array[slots] for array in self.arrays))
        return fixed_array(pa.float64(), np.ascontiguousarray(values, np.float64), known)

    def _value(self, *state: Any) -> tuple[Any, Any]:
        """The results, and which of them are not NULL."""
        raise NotImplementedError


class Moments(_Deviations):
    """Count, mean, and the central moments that the function needs, times the count."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._highest = _MOMENTS[aggregate.function]
        self._is_nan_instead = not aggregate.params.get("null_on_divide_by_zero", True)
        self.kinds = (_DOUBLE,) * (self._highest + 1)
        super().__init__(aggregate)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        names = ("n", "avg", "m2", "m3", "m4")[: self._highest + 1]
        return tuple((name, pa.float64()) for name in names)

    def _of_rows(self, owners: Slots, counts: Slots, values: Sequence[Values]) -> list[Values]:
        means = np.bincount(owners, values[0]) / counts
        deviations = values[0] - means[owners]
        state: list[Values] = [counts.astype(np.float64), means]
        powers = deviations
        for _ in range(2, self._highest + 1):
            powers = powers * deviations
            state.append(np.bincount(owners, powers))
        return state

    def _merged(self, left: Sequence[Values], right: Sequence[Values]) -> Sequence[Values]:
        (n1, mean1, m2, *more), (n2, mean2, other_m2, *others) = left, right
        n = n1 + n2
        delta = mean2 - mean1
        part = delta / n
        state = [n, mean1 + part * n2, m2 + other_m2 + delta * part * n1 * n2]
        if self._highest >= 3:
            m3, other_m3 = more[0], others[0]
            third = m3 + other_m3 + part * part * delta * n1 * n2 * (n1 - n2)
            state.append(third + 3.0 * part * (n1 * other_m2 - n2 * m2))
        if self._highest >= 4:
            m4, other_m4 = more[1], others[1]
            spread = n1 * n1 - n1 * n2 + n2 * n2
            fourth = m4 + other_m4 + part * part * part * delta * n1 * n2 * spread
            fourth += 6.0 * part * part * (n1 * n1 * other_m2 + n2 * n2 * m2)
            state.append(fourth + 4.0 * part * (n1 * other_m3 - n2 * m3))
        return state

    def _value(self, n: Any, mean: Any, m2: Any, *more: Any) -> tuple[Any, Any]:
        function, has_rows = self.aggregate.function, n > 0
        if function == "RegrReplacement":
            return m2, has_rows
        if function in ("Skewness", "Kurtosis"):
            value = np.sqrt(n) * more[0] / np.sqrt(m2 * m2 * m2)
            if function == "Kurtosis":
                value = n * more[1] / (m2 * m2) - 3.0
            return self._divided(value, has_rows, m2 == 0)
        if function in ("VariancePop", "StddevPop"):
            value, by_zero = m2 / n, np.zeros(len(n), np.bool_)
        else:
            value, by_zero = m2 / (n - 1.0), n == 1
        value = np.sqrt(value) if function.startswith("Stddev") else value
        return self._divided(value, has_rows, by_zero)

    def _divided(self, value: Any, has_rows: Any, by_zero: Any) -> tuple[Any, Any]:
        if self._is_nan_instead:
            return np.where(by_zero, np.nan, value), has_rows
        return value, has_rows & ~by_zero


class Pairs(_Deviations):
    """Count, both means, and sums of products of deviations: of both, of the first with itself, of
    the second with itself. ``corr`` divides as the session does, so its ``eval_mode`` counts: in
    ANSI mode it is an error if all values of one side are equal."""

    kinds = (_DOUBLE,) * 6
    state = tuple((name, pa.float64()) for name in ("n", "xAvg", "yAvg", "ck", "xMk", "yMk"))

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._is_nan_instead = not aggregate.params.get("null_on_divide_by_zero", True)

    def _of_rows(self, owners: Slots, counts: Slots, values: Sequence[Values]) -> list[Values]:
        means = [np.bincount(owners, each) / counts for each in values]
        x, y = (each - mean[owners] for each, mean in zip(values, means, strict=True))
        products = [np.bincount(owners, each) for each in (x * y, x * x, y * y)]
        return [counts.astype(np.float64), *means, *products]

    def _merged(self, left: Sequence[Values], right: Sequence[Values]) -> Sequence[Values]:
        n1, x1, y1, *ours = left
        n2, x2, y2, *theirs = right
        n = n1 + n2
        dx, dy = x2 - x1, y2 - y1
        shifts = (dx * (dy / n) * n1 * n2, dx * (dx / n) * n1 * n2, dy * (dy / n) * n1 * n2)
        sums = [a + b + shift for a, b, shift in zip(ours, theirs, shifts, strict=True)]
        return [n, x1 + dx / n * n2, y1 + dy / n * n2, *sums]

    def _value(self, n: Any, x: Any, y: Any, xy: Any, xx: Any, yy: Any) -> tuple[Any, Any]:
        function, has_rows = self.aggregate.function, n > 0
        if function == "CovPopulation":
            return xy / n, has_rows
        if function == "RegrSXY":
            return xy, has_rows
        if function in ("CovSample", "Corr"):
            divisor = n - 1.0 if function == "CovSample" else np.sqrt(xx * yy)
            is_zero = (divisor == 0) & (n > 1)
            if self.aggregate.eval_mode == "ANSI" and is_zero.any():
                raise ansi.divide_by_zero()
            value, known = xy / divisor, has_rows & ~is_zero
            if self._is_nan_instead:
                return np.where(n == 1, np.nan, value), known
            return value, known & (n != 1)
        # The arguments of regr_*: the dependent variable is the first.
        if function == "RegrR2":
            correlation = xy / np.sqrt(xx * yy)
            return np.where(xx == 0, 1.0, correlation * correlation), yy != 0
        if function == "RegrSlope":
            return xy / yy, yy != 0
        return x - xy / yy * y, yy != 0


def _left_of_two(slots: Slots) -> Slots:
    """The positions of the first, third, ... row of each slot that have another behind them.

    :param slots: sorted.
    """
    rows = np.arange(len(slots))
    begins = np.ones(len(slots), np.bool_)
    begins[1:] = slots[1:] != slots[:-1]
    places = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    return np.flatnonzero((places[:-1] % 2 == 0) & ~begins[1:])

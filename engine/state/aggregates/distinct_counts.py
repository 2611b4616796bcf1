"""``approx_count_distinct``: HyperLogLog++, with the very registers and estimates of Spark.

A value's hash of 64 bits names a register by its upper bits; the register keeps how many zeros
the others have begun with at most, and one. How an estimate is corrected is in tables of Spark's
class, which the planner reads from it: they are long, and measured.

Source: Spark's ``HyperLogLogPlusPlus`` and ``HyperLogLogPlusPlusHelper``; Heule, Nunkesser and
Hall, HyperLogLog in Practice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from engine.expressions.compile import compile_expression
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from engine.expressions.vectors import to_numpy
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import Fold, Values, rows_with_values
from engine.state.arrays import grown
from engine.state.columns import Slots, fixed_array

_ALPHAS: Final = {4: 0.673, 5: 0.697, 6: 0.709}
_CORRECTED_BELOW: Final = 19
_NEIGHBOURS: Final = 6
_SEED: Final = 42
REGISTER_BITS_MIN: Final = 4
"""Spark's tables begin there."""


def register_bits(relative_sd: float) -> int:
    """How many bits of a hash name a register."""
    return math.ceil(2.0 * math.log(1.106 / relative_sd) / math.log(2.0))


class DistinctCount(Fold):
    """The registers, a byte each.

    Params of the aggregate: ``relative_sd``, and of the tables of ``HyperLogLogPlusPlusHelper`` the
    rows for these bits: ``estimates`` (``RAW_ESTIMATE_DATA``), ``biases`` (``BIAS_DATA``) and
    ``threshold`` (``THRESHOLDS``); there are none from 19 bits on.
    """

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._bits = register_bits(aggregate.params["relative_sd"])
        self._size = 1 << self._bits
        self._registers = np.zeros((0, self._size), np.uint8)
        self._hash = _hashed(aggregate.arguments[0].dtype)
        self._estimates = np.array(aggregate.params.get("estimates", ()), np.float64)
        self._biases = [float(each) for each in aggregate.params.get("biases", ())]

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("registers", pa.binary()),)

    @property
    def kind(self) -> str:
        return f"{self._size} registers"

    @property
    def width(self) -> int:
        return self._size

    def grow(self, room: int) -> None:
        self._registers = grown(self._registers, room)

    def clear(self, slots: Slots) -> None:
        self._registers[slots] = 0

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        slots, (values,) = rows_with_values(slots, columns[:1])
        if not len(slots):
            return
        hashes = self._hash(values).view(np.uint64)
        registers = (hashes >> np.uint64(64 - self._bits)).astype(np.int64)
        rest = (hashes << np.uint64(self._bits)) | np.uint64(1 << (self._bits - 1))
        np.maximum.at(self._registers, (slots, registers), _leading_zeros(rest) + 1)

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        values = [np.frombuffer(each.as_buffer(), np.uint8) for each in states[0]]
        if values:
            np.maximum.at(self._registers, slots, np.stack(values))

    def states(self, slots: Slots) -> list[pa.Array]:
        octets = np.ascontiguousarray(self._registers[slots])
        offsets = np.arange(len(slots) + 1, dtype=np.int64) * self._size
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(octets)]
        return [pa.Array.from_buffers(pa.large_binary(), len(slots), buffers).cast(pa.binary())]

    def results(self, slots: Slots) -> pa.Array:
        counts = [self._estimate(registers) for registers in self._registers[slots]]
        return fixed_array(pa.int64(), np.array(counts, np.int64))

    def _estimate(self, registers: Values) -> int:
        size = float(self._size)
        # One after the other, as Spark adds them up.
        total = float(np.cumsum(np.ldexp(1.0, -registers.astype(np.int32)))[-1])
        alpha = _ALPHAS.get(self._bits, 0.7213 / (1.0 + 1.079 / size))
        raw = alpha * size * size / total
        zeros = int(np.count_nonzero(registers == 0))
        is_corrected = self._bits < _CORRECTED_BELOW
        if zeros:
            counted = size * math.log(size / zeros)
            threshold = self.aggregate.params["threshold"] if is_corrected else -1.0
            if (is_corrected and counted <= threshold) or raw <= 2.5 * size:
                return _rounded(counted)
        if is_corrected and raw < 5.0 * size:
            raw -= self._bias(raw)
        return _rounded(raw)

    def _bias(self, raw: float) -> float:
        """The mean of those of the nearest raw estimates."""
        known = self._estimates
        low = max(int(np.searchsorted(known, raw)) - _NEIGHBOURS + 1, 0)
        high = min(low + _NEIGHBOURS, len(known))
        while high < len(known) and (raw - known[high]) ** 2 < (raw - known[low]) ** 2:
            low, high = low + 1, high + 1
        return sum(self._biases[low:high]) / (high - low)


def _rounded(value: float) -> int:
    """As Java's ``Math.round``."""
    return math.floor(value + 0.5)


def _leading_zeros(words: Values) -> Values:
    """Of words of 64 bits, none of which is 0."""
    result = np.zeros(len(words), np.uint8)
    for shift in (32, 16, 8, 4, 2, 1):
        is_small = words < np.uint64(1 << (64 - shift))
        result[is_small] += np.uint8(shift)
        words = np.where(is_small, words << np.uint64(shift), words)
    return result


def _hashed(dtype: pa.DataType) -> Callable[[pa.Array], Values]:
    argument = Expr("Column", (), dtype, True, {"ordinal": 0, "name": "value"})
    evaluate = compile_expression(Expr("XxHash64", (argument,), pa.int64(), False, {"seed": _SEED}))
    return lambda values: to_numpy(evaluate(Rows(len(values), lambda _: values)))[0]

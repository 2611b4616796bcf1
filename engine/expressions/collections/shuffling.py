"""``shuffle``: the items of an array in random order.

It is Spark's own order: what is said of seeds holds here, see
:mod:`engine.expressions.numbers.random_values`. Where no seed was written Spark has drawn one when
the query was analyzed, and does not tell.

Source: ``Shuffle``, ``RandomIndicesGenerator`` of Spark; ``MersenneTwister`` and
``BitsStreamGenerator`` of Commons Math 3.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from engine.expressions.datum import to_array
from engine.expressions.lists import Lists
from engine.expressions.registry import Context, Datum, Evaluator, always, lazy
from engine.expressions.tree import Expr

_MASK_32: Final = 0xFFFFFFFF
_PYTHONS_VERSION: Final = 3
_BITS: Final = 31


class MersenneTwister:
    """Random numbers from a seed.

    :param seed: of any size; its lowest 64 bits count.
    """

    def __init__(self, seed: int) -> None:
        words = np.array([seed >> 32 & _MASK_32, seed & _MASK_32], np.uint32)
        # NumPy begins with an array of words, as Commons Math does; Python is faster from then on.
        state = np.random.RandomState(words).get_state(legacy=False)["state"]
        self._random = random.Random()  # noqa: S311
        internal = (*map(int, state["key"]), int(state["pos"]))
        self._random.setstate((_PYTHONS_VERSION, internal, None))

    def below(self, limit: int) -> int:
        """A whole number from 0 on."""
        if limit & -limit == limit:
            return limit * self._random.getrandbits(_BITS) >> _BITS
        while True:
            bits = self._random.getrandbits(_BITS)
            value = bits % limit
            if bits - value + limit <= 1 << _BITS:
                return value

    def order(self, length: int) -> list[int]:
        """The numbers below ``length``, by the algorithm of Fisher and Yates, from the inside."""
        found = [0] * length
        for index in range(length):
            other = self.below(index + 1)
            found[index] = found[other]
            found[other] = index
        return found


# It never fails; but each row that reaches it takes values away.
@lazy("Shuffle", can_fail=always, loop=True, reads=("random_seed",))
def shuffle(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """An order of its own for each row."""
    (child,) = children
    generator = MersenneTwister((expr.params["random_seed"] or 0) + context.partition)

    def evaluate(batch: pa.RecordBatch) -> Datum:
        lists = Lists.of(to_array(child(batch), batch.num_rows, expr.children[0].dtype))
        orders = [
            np.asarray(generator.order(length), np.int64) + start
            for length, start in zip(lists.lengths.tolist(), lists.starts.tolist(), strict=True)
        ]
        order = np.concatenate(orders) if orders else np.empty(0, np.int64)
        return lists.taken(order).array(expr.dtype)

    return evaluate

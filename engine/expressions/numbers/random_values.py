"""``rand``, ``randn``, ``uuid``: other values whenever they are computed, also when an epoch is run
again.

A seed is refused: it fixes the sequence of a partition of a Spark batch, which a continuous query
does not have. (That of ``uuid`` Spark itself replaces for each batch of a stream.)
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.tree import Expr

_DIGITS: Final = 32
_GROUPS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
# RFC 9562, section 5.4: four bits say version 4, two bits the variant.
_VERSION: Final = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT: Final = bytes(byte & 0x3F | 0x80 for byte in range(256))


def _without_seed(expr: Expr) -> str | None:
    return None if expr.params.get("hide_seed") else "a seed is not supported: leave it out"


@lazy("Rand", supports=_without_seed, reads=("hide_seed",))
def rand(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Uniform in [0, 1)."""
    return lambda batch: pc.random(batch.num_rows)


@lazy("Randn", supports=_without_seed, reads=("hide_seed",))
def randn(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Of the standard normal distribution (the method of Box and Muller)."""

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        uniform = pc.subtract(1.0, pc.random(batch.num_rows))  # in (0, 1]: it has a logarithm
        radius = pc.sqrt(pc.multiply(-2.0, pc.ln(uniform)))
        return pc.multiply(radius, pc.cos(pc.multiply(2 * math.pi, pc.random(batch.num_rows))))

    return evaluate


@lazy("Uuid")
def uuid(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """The text of a random UUID."""
    return lambda batch: _uuids(batch.num_rows)


def _uuids(count: int) -> pa.Array:
    raw = bytearray(os.urandom(16 * count))
    raw[6::16] = raw[6::16].translate(_VERSION)
    raw[8::16] = raw[8::16].translate(_VARIANT)
    offsets = pa.array(range(0, _DIGITS * (count + 1), _DIGITS), pa.int32()).buffers()[1]
    digits = pa.StringArray.from_buffers(count, offsets, pa.py_buffer(raw.hex().encode()))
    groups = (pc.utf8_slice_codeunits(digits, first, last) for first, last in _GROUPS)
    return pc.binary_join_element_wise(*groups, "-")

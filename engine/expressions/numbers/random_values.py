"""``rand``, ``randn``, ``randstr``, ``uuid``: other values whenever they are computed, also when
an epoch is run again.

With a seed, ``rand``, ``randn`` and ``randstr`` have the values of Spark's own generator: a task
that starts with the partition ``p`` begins with those that a Spark batch has in its partition
``p``, and goes on with them from batch to batch and from epoch to epoch, a value for each row that
needs one. A task that is started again begins at the seed again, whatever records it has by then;
and rows that are computed again, because one among them has failed, get the next values. So the
values of an epoch that is run again are others: a seed does not compute them a second time.

Spark itself replaces every seed of a stream when a query, or a micro-batch, starts. It is done here
where no seed was written; of ``uuid`` Spark does not tell whether one was, so its seed says
nothing, and ``uniform`` passes on the seed that Spark has drawn for it.

Source: ``randomExpressions.scala``, ``IncrementalExecution.scala`` of Spark.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.datum import constant_value
from engine.expressions.numbers.xorshift import XorShiftRandom
from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.tree import Expr

_DIGITS: Final = 32
_GROUPS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
# RFC 9562, section 5.4: four bits say version 4, two bits the variant.
_VERSION: Final = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT: Final = bytes(byte & 0x3F | 0x80 for byte in range(256))


_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _has_seed(expr: Expr) -> bool:
    """As ``can_fail`` has it: such a node is to be evaluated for just the rows that reach it, in
    their order, for each takes a value away."""
    return not expr.params.get("hide_seed")


def _generator(seed: Expr, context: Context) -> XorShiftRandom:
    return XorShiftRandom((constant_value(seed) or 0) + context.partition)


def _constant_seed(expr: Expr) -> str | None:
    return None if expr.children[-1].op == "Literal" else "its seed has to be a constant"


@lazy("Rand", can_fail=_has_seed, supports=_constant_seed, reads=("hide_seed",))
def rand(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Uniform in [0, 1)."""
    if not _has_seed(expr):
        return lambda batch: pc.random(batch.num_rows)
    generator = _generator(expr.children[0], context)
    return lambda batch: pa.array(generator.doubles(batch.num_rows))


@lazy("Randn", can_fail=_has_seed, supports=_constant_seed, reads=("hide_seed",))
def randn(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Of the standard normal distribution; without a seed by the method of Box and Muller."""
    if _has_seed(expr):
        generator = _generator(expr.children[0], context)
        return lambda batch: pa.array(generator.normals(batch.num_rows))

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        uniform = pc.subtract(1.0, pc.random(batch.num_rows))  # in (0, 1]: it has a logarithm
        radius = pc.sqrt(pc.multiply(-2.0, pc.ln(uniform)))
        return pc.multiply(radius, pc.cos(pc.multiply(2 * math.pi, pc.random(batch.num_rows))))

    return evaluate


def _constant_length(expr: Expr) -> str | None:
    if constant_value(expr.children[0]) is None:
        return "its length has to be a constant"
    return _constant_seed(expr)


@lazy("RandStr", can_fail=_has_seed, supports=_constant_length, reads=("hide_seed",))
def randstr(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """A text of so many digits and letters."""
    length = constant_value(expr.children[0])
    generator = XorShiftRandom(secrets.randbits(64))
    if _has_seed(expr):
        generator = _generator(expr.children[1], context)
    letters = np.frombuffer(_LETTERS.encode(), np.uint8)

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        drawn = generator.ints(length * batch.num_rows).astype(np.int64)
        octets = letters[np.abs(np.fmod(drawn, len(letters)))]
        offsets = np.arange(batch.num_rows + 1, dtype=np.int32) * np.int32(length)
        return pa.StringArray.from_buffers(
            batch.num_rows, pa.py_buffer(offsets), pa.py_buffer(octets)
        )

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

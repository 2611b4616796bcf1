"""What every cast needs to know, and how it deals with values that cannot be cast.

========= =================================
eval_mode a value that cannot be cast
========= =================================
ANSI      raises
TRY       becomes null
LEGACY    becomes null, or (numbers) wraps
========= =================================

Conversions between two kinds of types register with :func:`conversion`; they only see Arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions import ansi
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.times.zones import Zone, zone
from engine.expressions.tree import Expr
from engine.expressions.types import has_variant, is_integral, is_variant
from engine.expressions.vectors import to_list

Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Casting:
    """One cast of a query.

    :param mode: ``ANSI``, ``TRY`` or ``LEGACY``.
    :param zone_name: where dates and times without a zone are.
    :param held_as_long: of a decimal, see :mod:`.held_decimals`; None where only the type is known.
    :param reads_any_zero: see :func:`reads_any_zero`.
    """

    source: pa.DataType
    target: pa.DataType
    mode: str
    zone_name: str
    held_as_long: bool | None = None
    reads_any_zero: bool = True

    @property
    def ansi(self) -> bool:
        """Errors are raised."""
        return self.mode == "ANSI"

    @property
    def exact(self) -> bool:
        """ANSI's rules hold: TRY differs from ANSI only in what an error becomes."""
        return self.mode != "LEGACY"

    @property
    def zone(self) -> Zone:
        """The time zone of the cast."""
        return zone(self.zone_name)

    def overflow(self, value: Any) -> TransformError:
        """``value`` is too large for the target."""
        return ansi.cast_overflow(value, self.source, self.target)

    def malformed(self, value: Any) -> TransformError:
        """``value`` does not denote a value of the target type."""
        return ansi.cast_invalid_input(value, self.source, self.target)

    def per_value(self, function: Callable[[Any], Any]) -> Convert:
        """Cast value by value. ``function`` returns None for what is malformed."""

        def convert(array: pa.Array) -> pa.Array:
            results = []
            for value in to_list(array):
                result = None if value is None else function(value)
                if result is None and value is not None and self.ansi:
                    raise self.malformed(value)
                results.append(result)
            return pa.array(results, self.target)

        return convert

    def without(self, result: pa.Array, bad: npt.NDArray[np.bool_], source: pa.Array) -> pa.Array:
        """``result``, with null for the bad values; nulls of ``source`` are not bad.

        :raises TransformError: there are any, in ANSI mode.
        """
        if not bad.any():
            return result
        bad = bad & source.is_valid().to_numpy(zero_copy_only=False)
        if self.ansi and bad.any():
            raise self.overflow(to_list(source)[int(np.argmax(bad))])
        keep = result.is_valid().to_numpy(zero_copy_only=False) & ~bad
        values = result.fill_null(0).to_numpy(zero_copy_only=False)
        return pa.array(values, result.type, mask=~keep)


def reads_any_zero(expr: Expr) -> bool:
    """Whether ``0e50`` is a DECIMAL; before it was one of too many digits. What is no expression of
    the query's is of no release, and reads it."""
    return SPARK_VERSION not in expr.params or is_since(expr, "4.1.4", "4.2.1", "4.3.0")


CONVERSIONS: dict[tuple[str, str], Callable[[Casting], Convert]] = {}


def conversion(
    *pairs: tuple[str, str],
) -> Callable[[Callable[[Casting], Convert]], Callable[[Casting], Convert]]:
    """Register how to cast from one kind of type (see :func:`kind`) to another."""

    def register(make: Callable[[Casting], Convert]) -> Callable[[Casting], Convert]:
        for pair in pairs:
            if pair in CONVERSIONS:
                raise ValueError(f"two conversions for {pair}")
            CONVERSIONS[pair] = make
        return make

    return register


def converter(casting: Casting) -> Convert:
    """What carries a cast out.

    :raises KeyError: there is none; ask :func:`castable` first.
    """
    if pa.types.is_null(casting.source):
        return lambda array: pa.nulls(len(array), casting.target)
    return CONVERSIONS[kind(casting.source), kind(casting.target)](casting)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether there is a conversion, for what is inside of nested types, too."""
    if pa.types.is_null(source):
        return True
    if (kind(source), kind(target)) not in CONVERSIONS:
        return False
    if kind(target) == "string" and has_variant(source) and not is_variant(source):
        return False  # there, Spark writes JSON, in UTC
    return all(castable(*pair) for pair in parts(source, target))


def any_part(
    source: pa.DataType, target: pa.DataType, test: Callable[[pa.DataType, pa.DataType], bool]
) -> bool:
    """Whether ``test(source, target)`` is true for the types or what is inside of them."""
    inner = parts(source, target)
    return any(any_part(*part, test) for part in inner) if inner else test(source, target)


def parts(source: pa.DataType, target: pa.DataType) -> list[tuple[pa.DataType, pa.DataType]]:
    """The casts that a cast of nested values consists of."""
    if kind(target) == "string":
        return [(inner, target) for inner in _inner_types(source)]
    return list(zip(_inner_types(source), _inner_types(target), strict=False))


def _inner_types(dtype: pa.DataType) -> list[pa.DataType]:
    if is_variant(dtype):
        return []
    if pa.types.is_struct(dtype):
        return [field.type for field in dtype]
    if pa.types.is_map(dtype):
        return [dtype.key_type, dtype.item_type]
    return [dtype.value_type] if pa.types.is_list(dtype) else []


def kind(dtype: pa.DataType) -> str:
    """The word for the types that are cast alike."""
    if is_variant(dtype):
        return "variant"
    if pa.types.is_struct(dtype):
        return "struct"
    if pa.types.is_map(dtype):
        return "map"
    if pa.types.is_list(dtype):
        return "array"
    if is_integral(dtype):
        return "integral"
    if pa.types.is_floating(dtype):
        return "floating"
    if pa.types.is_decimal(dtype):
        return "decimal"
    if pa.types.is_timestamp(dtype):
        return "timestamp_ntz" if dtype.tz is None else "timestamp"
    if pa.types.is_date32(dtype):
        return "date"
    return {pa.bool_(): "boolean", pa.string(): "string", pa.binary(): "binary"}.get(
        dtype, str(dtype)
    )

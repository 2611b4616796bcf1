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
from engine.expressions.types import is_integral
from engine.expressions.vectors import to_list
from engine.expressions.zones import Zone, zone

Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Casting:
    """One cast of a query.

    :param mode: ``ANSI``, ``TRY`` or ``LEGACY``.
    :param zone_name: where dates and times without a zone are.
    """

    source: pa.DataType
    target: pa.DataType
    mode: str
    zone_name: str

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


def kind(dtype: pa.DataType) -> str:
    """The word for the types that are cast alike."""
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

"""The errors that Spark raises for a value in ANSI mode, as :class:`TransformError`.

Every message starts with Spark's error class in brackets, as Spark's own do.

Source: ``error-conditions.json`` and ``QueryExecutionErrors`` of Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.types import sql_name


def failure(error_class: str, message: str, hint: str | None = None) -> TransformError:
    """An error of Spark's class ``error_class``, to be raised."""
    return TransformError(f"[{error_class}] {message}", hint=hint)


def divide_by_zero() -> TransformError:
    """``a / 0``."""
    return failure("DIVIDE_BY_ZERO", "Division by zero.", "Use try_divide to get NULL instead.")


def remainder_by_zero() -> TransformError:
    """``a % 0``."""
    return failure("REMAINDER_BY_ZERO", "Remainder by zero.", "Use try_mod to get NULL instead.")


def arithmetic_overflow(dtype: pa.DataType, try_function: str | None = None) -> TransformError:
    """The exact result does not fit into ``dtype``."""
    hint = f"Use {try_function} to get NULL instead." if try_function else None
    return failure("ARITHMETIC_OVERFLOW", f"The result does not fit {sql_name(dtype)}.", hint)


def binary_arithmetic_overflow(symbol: str, dtype: pa.DataType) -> TransformError:
    """As :func:`arithmetic_overflow`, for TINYINT and SMALLINT, which have a class of their own."""
    return failure(
        "BINARY_ARITHMETIC_OVERFLOW", f"A {symbol} of two values does not fit {sql_name(dtype)}."
    )


def cast_invalid_input(value: Any, source: pa.DataType, target: pa.DataType) -> TransformError:
    """A text that does not denote a value of the target type."""
    return failure(
        "CAST_INVALID_INPUT",
        f"The value {value!r} of the type {sql_name(source)} cannot be cast to "
        f"{sql_name(target)} because it is malformed.",
        "Correct the value, or use try_cast to get NULL instead.",
    )


def cast_overflow(value: Any, source: pa.DataType, target: pa.DataType) -> TransformError:
    """A number too large for the target type."""
    return failure(
        "CAST_OVERFLOW",
        f"The value {value!r} of the type {sql_name(source)} cannot be cast to "
        f"{sql_name(target)} due to an overflow.",
        "Use try_cast to get NULL instead.",
    )


def numeric_value_out_of_range(value: Any, precision: int, scale: int) -> TransformError:
    """A number that has too many digits for ``DECIMAL(precision, scale)``."""
    return failure(
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        f"{value} cannot be represented as DECIMAL({precision},{scale}).",
        "Use try_cast or a wider decimal.",
    )

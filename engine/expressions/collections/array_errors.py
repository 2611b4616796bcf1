"""The errors that Spark raises for arrays and maps, as :class:`TransformError`.

Source: ``error-conditions.json`` and ``QueryExecutionErrors`` of Spark.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.java_errors import illegal_argument, java_error, null_pointer
from engine.expressions.malformed import value_of

LENGTH_MAX: Final = 2**31 - 1 - 15
"""The longest array that Spark makes."""


def invalid_index(index: Any, length: Any) -> TransformError:
    """``a[index]`` beyond the end, or below 0."""
    return failure(
        "INVALID_ARRAY_INDEX",
        f"The index {index} is out of bounds: the array has {length} elements.",
        "Use get() to get NULL instead.",
    )


def invalid_index_in_element_at(index: Any, length: Any) -> TransformError:
    """``element_at(a, index)`` beyond either end."""
    return failure(
        "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
        f"The index {index} is out of bounds: the array has {length} elements.",
        "Use try_element_at to get NULL instead.",
    )


def beyond_memory(index: Any, length: Any) -> TransformError:
    """``element_at`` of the least INT, which Spark before 4.3 does not find out of bounds. Of an
    array in a column it then reads memory that is none of it."""
    return java_error(
        "java.lang.ArrayIndexOutOfBoundsException",
        f"Index {index + length} out of bounds for length {length}",
        "Filter out such positions first: try_element_at does not help here.",
    )


def index_of_zero() -> TransformError:
    """Positions are counted from 1, or from -1 at the end."""
    return failure(
        "INVALID_INDEX_OF_ZERO",
        "The index 0 is invalid: it must be less or greater than 0, 1 is the first element.",
    )


def too_long(function: str, length: Any) -> TransformError:
    """An array longer than Spark makes them."""
    return failure(
        "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER",
        f"{function} would make an array of {length} elements, more than {LENGTH_MAX}.",
    )


def null_key() -> TransformError:
    """A key of a map is NULL."""
    return failure("NULL_MAP_KEY", "Cannot use null as map key.", "Filter out such keys first.")


def duplicated_key(key: pa.Scalar) -> TransformError:
    """A map would have a key twice."""
    return failure(
        "DUPLICATED_MAP_KEY",
        f"The map key {value_of(key)!r} was found twice.",
        "Set spark.sql.mapKeyDedupPolicy to LAST_WIN to keep the last value.",
    )


def different_lengths() -> TransformError:
    """``map_from_arrays`` of more keys than values, or fewer."""
    return failure(
        "_LEGACY_ERROR_TEMP_2128",
        "The key array and value array of a map must have the same length.",
    )


def illegal_boundaries(
    start: Any, stop: Any, step: Any, *, interpreted: bool = False
) -> TransformError:
    """``sequence`` whose step leads away from the stop.

    :param interpreted: Spark does not compile it.
    """
    text = f"Illegal sequence boundaries: {start} to {stop} by {step}"
    if interpreted:
        return illegal_argument(f"requirement failed: {text}")
    return failure("_LEGACY_ERROR_TEMP_3243", text)


def step_below_a_day() -> TransformError:
    """``sequence`` of dates by hours."""
    return failure(
        "_LEGACY_ERROR_TEMP_3242", "A sequence of dates needs a step of whole days or longer."
    )


def comparator_returns_null(left_is_null: bool) -> TransformError:
    """``array_sort`` cannot go on. Spark names the left item twice, and stumbles if it is NULL."""
    if left_is_null:
        return null_pointer('Cannot invoke "Object.toString()" because "o1" is null')
    return failure(
        "COMPARATOR_RETURNS_NULL",
        "The comparator has returned NULL.",
        "It should return a positive integer for greater, 0 for equal, a negative one for less.",
    )


def difference_too_large() -> TransformError:
    """``sequence`` from one end of BIGINT to the other: some releases of Spark cannot make even
    a short one."""
    return failure(
        "INTERNAL_ERROR",
        "The start and the stop of a sequence differ by more than BIGINT can hold.",
    )

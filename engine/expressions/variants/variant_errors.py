"""The errors of VARIANT.

Source: ``VariantUtil`` and ``QueryExecutionErrors`` of Spark.
"""

from __future__ import annotations

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.java_errors import java_error


def malformed() -> TransformError:
    """Bytes that are no VARIANT."""
    return failure(
        "MALFORMED_VARIANT",
        "The bytes of a VARIANT are not what its format says.",
        "Look at what has written it; is_valid_variant tells which ones are well-formed.",
    )


def out_of_bounds(index: int, length: int) -> TransformError:
    """Java's own error, where Spark does not look whether there are bytes."""
    message = f"Index {index} out of bounds for length {length}"
    return java_error("java.lang.ArrayIndexOutOfBoundsException", message)


def unknown_primitive(number: int) -> TransformError:
    """A value of a type that Spark does not have."""
    return failure(
        "UNKNOWN_PRIMITIVE_TYPE_IN_VARIANT",
        f"A VARIANT has a value of the type {number}, which is not known.",
    )


def too_large(size_max: int, function: str) -> TransformError:
    """What has been built would have more bytes than a VARIANT may have."""
    return failure(
        "VARIANT_SIZE_LIMIT", f"The result of {function} would be larger than {size_max} bytes."
    )


def constructed_too_large() -> TransformError:
    """What came from elsewhere has more bytes than a VARIANT may have."""
    return failure("VARIANT_CONSTRUCTOR_SIZE_LIMIT", "A VARIANT is larger than Spark allows.")


def duplicate_key(key: str) -> TransformError:
    """An object with a name twice."""
    return failure(
        "VARIANT_DUPLICATE_KEY",
        f"The name {key!r} occurs twice in an object.",
        "Remove one, or set spark.sql.variant.allowDuplicateKeys to keep the last one.",
    )


def invalid_cast(json: str, type_name: str) -> TransformError:
    """A value that has no counterpart in a type."""
    return failure(
        "INVALID_VARIANT_CAST",
        f"The VARIANT {json} cannot be cast to {type_name}.",
        "Use try_variant_get to get NULL instead.",
    )


def invalid_path(path: str, function: str) -> TransformError:
    """What is no path."""
    return failure(
        "INVALID_VARIANT_GET_PATH",
        f"{path!r} is no path for {function}.",
        "Begin with $, and go on with [123], .name, ['name'] or [\"name\"].",
    )


def is_sparks(error: TransformError) -> bool:
    """Whether it is an error of Spark's own, and not of Java's."""
    return not error.message.startswith("[java.")

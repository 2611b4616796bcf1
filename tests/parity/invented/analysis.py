"""Which of many expressions Spark's analyzer takes, in one pass.

What it cannot resolve stays as it is in its plan, beside all that it can. Only where the parser or
a rule fails at once (in Spark 4.1 also on a constant that raises), the expressions are looked at by
halves.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, _parse_datatype_json_string

from tests.spark.analyzed import Analyzed

_AT_ONCE = 30
"""The analyzer looks so many through once more, by halves, if a rule fails on one of them."""


def resolved(analyzed: Analyzed, texts: Sequence[str]) -> list[int | str]:
    """For each SQL expression its number, or the error class of what is wrong."""
    numbers, errors = analyzed.parse(texts)
    parsed = [number for number, error in zip(numbers, errors, strict=True) if error is None]
    wrong = {number: error for number, error in zip(numbers, errors, strict=True) if error}
    for start in range(0, len(parsed), _AT_ONCE):
        wrong |= _unresolved(analyzed, parsed[start : start + _AT_ONCE])
    return [wrong.get(number, number) for number in numbers]


def _unresolved(analyzed: Analyzed, numbers: Sequence[int]) -> dict[int, str]:
    """The error classes of those that the analyzer does not resolve."""
    try:
        found = analyzed.resolve(numbers)
    except (PySparkException, Py4JJavaError) as error:  # it evaluates some constants
        if len(numbers) == 1:
            condition = None if isinstance(error, Py4JJavaError) else error.getCondition()
            return {numbers[0]: condition or type(error).__name__}
        half = len(numbers) // 2
        return _unresolved(analyzed, numbers[:half]) | _unresolved(analyzed, numbers[half:])
    return {n: "UNRESOLVED" for n, ok in zip(numbers, found, strict=True) if not ok}


def checked(analyzed: Analyzed, numbers: Sequence[int]) -> list[int]:
    """Those of resolved expressions that pass what the analyzer looks at then."""
    if not numbers:
        return []
    try:
        analyzed.check(numbers)
    except (PySparkException, Py4JJavaError):
        half = len(numbers) // 2
        parts = (numbers[:half], numbers[half:]) if half else ()
        return [number for part in parts for number in checked(analyzed, part)]
    return list(numbers)


def type_of(expression: JavaObject) -> DataType:
    """The type of its result."""
    return _parse_datatype_json_string(expression.dataType().json())

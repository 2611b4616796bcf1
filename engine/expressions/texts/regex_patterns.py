"""The patterns of functions: constants, which are looked at before the query starts, and columns.

A column's patterns are compiled as they come, each one once. What Java refuses raises what Spark
raises; what is not known to mean the same here raises an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.datum import constant
from engine.expressions.java_errors import java_error
from engine.expressions.malformed import value_of
from engine.expressions.texts.java_regex.errors import InvalidRegexError, UnsupportedRegexError
from engine.expressions.texts.java_regex.pattern import JavaRegex, compile_java_regex
from engine.expressions.tree import Expr

JAVA_VERSION: Final = "java.specification.version"
"""What kernels read to know which Java they have to equal."""
_OLDEST: Final = "17"
_COMPILED_MAX: Final = 512

compiled: Final = lru_cache(_COMPILED_MAX)(compile_java_regex)
Compile = Callable[[str], JavaRegex]


def java_of(expr: Expr) -> int:
    """The version of Spark's Java."""
    return int(expr.params.get(JAVA_VERSION) or _OLDEST)


def constant_regex(expr: Expr, child: int = 1) -> JavaRegex | None:
    """The pattern, if it is a constant that is not NULL.

    :raises UnsupportedRegexError: it cannot be translated.
    """
    literal = constant(expr.children[child])
    if literal is None or not literal.is_valid:
        return None
    return compiled(value_of(literal), java_of(expr))


def why_no_pattern(expr: Expr) -> str | None:
    """Why the second argument cannot be a pattern; None if it can."""
    try:
        constant_regex(expr)
    except UnsupportedRegexError as error:
        return str(error)
    return None


def has_column(expr: Expr) -> bool:
    """Whether any argument but the first is no constant, so that its values may raise."""
    return any(constant(child) is None for child in expr.children[1:])


def for_spark_function(name: str, expr: Expr) -> Compile:
    """Compiles as RLIKE and functions named ``regexp_..`` do."""
    java = java_of(expr)

    def invalid(error: InvalidRegexError) -> TransformError:
        return failure(
            "INVALID_PARAMETER_VALUE.PATTERN",
            f"The value of parameter(s) `regexp` in `{name}` is invalid: {error.pattern!r}: "
            f"{error.reason}.",
        )

    return lambda pattern: _compile(pattern, java, invalid)


def for_java_method(expr: Expr) -> Compile:
    """Compiles as ``split`` does, which leaves the error to Java."""
    java = java_of(expr)

    def invalid(error: InvalidRegexError) -> TransformError:
        return java_error("java.util.regex.PatternSyntaxException", str(error))

    return lambda pattern: _compile(pattern, java, invalid)


def _compile(
    pattern: str, java: int, invalid: Callable[[InvalidRegexError], TransformError]
) -> JavaRegex:
    try:
        return compiled(pattern, java)
    except InvalidRegexError as error:
        raise invalid(error) from None
    except UnsupportedRegexError as error:
        raise TransformError(str(error), hint="Write the pattern in another way.") from None

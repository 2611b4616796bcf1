"""Errors that Spark does not translate: Java's own, as its tasks report them."""

from __future__ import annotations

from typing import Any

from engine.errors import TransformError


def java_error(name: str, message: str = "", hint: str | None = None) -> TransformError:
    """An exception of this class."""
    return TransformError(f"[{name}: {message}]" if message else f"[{name}]", hint=hint)


def arithmetic_exception(message: str) -> TransformError:
    """``java.lang.ArithmeticException``."""
    return java_error("java.lang.ArithmeticException", message)


def illegal_argument(message: str) -> TransformError:
    """``java.lang.IllegalArgumentException``."""
    return java_error("java.lang.IllegalArgumentException", message)


def long_overflow(*_: Any) -> TransformError:
    """A number beyond 64 bits."""
    return arithmetic_exception("long overflow")


def null_pointer(message: str) -> TransformError:
    """``java.lang.NullPointerException``."""
    return TransformError(f"[java.lang.NullPointerException: {message}]")

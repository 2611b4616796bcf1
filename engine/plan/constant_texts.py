"""Texts that Spark knows before any row comes: ``version()``, ``schema_of_json('...')``,
``current_user()``."""

from __future__ import annotations

from typing import Any, Final

from py4j.java_gateway import JavaObject

_OF_SESSION: Final = {"CurrentUser", "CurrentCatalog", "CurrentDatabase", "CurrentPath"}


def is_constant_text(op: str, node: JavaObject) -> bool:
    """Whether Spark knows it, of an expression whose result is a text."""
    return op in _OF_SESSION or bool(node.foldable())


def constant_text(gateway: Any, op: str, node: JavaObject) -> str | None:
    """What Spark says; None for NULL.

    :raises Py4JJavaError: it raises, likewise a PySparkException.
    """
    if op in _OF_SESSION:
        session = gateway.jvm.org.apache.spark.sql.classic.SparkSession.active()
        return str(session.sql(f"SELECT {node.prettyName()}()").head().getString(0))
    value = node.eval(None)
    return None if value is None else str(value.toString())

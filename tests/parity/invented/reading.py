"""Reads many trees from Spark: what does not change is asked once of each class.

Reading an expression asks the JVM dozens of questions for each node, most of them about its class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from engine.plan import catalyst, catalyst_expressions, common_expressions
from engine.plan.catalyst import scala_seq

_REPLACEABLE: Final = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
_classes: dict[tuple[str, str], bool] = {}


@contextmanager
def quick_reading() -> Iterator[None]:
    """Within it, the reader of expressions remembers answers about classes."""
    reader: Any = catalyst_expressions
    common: Any = common_expressions
    simple_name, is_instance_of = catalyst.simple_name, reader.is_instance_of
    computed_first = reader.computed_first

    def name_of(obj: Any) -> str:
        known = obj.__dict__.get("_name_of_class")
        if known is None:
            known = obj.__dict__["_name_of_class"] = simple_name(obj)
        return str(known)

    def is_a(gateway: Any, obj: Any, class_name: str) -> bool:
        key = (name_of(obj), class_name)
        if key not in _classes:
            _classes[key] = bool(is_instance_of(gateway, obj, class_name))
        return _classes[key]

    def common_first(gateway: Any, columns: Any, node: Any) -> list[str]:
        """Most trees have nothing that Spark could compute first."""
        return computed_first(gateway, columns, node) if has_with(gateway, node) else []

    def has_with(gateway: Any, node: Any) -> bool:
        if name_of(node) == "With" or is_a(gateway, node, _REPLACEABLE):
            return True
        return any(has_with(gateway, child) for child in scala_seq(node.children()))

    for module in (reader, common):
        module.simple_name, module.is_instance_of = name_of, is_a
    reader.computed_first = common_first
    try:
        yield
    finally:
        for module in (reader, common):
            module.simple_name, module.is_instance_of = simple_name, is_instance_of
        reader.computed_first = computed_first

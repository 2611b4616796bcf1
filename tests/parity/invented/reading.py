"""Reads many trees from Spark: what does not change is asked once of each class.

Reading an expression asks the JVM dozens of questions for each node, most of them about its class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.plan import catalyst, catalyst_expressions

_classes: dict[tuple[str, str], bool] = {}


@contextmanager
def quick_reading() -> Iterator[None]:
    """Within it, the reader of expressions remembers answers about classes."""
    reader: Any = catalyst_expressions
    simple_name, is_instance_of = catalyst.simple_name, reader.is_instance_of

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

    reader.simple_name, reader.is_instance_of = name_of, is_a
    try:
        yield
    finally:
        reader.simple_name, reader.is_instance_of = simple_name, is_instance_of

"""What the oracle compares: for each of Spark's functions and operators a few SQL expressions.

One module per family. A module has

- ``TEMPLATES``: SQL name → SQL expressions that use it, over the columns by name;
- ``COLUMNS`` (optional): columns of its own, added to those of :mod:`tests.parity.columns`;
- ``ULPS`` (optional): SQL name → by how many units in the last place results may differ;
- ``NEAR`` (optional): the same without the option ``exactMath``; no others are compared so;
- ``JARS`` (optional): packages that Spark needs for them, as of :func:`tests.parity.jars.add_jars`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.parity.columns import COLUMNS, Column


@dataclass(frozen=True)
class Family:
    """The templates of one module."""

    name: str
    templates: Mapping[str, list[str]]
    columns: Mapping[str, Column]
    ulps: Mapping[str, int]
    near: Mapping[str, int]
    jars: tuple[str, ...] = ()


def families() -> Iterator[Family]:
    """All of them, by name."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        own = getattr(module, "COLUMNS", {})
        ulps, near = getattr(module, "ULPS", {}), getattr(module, "NEAR", {})
        jars = getattr(module, "JARS", ())
        yield Family(found.name, module.TEMPLATES, {**COLUMNS, **own}, ulps, near, jars)

"""Paths into VARIANT: ``$.a['b c'].d[0]``.

Source: ``VariantPathParser`` of Spark.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from engine.expressions.variants.reading import Kind, Variant
from engine.expressions.whole_numbers import whole_number

Path = tuple[str | int, ...]
"""Names and indices."""

_STEP: Final = re.compile(
    r"""\.(?P<plain>[^.\[]+) | \['(?P<single>[^']*)'\] | \["(?P<double>[^"]*)"\]
    | \[(?P<index>[0-9]+)\]""",
    re.VERBOSE,
)
_INDEX_MAX: Final = 2**31 - 1
_PATHS_MAX: Final = 1_024


@lru_cache(_PATHS_MAX)
def parse_path(text: str) -> Path | None:
    """The steps; None if the text is no path."""
    if not text.startswith("$"):
        return None
    steps: list[str | int] = []
    position = 1
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return None
        step = match[match.lastgroup or 0]
        if match.lastgroup == "index":
            if (index := whole_number(step)) > _INDEX_MAX:
                return None
            steps.append(index)
        else:
            steps.append(step)
        position = match.end()
    return tuple(steps)


def follow(variant: Variant, path: Path) -> Variant | None:
    """What is there; None if nothing is.

    :raises TransformError: the value is malformed.
    """
    found: Variant | None = variant
    for step in path:
        assert found is not None
        kind = found.kind
        if isinstance(step, str):
            found = found.field(step) if kind is Kind.OBJECT else None
        else:
            found = found.item(step) if kind is Kind.ARRAY else None
        if found is None:
            return None
    return found

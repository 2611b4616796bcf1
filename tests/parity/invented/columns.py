"""The columns of all families in one table, and DECIMALs of unusual precision."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import pyarrow as pa

from tests.parity.columns import Column, Draw, decimals
from tests.parity.templates import families

_FAMILIES: Final = list(families())


def fitting_decimals(precision: int, scale: int) -> Draw:
    """DECIMALs of any size that fits, also where 1 does not."""
    anything = decimals(precision, scale)

    def fitting(rng: random.Random) -> Decimal | None:
        value: Decimal | None = anything(rng)
        if value is None or len(value.as_tuple().digits) <= precision:
            return value
        return Decimal((value.is_signed(), (9,) * precision, -scale))

    return fitting


_DECIMALS: Final[Mapping[str, Column]] = {
    f"dec_{p}_{s}": (pa.decimal128(p, s), fitting_decimals(p, s))
    for p, s in ((1, 0), (1, 1), (5, 5), (18, 0), (19, 19), (38, 0), (38, 38))
}


def lambda_variables(text: str) -> set[str]:
    """The names that the lambdas of an expression give to their arguments."""
    lists = re.findall(r"(?:\(([\w, ]+)\)|(\w+))\s*->", text)
    return {name for pair in lists for name in re.findall(r"\w+", " ".join(pair))}


def _all_variables() -> set[str]:
    texts = (t for family in _FAMILIES for texts in family.templates.values() for t in texts)
    return {name for text in texts for name in lambda_variables(text)}


VARIABLES: Final = frozenset(_all_variables())


def column_name(name: str) -> str:
    """What a template's column is called here: no lambda may take it for its variable."""
    return f"{name}_column" if name in VARIABLES else name


def _merged() -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for family in _FAMILIES:
        for name, column in family.columns.items():
            if columns.setdefault(name, column) is not column:
                raise ValueError(f"two families have different columns of the name {name}")
    return {**columns, **_DECIMALS}


TEMPLATE_COLUMNS: Final[Mapping[str, Column]] = _merged()
"""By their names in the templates."""
COLUMNS: Final[Mapping[str, Column]] = {
    column_name(name): column for name, column in TEMPLATE_COLUMNS.items()
}
"""By their names in the table."""


def renamed(names: Iterable[str]) -> dict[str, str]:
    """Template's name → name in the table."""
    return {name: column_name(name) for name in names}

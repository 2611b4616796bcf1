"""Numbers that the hashes of a tuple sketch have: summaries.

Source: ``DoubleSummary.java``, ``IntegerSummary.java`` of datasketches-java (``tuple``).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Final

from engine.expressions.sketches.memory import SketchError, as_int, null_pointer

MODES: Final = ("sum", "min", "max", "alwaysone")
_INT_MOST: Final = 2**31 - 1


@dataclass(frozen=True)
class Summary:
    """A number, and how it was made of several.

    :param mode: sum, min, max or alwaysone.
    """

    value: Any
    mode: str


Entries = list[tuple[int, Summary]]
NOTHING: Final = (0, Summary(None, ""))
"""An entry for which there is room, and nothing in it: it cannot be stored."""


def no_summary(method: str, place: str) -> SketchError:
    """What Java says where there is none."""
    call = f"org.apache.datasketches.tuple.Summary.{method}()"
    return null_pointer(f'Cannot invoke "{call}" because "{place}" is null')


@dataclass(frozen=True)
class Kind:
    """Summaries of a type.

    :param form: of the number, as :mod:`struct` writes it.
    :param first: by mode, what others are added to.
    """

    form: str
    first: dict[str, Any]

    @property
    def size(self) -> int:
        """Bytes of one that is stored."""
        return struct.calcsize(self.form) + 1

    def made(self, mode: str, *summaries: Summary) -> Summary:
        """A new one of these."""
        value = self.first[mode]
        for summary in summaries:
            value = self._updated(mode, value, summary.value)
        return Summary(value, mode)

    def _updated(self, mode: str, value: Any, other: Any) -> Any:
        if mode == "sum":
            total = value + other
            return total if self.form == "<d" else as_int(total)
        if mode == "min":
            return min(value, other)
        if mode == "max":
            return max(value, other)
        return self.first[mode]


DOUBLE: Final = Kind("<d", {"sum": 0.0, "min": math.inf, "max": -math.inf, "alwaysone": 1.0})
INTEGER: Final = Kind("<i", {"sum": 0, "min": _INT_MOST, "max": -_INT_MOST - 1, "alwaysone": 1})

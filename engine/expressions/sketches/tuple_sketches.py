"""Tuple sketches: theta sketches whose hashes have a number each, its *summary*.

Source: ``Sketch.java`` of datasketches-java (``tuple``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.expressions.sketches.memory import Longs
from engine.expressions.sketches.theta_sketches import MOST
from engine.expressions.sketches.tuple_summaries import Entries
from engine.expressions.sketches.tuple_tables import StoredTable


@dataclass(frozen=True)
class TupleSketch:
    """One of them.

    :param entries: hashes and summaries, in the order in which they are stored, or in that of the
        table into which they have been put.
    :param table: this, if it is one to which hashes could be added.
    """

    theta: int
    entries: Entries
    empty: bool = False
    table: StoredTable | None = None

    @property
    def estimating(self) -> bool:
        """It does not hold all hashes there were."""
        return self.theta < MOST and not self.empty

    @property
    def bound(self) -> int:
        """Theta, which of an empty sketch says nothing."""
        return MOST if self.empty else self.theta

    @property
    def hashes(self) -> Longs:
        """Of all entries."""
        return np.array([value for value, _ in self.entries], np.int64)

    def valid(self) -> Entries:
        """Without what is no hash."""
        return [entry for entry in self.entries if entry[0] > 0]

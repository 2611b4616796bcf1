"""Timers: times at which a processor wants to be called for a key."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from engine.functions.custom_state.kept import KeptRows
from engine.functions.custom_state.keys import Key
from engine.functions.custom_state.layout import Layout


class Timers(KeptRows):
    """Of all keys; a key may have several.

    Source: Spark's ``TimerStateImpl``.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout, moments=True)

    def restore(self, table: pa.Table) -> None:
        rows = self._layout.from_arrow(table)
        self._entries.load(row._replace(moment_ms=row.sub) for row in rows)

    def register(self, key: Key, at_ms: int) -> None:
        """One that is there already stays."""
        if self._entries.get(key, at_ms) is None:
            self._put(key, at_ms, (None, at_ms))

    def delete(self, key: Key, at_ms: int) -> None:
        """Without it there is nothing to do."""
        self._drop(key, at_ms)

    def of(self, key: Key) -> list[int]:
        """Its times, ascending."""
        return sorted(at_ms for at_ms, _ in self._entries.of(key))

    @property
    def next_ms(self) -> int | None:
        """The earliest; None: there is none."""
        return self._entries.next_ms()

    def due(self, until_ms: int) -> Iterator[tuple[int, Key]]:
        """Those up to a time, inclusive, the earliest first; they stay."""
        return ((at_ms, key) for at_ms, key, _ in self._entries.due(until_ms))

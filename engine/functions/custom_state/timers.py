"""Timers: times at which a processor wants to be called for a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.functions.custom_state.due import Due
from engine.functions.custom_state.kept import KeptRows
from engine.functions.custom_state.keys import Key
from engine.functions.custom_state.layout import Layout, StateRow


class Timers(KeptRows):
    """Of all keys; a key may have several.

    Source: Spark's ``TimerStateImpl``.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._times: dict[Key, dict[int, None]] = {}
        self._due: Due[Key] = Due()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def register(self, key: Key, at_ms: int) -> None:
        """One that is there already stays."""
        times = self._times.setdefault(key, {})
        if at_ms not in times:
            times[at_ms] = None
            self._count += 1
            self._due.add(at_ms, key)
            self._changed[key, at_ms] = None

    def delete(self, key: Key, at_ms: int) -> None:
        """Without it there is nothing to do."""
        times = self._times.get(key, {})
        if at_ms in times:
            del times[at_ms]
            self._count -= 1
            if not times:
                del self._times[key]
            self._due.remove(at_ms, key)
            self._changed[key, at_ms] = None

    def of(self, key: Key) -> list[int]:
        """Its times, ascending."""
        return sorted(self._times.get(key, ()))

    def due(self, until_ms: int) -> list[tuple[int, Key]]:
        """Those up to a time, inclusive, the earliest first; they stay."""
        return self._due.until(until_ms)

    def _put(self, row: StateRow) -> None:
        self._times.setdefault(row.key, {})[row.sub] = None
        self._count += 1
        self._due.add(row.sub, row.key)

    def _find(self, key: Key, sub: Any) -> StateRow | None:
        return StateRow(key, sub) if sub in self._times.get(key, {}) else None

    def _rows(self) -> Iterator[StateRow]:
        return (StateRow(key, at_ms) for key, times in self._times.items() for at_ms in times)

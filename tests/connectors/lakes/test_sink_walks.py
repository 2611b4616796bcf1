"""Tables of Delta and of Iceberg in a world at random: see :mod:`tests.sink_walks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")
pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from engine.errors import ContinuousError, SinkUnavailableError, StaleRunError
from engine.sinks.lakes import table_log
from engine.sinks.lakes.origins import origin_of, query_part
from tests.connectors.lakes.tables import Case, no_minimum
from tests.sink_walks import Epoch, SinkWalk
from tests.unit.lake_queries import QUERY, Query, rows


class LakeWalk(SinkWalk[Query]):
    """Another query writes to the table, and somebody looks after it.

    :ivar rewritten_to: behind this epoch no file was rewritten.
    :ivar told: the epochs whose commits are in the table's history, which is cut or not.
    """

    places = ("tableLog.before", "tableLog.after", "tableLog.checked")
    settled = places[1:]
    refusals = (StaleRunError, SinkUnavailableError)

    def __init__(self, seed: int, case: Case) -> None:
        super().__init__(seed)
        self.case, self.other = case, case.query(query_id="other")
        self.appended: list[int] = []
        self.rewritten_to, self.told, self.is_cut = -1, set[int](), False

    def begin(self) -> Query:
        return self.case.query(
            generation=self.generation,
            timeline=self.timeline,
            logged=self.logged,
            prepared=[(each.number, each.messages[0]) for each in self.open],
        )

    def write(self, run: Query, epoch: int, rows_of: Sequence[Sequence[int]]) -> list[Any]:
        told = [
            run.task(task).write(epoch, iter([rows(*some)] if some else []))
            for task, some in enumerate(rows_of)
        ]
        found = [each for each in told if each is not None]
        if not found:
            return [None]
        files = tuple(file for each in found for file in each.files)
        return [replace(found[0], files=files)]

    def tell(self, run: Query, epochs: Sequence[Epoch]) -> None:
        self.telling(epochs)
        run.sink.commitTogether([(each.number, each.messages) for each in epochs])

    def take_back(self, to: int) -> None:
        self.case.rewind(to, self.generation)
        self.rewritten_to = min(self.rewritten_to, to)
        self.told = {epoch for epoch in self.told if epoch <= to} | {to}

    def seen(self) -> list[int]:
        return self.case.ids()

    def expected(self) -> list[int]:
        return sorted([*self.appended, *super().expected()])

    def committed(self, epochs: Sequence[Epoch]) -> None:
        new = [each for each in epochs if each.number not in self.there and each.rows]
        self.told |= {each.number for each in new}
        super().committed(epochs)

    def must_go_back(self, to: int) -> bool:
        is_known = not self.is_cut or any(epoch <= to for epoch in self.told)
        return to >= self.rewritten_to and is_known

    def is_borne(self, error: ContinuousError) -> bool:
        """The entry of Delta's log that it has looked at is gone."""
        return isinstance(error, SinkUnavailableError) and self.case.kind == "delta"

    def check_start(self) -> None:
        """Nothing is left of earlier runs that none will commit."""
        for name in self.case.names():
            found = origin_of(name)
            if found is not None and found.query == query_part(QUERY):
                assert (
                    found.timeline != self.timeline
                    or found.generation == self.generation
                    or found.epoch <= self.newest
                ), self.story

    def others(self) -> Sequence[Callable[[], None]]:
        return self._append, self._maintain

    def _append(self) -> None:
        self.story.append("append")
        self.appended.append(-1 - len(self.appended))
        self.other.commit(len(self.appended), rows(self.appended[-1]))

    def _maintain(self) -> None:
        chance, pin = self.chance, None
        steps = {step: chance.random() < 0.6 for step in ("compact", "expire", "vacuum")}
        if not any(steps.values()):
            return
        orders: dict[str, Any] = {}
        if self.newest >= 0 and chance.random() < 0.5:
            pin = chance.randint(0, self.newest)
            orders["pinned"] = {QUERY: pin}
        if not (steps["compact"] or steps["expire"]):
            orders["rewindable_s"] = None
        if chance.random() < 0.7:
            self.case.age()
        if (steps["expire"] or steps["vacuum"]) and chance.random() < 0.5:
            orders["retain_s"] = 0.0
        self.story.append(f"maintain {steps}, pinned to {pin}")
        if steps["compact"]:
            self.rewritten_to = max(self.rewritten_to, self.newest if pin is None else pin)
        if steps["expire"]:
            self._forget(pin if self.case.kind == "iceberg" else None)
        self.case.maintain(**steps, **orders)

    def _forget(self, pin: int | None) -> None:
        """Of Iceberg's history as much stays as a rewind to a pin reads."""
        kept = max((each for each in self.told if pin is not None and each <= pin), default=None)
        if pin is None or kept is not None:
            self.is_cut = True
            self.told = set() if kept is None else {each for each in self.told if each >= kept}


@pytest.mark.parametrize(
    ("kind", "seed", "moves"),
    [("delta", 0, 25), ("delta", 1, 25), ("delta", 2, 25), ("iceberg", 0, 15)],
)
def test_a_table_has_each_epoch_once_whoever_dies_or_wakes_up(
    kind: str, seed: int, moves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_minimum(monkeypatch)
    world = LakeWalk(seed, Case(kind, tmp_path))
    monkeypatch.setattr(table_log, "reach", world.reach)
    world.walk(moves)

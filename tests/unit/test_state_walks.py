"""Random walks over all that becomes of state, stages of each kind against their models.

Epochs are run again from the last snapshot, snapshots fail in the middle, the query goes on with
other numbers of tasks, files are made into one, or are more than a piece, state is beyond its
budget, and there are retention, pins and rewinds.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from engine.checkpoint import state_retention
from engine.exchange.key_groups import KeyGroups
from engine.exchange.partitioning import groups_of_rows
from engine.expressions.registry import Context
from engine.state import arrays, columns, joined_rows, pieces, snapshots
from engine.state.arrays import Budget, within
from engine.state.contract import EventClock, StatefulStage
from engine.state.scratch import Scratch
from engine.task.deduplicating import DeduplicateStage
from engine.task.joining import JoinStage
from tests import custom_states
from tests.unit import (
    test_deduplicating,
    test_grouping_stage,
    test_joining,
    test_session_stage,
    test_state_model,
)
from tests.unit.rewinding import Crash
from tests.unit.stateful_stages import GROUPS
from tests.unit.walked_tasks import WalkedTasks

EPOCHS = 24


class Walked(ABC):
    """A kind of stage, and its model.

    :ivar model: what it has come to; copied when an epoch is committed.
    :ivar watermark: in units of ``unit_ms``, of the present epoch.
    """

    unit_ms = 1
    moves: Sequence[int] = (0, 0, 1, 500, 1_500, 2_500)
    keys: Sequence[int] = (0,)
    model: Any
    watermark = 0

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Choose which of its kind it is."""

    @abstractmethod
    def make(self, clock: EventClock) -> StatefulStage:
        """The stage of a task."""

    @abstractmethod
    def drawn(self) -> list[pa.RecordBatch]:
        """Batches of an epoch."""

    @abstractmethod
    def expected(self, watermark: int) -> list[Any]:
        """What should come of them.

        :param watermark: of the next epoch.
        """

    @abstractmethod
    def found(self, results: list[pa.RecordBatch]) -> list[Any]:
        """What has come of them, likewise."""

    def opened_ms(self) -> int:
        """When the epoch has begun."""
        return 0

    def some(self, sizes: Sequence[int]) -> range:
        return range(self.chance.choice(sizes))


class Groups(Walked):
    unit_ms, moves, keys = 1_000, (0, 0, 1, 10, 10, 20), (0, 1)

    def begin(self) -> None:
        mode = self.chance.choice(["append", "update", "complete"])
        self.make = test_grouping_stage.make(mode)  # type: ignore[method-assign]
        self.model = test_grouping_stage.Model(mode)

    def make(self, clock: EventClock) -> StatefulStage:
        raise AssertionError

    def drawn(self) -> list[pa.RecordBatch]:
        choice, window = self.chance.choice, self.watermark // 10
        self.rows = [
            [
                (
                    choice([None, *range(window - 1, window + 3)]),
                    choice([None, "", "\0", *"abcdefgh"]),
                    choice([None, *range(-5, 6)]),
                )
                for _ in self.some((0, 1, 3, 12))
            ]
            for _ in self.some(range(4))
        ]
        return [*map(test_grouping_stage.batch_of, self.rows)]

    def expected(self, watermark: int) -> list[Any]:
        return list(self.model.epoch(self.rows, watermark))

    def found(self, results: list[pa.RecordBatch]) -> list[Any]:
        return [test_grouping_stage.seconds(row) for each in results for row in each.to_pylist()]


class Sessions(Groups):
    moves, keys = (0, 0, 1, 5, 10, 20), (0,)

    def begin(self) -> None:
        told = self.chance.choice([("append", True), ("complete", True), ("complete", False)])
        self.make = test_session_stage.make(*told)  # type: ignore[method-assign]
        self.model = test_session_stage.Model(*told)

    def drawn(self) -> list[pa.RecordBatch]:
        choice = self.chance.choice
        self.rows = [
            [
                (
                    choice([None, *"abcdef"]),
                    self.watermark + choice(range(-10, 40)),
                    choice([1, 3, 3, 10]),
                    choice([None, *range(-5, 6)]),
                )
                for _ in self.some((0, 1, 3, 8))
            ]
            for _ in self.some(range(4))
        ]
        return [*map(test_session_stage.batch_of, self.rows)]

    def found(self, results: list[pa.RecordBatch]) -> list[Any]:
        return [test_session_stage.plain(row) for each in results for row in each.to_pylist()]


class FirstRows(Walked):
    def begin(self) -> None:
        self.step = self.chance.choice([*test_deduplicating.KINDS.values()])
        self.keys = self.step.keys
        self.model = test_deduplicating.Model(self.step)

    def make(self, clock: EventClock) -> StatefulStage:
        return DeduplicateStage(self.step, clock, GROUPS)

    def drawn(self) -> list[pa.RecordBatch]:
        choice = self.chance.choice
        self.rows: list[test_deduplicating.Row] = [
            (
                choice([None, "", *"abcdef"]),
                choice([None, self.watermark, *(self.watermark + n for n in (1, 500, 2_000))]),
                choice([None, 0.0, -0.0, float("nan"), 1.5]),
            )
            for _ in self.some((0, 1, 5, 30))
        ]
        return [test_deduplicating.batch_of(self.rows)]

    def expected(self, watermark: int) -> list[Any]:
        taken = [n for n, row in enumerate(self.rows) if self.model.row(row, self.watermark)]
        self.model.close(watermark)
        return taken

    def found(self, results: list[pa.RecordBatch]) -> list[Any]:
        return [n for each in results for n in each["n"].to_pylist()]


class Joins(Walked):
    def begin(self) -> None:
        choice = self.chance.choice
        self.case = test_joining.Case(
            choice(test_joining.KINDS), choice([None, 0, 1_500]), choice([1, 0]), choice([1, 0])
        )
        self.step = self.case.step()
        self.model, self.known = test_joining.Model(self.case), dict[Any, Any]()

    def make(self, clock: EventClock) -> StatefulStage:
        return JoinStage(self.step, clock, Context(), GROUPS)

    def drawn(self) -> list[pa.RecordBatch]:
        choice, at = self.chance.choice, self.watermark
        self.rows: list[tuple[int, int, list[test_joining.Row]]] = []
        for side in [choice([0, 1]) for _ in self.some(range(5))]:
            first = len(self.known)
            rows = [
                (
                    choice([None, *"aabcdef"]),
                    choice([None, at, *(at + n for n in (1, 700, 1_500, 4_000))]),
                    choice([None, 0, 1, 2, 3]),
                )
                for _ in self.some((0, 1, 3, 6))
            ]
            self.known.update(enumerate(rows, first))
            self.rows.append((side, first, rows))
        return [test_joining.batch_of(side, rows, first) for side, first, rows in self.rows]

    def expected(self, watermark: int) -> list[Any]:
        made = [
            each
            for side, first, rows in self.rows
            for n, row in enumerate(rows, first)
            for each in self.model.row(side, row, n, self.watermark)
        ]
        return [*made, *self.model.close(watermark)]

    def found(self, results: list[pa.RecordBatch]) -> list[Any]:
        return test_joining.made(self.step, results, self.known)


class Processors(Walked):
    moves = (0,)
    now_ms = 0

    def begin(self) -> None:
        self.step = custom_states.processor_step(
            test_state_model.Everything(),
            test_state_model.COLUMNS,
            test_state_model.RETURNED,
            time_mode="ProcessingTime",
        )
        self.model = test_state_model.Model()

    def make(self, clock: EventClock) -> StatefulStage:
        of = KeyGroups(range(GROUPS), partial(groups_of_rows, groups=GROUPS))
        stage = self.step.start(self.step, clock, of)
        assert isinstance(stage, StatefulStage)
        return stage

    def opened_ms(self) -> int:
        self.now_ms += self.chance.choice((0, 1, 5, 20, 35))
        return self.now_ms

    def drawn(self) -> list[pa.RecordBatch]:
        choice = self.chance.choice
        acts = [*test_state_model._ACTS, "timer", "timer", "delete", "look"]
        self.rows = [
            (choice("abcdefgh"), choice(acts), choice(range(41))) for _ in self.some((0, 1, 3, 10))
        ]
        return [custom_states.batch_of(self.step.input, self.rows)] if self.rows else []

    def expected(self, watermark: int) -> list[Any]:
        told = []
        for key in dict.fromkeys(row[0] for row in self.rows):
            for _, act, v in (row for row in self.rows if row[0] == key):
                self.model.do(key, act, v, self.now_ms)
            told.append((key, self.model.shown(key, self.now_ms)))
        return [*told, *self.model.fire(self.now_ms)]

    def found(self, results: list[pa.RecordBatch]) -> list[Any]:
        return [row for each in results for row in custom_states.rows_of(each)]


@pytest.fixture(params=["in memory", "spilled"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Where state is."""
    spills = request.param == "spilled"
    with pytest.MonkeyPatch.context() as patch:
        if spills:
            patch.setattr(arrays, "_SMALL", 1)
            patch.setattr(columns, "_PART_BYTES", 200)
            patch.setattr(columns, "_ROWS_MIN", 64)
        with within(Budget(0, Scratch(str(tmp_path)))) if spills else nullcontext():
            yield


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("kind", [Groups, Sessions, FirstRows, Joins, Processors])
@pytest.mark.usefixtures("place")
def test_wherever_it_goes_on(kind: type[Walked], request: pytest.FixtureRequest) -> None:
    walk(kind, Random(request.node.name))


def walk(kind: type[Walked], chance: Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "FILES_MAX", chance.choice([2, 3, 4]))
        patch.setattr(snapshots, "WHOLE_ROWS_MIN", chance.choice([8, 1 << 13, 1 << 13]))
        patch.setattr(snapshots, "CHANGES_BYTES_MIN", chance.choice([0, 1 << 20]))
        patch.setattr(pieces, "PIECE_BYTES", chance.choice([1_000, 1 << 27]))
        patch.setattr(pieces, "_LEAST_BYTES", 1)
        patch.setattr(state_retention, "_EPOCHS_BETWEEN", 1)
        patch.setattr(joined_rows, "RUN_ROWS_MAX", chance.choice([2, 8, 1 << 16]))
        walked = kind(chance)
        tasks = WalkedTasks(walked.make, walked.keys, chance)
        behind = {-1: (0, copy.deepcopy(walked.model))}
        for _ in range(EPOCHS):
            epoch = tasks.committed + 1
            watermark = walked.watermark + chance.choice(walked.moves)
            tasks.clock.opened_ms = walked.opened_ms()
            found = walked.found(tasks.results(walked.drawn(), watermark * walked.unit_ms))
            expected = walked.expected(watermark)
            assert sorted(found, key=repr) == sorted(expected, key=repr)
            behind[epoch] = watermark, copy.deepcopy(walked.model)
            walked.watermark = watermark
            try:
                tasks.commit()
            except Crash:
                tasks.go_on()
            else:
                if chance.random() >= 0.25:
                    continue
                earlier = tasks.rewindable()
                tasks.go_on(chance.choice(earlier) if earlier and chance.random() < 0.5 else None)
            walked.watermark, walked.model = copy.deepcopy(behind[tasks.committed])
            assert tasks.clock.watermark_ms == walked.watermark * walked.unit_ms

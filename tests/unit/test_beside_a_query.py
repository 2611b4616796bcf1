"""Random walks of all who touch a checkpoint beside its query, each in the middle of another.

A query with state commits and removes what it does not need; it is rewound; others pin epochs,
prune, and copy it. Wherever one of them asks the storage for anything, others may come between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint import state_retention
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.retention import prune
from engine.checkpoint.storage.contract import FileInfo
from engine.checkpoint.storage.fsspec_storage import FsspecStorage
from engine.coordinator.epoch_runner import EpochRunner, QueryEnds
from engine.errors import CheckpointCorruptError, CheckpointError, ConfigError
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import SnapshotName
from tests.model import silent_binding
from tests.unit.rewinding import Crash, Death, MortalStorage, PrivateMemory

MOVES = 10
DEPTH_MAX = 2
SOURCE = SimpleNamespace(mergeOffsets=lambda parts: parts[0], commit=lambda end: None)


class Broken(BaseException):
    """Passes whatever those do about errors between whose calls it is found."""


class BusyStorage(FsspecStorage):
    """Others come between any two calls. What is removed is removed at once: no storage looks and
    deletes in one step, so nobody can do better than to look right before."""

    at_once_max = 1  # else it would not be told between which calls they came

    def __init__(self, fs: PrivateMemory, between: Callable[[], None]) -> None:
        super().__init__(fs, "/checkpoint", "memory:///checkpoint")
        self._between = between

    def read(self, name: str) -> bytes:
        self._between()
        return super().read(name)

    def create(self, name: str, data: bytes) -> bool:
        self._between()
        return super().create(name, data)

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self._between()
        super().replace(name, data, durable=durable)

    def list(self, folder: str) -> list[FileInfo]:
        self._between()
        return super().list(folder)

    def files_below(self, folder: str) -> Mapping[str, int]:
        self._between()
        return super().files_below(folder)


class World:
    """See the module.

    :ivar line: what the offset log says of each epoch, or said, from the first on.
    :ivar before: what it said of the epoch before, for each that there ever was.
    :ivar needs: the files of state behind each.
    """

    def __init__(self, chance: Random) -> None:
        self.chance, self.memory, self.clock = chance, PrivateMemory(), ManualClock()
        self.checkpoint = self.opened()
        self.line: list[str] = []
        self.before: dict[str, str | None] = {}
        self.needs: dict[str, list[str]] = {}
        self.retain = chance.choice([2, 3, 6])
        self.busy: list[str] = ["start"]
        self.numbers = iter(range(10_000))
        self.copies = 0
        self.unfinished: list[int] = []
        self.checkpoint.create_or_read_query_id("query")
        self.start()
        self.busy = []

    def opened(self) -> Checkpoint:
        return Checkpoint(BusyStorage(self.memory, self.between), clock=self.clock)

    # -- who comes between ------------------------------------------------------------------------

    def between(self) -> None:
        is_open = 0 < len(self.busy) <= DEPTH_MAX and self.busy[0] != "start"
        if is_open and self.chance.random() < 0.1:
            for _ in range(self.chance.choice([1, 1, 2, 8])):
                self.move()

    def move(self) -> None:
        moves = {"pin": 2, "unpin": 1, "prune": 2, "copy": 2}
        if not {"commit", "rewind"}.intersection(self.busy):  # else there is a lease
            moves |= {"commit": 8, "rewind": 1}
        (name,) = self.chance.choices([*moves], [*moves.values()])
        self.busy.append(name)
        try:
            getattr(self, name)()
        except Exception as exc:
            raise Broken(f"{' > '.join(self.busy)}: {exc}") from exc
        finally:
            self.busy.pop()

    # -- the query --------------------------------------------------------------------------------

    def start(self) -> None:
        self.clock.advance(3600)
        self.checkpoint = self.opened()  # as a new process does
        self.lease = Lease.acquire(
            self.checkpoint, run_id=str(next(self.numbers)), clock=self.clock
        )
        ends: Any = QueryEnds("query", [SOURCE], silent_binding())  # type: ignore[list-item]
        self.runner = EpochRunner(
            self.checkpoint, self.lease, ends, min_epochs_to_retain=self.retain
        )
        self.runner.keeps_time, self.runner.key_groups = True, 128

    def commit(self) -> None:
        epoch, checkpoint = len(self.line), self.checkpoint
        last = self.line[-1] if self.line else None
        digits = f"{next(self.numbers):08x}"
        name = str(SnapshotName(1, epoch, self.lease.generation, 0, 128, digits))
        FsspecStorage.create(checkpoint.storage, name, name.encode())  # type: ignore[arg-type]
        chain = [] if last is None or self.chance.random() < 0.2 else [*self.needs[last]]
        replaced = ()
        if len(chain) > 2 and self.chance.random() < 0.3:  # this one is in the place of two as well
            at = self.chance.randrange(1, len(chain))
            replaced, chain[at:] = tuple(chain[at:]), []
        chain.append(name)
        since = SnapshotName.parse(chain[0]).epoch  # type: ignore[union-attr]
        handle = SnapshotHandle(1, 0, 128, name, digits, since, replaced=replaced)
        value = next(self.numbers)
        # Known before it is written: whoever comes between may find it.
        known = list[str]()

        def logged(log: Any, epoch: int, entry: Any, text: str | None = None) -> None:
            if log is checkpoint.offsets:
                assert text is not None
                self.before[text], self.needs[text] = last, chain
                known.append(text)
            if log is checkpoint.commits:
                self.line.append(known[0])
            EpochRunner._add(self.runner, log, epoch, entry, text)

        self.runner._add = logged  # type: ignore[method-assign]
        self.runner.commit(epoch, [[value]], [None], EpochState(handles=(handle,)))

    def rewind(self) -> None:
        checkpoint = self.checkpoint
        pins = checkpoint.pins()
        if not self.line:
            return
        self.lease.release(QueryState.STOPPED)
        name = ""
        try:
            if pins and self.chance.random() < 0.5:
                pin = self.chance.choice(pins)
                target, text, name = pin.epoch, pin.offsets, pin.name
                checkpoint.rewind(to_pin=name, accept_repeats=True)
            else:
                target = self.chance.choice(checkpoint.epochs())
                text = self.line[target]
                checkpoint.rewind(target, accept_repeats=True)
        except ConfigError:
            kept = f"pins/{name}" if name else f"commits/{target}"
            assert not self.memory.exists(f"/checkpoint/{kept}")
        else:
            assert text == self.line[target]
            del self.line[target + 1 :]
        self.start()

    # -- others -----------------------------------------------------------------------------------

    def pin(self) -> None:
        epochs = self.checkpoint.epochs()
        if epochs:
            name = f"pin-{next(self.numbers)}"
            with suppress(ConfigError, CheckpointError):
                self.checkpoint.pin(name, self.chance.choice(epochs))

    def unpin(self) -> None:
        if pins := self.checkpoint.pins():
            with suppress(ConfigError):
                self.checkpoint.unpin(self.chance.choice(pins).name)

    def prune(self) -> None:
        prune(self.checkpoint, keep_epochs=self.chance.choice([2, 3, 5]), clock=self.clock)

    def copy(self) -> None:
        """One that may be killed, and then goes on later."""
        number, death = self.copies, Death()
        if self.unfinished and self.chance.random() < 0.5:
            number = self.unfinished.pop()
        else:
            self.copies += 1
        death.at = self.chance.randint(2, 20) if self.chance.random() < 0.3 else None
        target = Checkpoint(MortalStorage(self.memory, f"/copy-{number}", death))
        try:
            copy_checkpoint(self.checkpoint, target, asked_by="walk")
        except Crash:
            self.unfinished.append(number)
        except CheckpointCorruptError:
            raise
        except (ConfigError, CheckpointError):
            assert not target.storage.exists("metadata")
        else:
            self.check_copy(target)

    # -- what must be true ------------------------------------------------------------------------

    def check_copy(self, target: Checkpoint) -> None:
        epochs = target.epochs()
        texts = [target.offsets.text_of(epoch) for epoch in epochs]
        assert [self.before[text] for text in texts[1:]] == texts[:-1], "two histories"
        for text in texts:
            self.check_state(target, text, "copy")

    def check_state(self, checkpoint: Checkpoint, text: str, whose: str) -> None:
        missing = [
            name
            for name in self.needs[text]
            if not FsspecStorage.exists(checkpoint.storage, name)  # type: ignore[arg-type]
        ]
        assert not missing, f"{whose}: {missing} of {text}"

    def check(self) -> None:
        checkpoint = self.checkpoint
        offsets, commits = checkpoint.offsets.ids(), checkpoint.commits.ids()
        last = len(self.line)
        assert commits == [*range(commits[0], last)] if commits else not last
        assert offsets == [*range(offsets[0], last)] if offsets else not last
        for epoch in offsets:
            text = checkpoint.offsets.text_of(epoch)
            assert text == self.line[epoch]
            self.check_state(checkpoint, text, f"epoch {epoch}")
        for pin in checkpoint.pins():
            there = self.line[pin.epoch : pin.epoch + 1]
            assert there == [pin.offsets], f"{pin.name} is of another history"
            self.check_state(checkpoint, pin.offsets, pin.name)


@pytest.mark.parametrize("seed", range(6))
def test_each_in_the_middle_of_another(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_retention, "_EPOCHS_BETWEEN", 1)
    world = World(Random(seed))
    for _ in range(MOVES):
        world.move()
        world.check()

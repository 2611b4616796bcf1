"""A folder of files in a world at random: see :mod:`tests.sink_walks`. Its log is compacted, grows
its interval, and is pruned behind what the checkpoint keeps and has pinned."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.base.json_text import JSON
from engine.checkpoint.sink_context import SinkContext
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import SinkError, StaleRunError
from engine.sinks.epoch_context import EpochContext
from engine.sinks.files import file_sink_log
from engine.sinks.files.data_source import FilesWriter, JsonDataSource
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sinks.reopen import reopen_sink
from tests.sink_files import letters_in
from tests.sink_walks import Epoch, SinkWalk
from tests.unit.test_file_sink_growth import as_spark_reads

SCHEMA = StructType().add("n", "long")
INTERVAL = 3


class Run:
    """One attempt to run the query.

    :param retained: see :class:`FileSinkLog`.
    """

    def __init__(self, folder: Path, generation: int, retained: int) -> None:
        options = {"path": str(folder), "compactInterval": str(INTERVAL)}
        self.sink: FilesWriter = JsonDataSource(options).streamWriter(SCHEMA, overwrite=False)
        self.sink.log = FileSinkLog(
            self.sink.log.storage, interval=INTERVAL, retained=retained, cleanup_delay_s=0
        )
        self.generation = generation
        self.sink.bind(SinkContext("query", "run", generation, 0))
        self.latest = self.sink.latestEpoch()


class FilesWalk(SinkWalk[Run]):
    """
    :ivar kept: the oldest epoch that the checkpoint keeps.
    :ivar pins: epoch → the sink's position, if the pin has it.
    """

    places = ("sinkLog.before", "sinkLog.after", "sinkLog.checked")
    settled = places[1:]
    refusals = (StaleRunError, SinkError)

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        self.folder, self.retained = folder, self.chance.choice((2, 100))
        self.kept, self.pins = 0, dict[int, JSON]()

    def begin(self) -> Run:
        run = Run(self.folder, self.generation, self.retained)
        assert run.latest is None or run.latest in (self.newest, self.logged), self.story
        self.tell(run, list(self.open))
        return run

    def write(self, run: Run, epoch: int, rows_of: Sequence[Sequence[int]]) -> list[Any]:
        messages = []
        for task, some in enumerate(rows_of):
            EpochContext.set(EpochContext("query", "run", run.generation, task, epoch))
            batches = [pa.RecordBatch.from_pydict({"n": list(some)})] if some else []
            messages.append(pickle.loads(pickle.dumps(run.sink)).write(iter(batches)))
        EpochContext.set(None)
        return messages

    def tell(self, run: Run, epochs: Sequence[Epoch]) -> None:
        for each in epochs:
            self.telling([each])
            run.sink.commit(each.messages, each.number)

    def take_back(self, to: int) -> None:
        sink: Any = reopen_sink("json", {"path": str(self.folder)})
        position = self.pins.get(to)
        given = () if position is None else (position,)
        sink.bind(SinkContext("query", "rewind", self.generation, 0))
        sink.checkRewind(to, *given)
        sink.rewind(to, *given)
        self.pins = {epoch: at for epoch, at in self.pins.items() if epoch <= to}
        self.kept = min(self.kept, max(to, 0))

    def must_go_back(self, to: int) -> bool:
        return to in self.pins or (self.retained > self.newest - to and to >= self.kept)

    def seen(self) -> list[int]:
        """To Spark's readers and ours."""
        if not any(each.name[0].isdigit() for each in LocalStorage(self.log_folder).list("")):
            return []
        names = [
            Path(each.path).name for each in FileSinkLog(LocalStorage(self.log_folder)).files()
        ]
        assert len(names) == len(as_spark_reads(self.log_folder)), self.story
        return sorted(row["n"] for row in letters_in(self.folder))

    @property
    def log_folder(self) -> Path:
        return self.folder / FOLDER

    def others(self) -> Sequence[Callable[[], None]]:
        return self._pin, self._prune

    def _pin(self) -> None:
        sink: Any = reopen_sink("json", {"path": str(self.folder)})
        if self.newest >= self.kept:
            epoch = self.chance.randint(max(self.kept, self.newest - 1), self.newest)
            if not self.must_go_back(epoch):
                return
            self.story.append(f"pin {epoch}")
            self.pins[epoch] = sink.rewindPosition(epoch)

    def _prune(self) -> None:
        """As :func:`engine.sinks.files.file_sink_upkeep.prune_sink` does."""
        log = FileSinkLog(LocalStorage(self.log_folder), cleanup_delay_s=0)
        listing = log.listing()
        if listing:
            self.kept = max(self.kept, self.newest - self.chance.randint(0, 4))
            self.story.append(f"prune before {self.kept}")
            for info in log.expired(self.kept, log.interval(listing)):
                log.storage.delete(info.name)


@pytest.mark.parametrize("seed", range(8))
def test_a_folder_has_each_epoch_once_whoever_dies_or_wakes_up(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sink_log, "LINES_PER_EPOCH", 1)
    world = FilesWalk(seed, tmp_path)
    monkeypatch.setattr(file_sink_log, "reach", world.reach)
    world.walk(40)

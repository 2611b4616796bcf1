"""What an epoch of the files sink's log costs, over tens of thousands of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from engine.checkpoint.logs.compaction import COMPACT
from engine.checkpoint.storage.contract import FileInfo, Storage, checksum_twin
from engine.sinks.files import file_sink_log
from engine.sinks.files.file_sink_log import FileSinkLog
from tests.unit.test_file_sink_growth import as_spark_finds, file

EPOCHS = 20_000


class Memory(Storage):
    """Keeps files in a dictionary, with a clock of its own; counts the lines read and written."""

    url = "memory://log"

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lines = 0
        self._files: dict[str, tuple[bytes, float]] = {}

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._counted(name, self._files[name][0])

    def create(self, name: str, data: bytes) -> bool:
        if name in self._files:
            return False
        self.replace(name, data)
        return True

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        self._files[name] = self._counted(name, data), self.now_s

    def delete(self, name: str) -> None:
        self._files.pop(name, None)
        self._files.pop(checksum_twin(name), None)

    def list(self, folder: str) -> list[FileInfo]:
        return [self.info(name) for name in self._files]

    def files_below(self, folder: str) -> Mapping[str, int]:
        return {name: len(data) for name, (data, _) in self._files.items()}

    def info(self, name: str) -> FileInfo:
        if name not in self._files:
            raise FileNotFoundError(name)
        data, modified_s = self._files[name]
        return FileInfo(name, len(data), modified_s)

    def delete_all(self) -> None:
        self._files.clear()

    def _counted(self, name: str, data: bytes) -> bytes:
        self.lines += 0 if name.endswith(".crc") else data.count(b"\n")
        return data


def nothing(log: FileSinkLog, epoch: int) -> None:
    """Nobody removes entries but the log itself."""


def prune(log: FileSinkLog, epoch: int) -> None:
    """As ``continuous prune --keep 2`` does, often."""
    other = FileSinkLog(log.storage, cleanup_delay_s=0)
    for info in other.expired(epoch - 1, other.interval(other.listing())):
        log.storage.delete(info.name)


@pytest.mark.parametrize("upkeep", [nothing, prune])
def test_the_ten_thousandth_epoch_costs_what_the_first_ones_do(
    monkeypatch: pytest.MonkeyPatch, upkeep: Callable[[FileSinkLog, int], None]
) -> None:
    lines_per_epoch = 4  # so a log of so many epochs is as long as one of millions
    monkeypatch.setattr(file_sink_log, "LINES_PER_EPOCH", lines_per_epoch)
    storage = Memory()
    costs = []
    for epoch in range(EPOCHS):
        if epoch % 997 == 0:  # a restart
            log = FileSinkLog(storage, now_s=lambda: storage.now_s)
        storage.now_s += 1.0
        before = storage.lines
        assert log.add(epoch, [file(epoch)])
        costs.append(storage.lines - before)
        if epoch % 997 == 500:
            upkeep(log, epoch)  # by another process: the log is not told
    for end in (1_250, 2_500, 5_000, 10_000, 20_000):
        per_epoch = sum(costs[end // 2 : end]) / (end // 2)
        assert per_epoch < 8 * lines_per_epoch, f"epochs {end // 2} to {end}: {per_epoch}"
    expected = [file(epoch).line() for epoch in range(EPOCHS)]
    assert as_spark_finds(storage) == expected
    assert [each.line() for each in log.files()] == expected
    compactions = [info.name for info in storage.list("") if info.name.endswith(COMPACT)]
    assert 2 <= len([name for name in compactions if not name.startswith(".")]) <= 4

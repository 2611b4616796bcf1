"""Records that are known beforehand, and a reader that knows what it must see of them.

The source is a folder of append-only files for ``tail``, one per partition, with lines of one
length: so the offsets that the checkpoint holds tell which records an epoch ends with.
"""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ContinuousError
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from tests.faults.result import LevelResult

SCHEMA: Final = "p INT, s BIGINT, h STRING"
Ends = dict[int, int]
"""Partition → how many records."""


def line(partition: int, seq: int) -> bytes:
    """Record ``seq`` of a partition."""
    return b'{"p":%3d,"s":%9d,"h":"%s"}\n' % (partition, seq, digest(partition, seq).encode())


def digest(partition: int, seq: int) -> str:
    """By which a record is known to be whole."""
    return f"{zlib.crc32(f'{partition}/{seq}'.encode()):08x}"


LINE_BYTES: Final = len(line(0, 0))


class SourceFiles:
    """One writer's view of the folder.

    :ivar ends: how many records each partition has.
    """

    def __init__(self, folder: Path, partitions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.names = [_name(index, partitions) for index in range(partitions)]
        self.ends: Ends = dict.fromkeys(range(partitions), 0)
        for name in self.names:
            (folder / name).touch()

    @property
    def total(self) -> int:
        return sum(self.ends.values())

    def append(self, count: int) -> None:
        """Let ``count`` more records appear in each partition."""
        for partition, name in enumerate(self.names):
            first = self.ends[partition]
            with (self.folder / name).open("ab") as file:
                file.write(b"".join(line(partition, first + k) for k in range(count)))
            self.ends[partition] = first + count

    def ends_of(self, offset: dict[str, Any]) -> Ends:
        """What an offset of ``tail`` means."""
        return {p: offset.get(name, 0) // LINE_BYTES for p, name in enumerate(self.names)}


def _name(index: int, partitions: int) -> str:
    """``tail`` deals files out by a hash of their name."""
    names = (f"part-{index}-{salt}.json" for salt in range(10_000))
    return next(name for name in names if zlib.crc32(name.encode()) % partitions == index)


class SinkReader:
    """Reads what has become visible in a Parquet sink since it looked last, and compares it with
    the offset log, which is written before the sink."""

    def __init__(self, out: Path, checkpoint: Path, source: SourceFiles) -> None:
        self._log = FileSinkLog(LocalStorage(out / FOLDER))
        self._checkpoint = Checkpoint(str(checkpoint))
        self._source = source
        self._files = 0
        self.ends: Ends = dict.fromkeys(source.ends, 0)
        self.looks = 0

    def look(self) -> str | None:
        """None if whole epochs, and nothing else, have become visible; else what is wrong."""
        self.looks += 1
        try:
            latest = self._log.latest()
            if latest is None:
                return None
            files = self._log.files(up_to=latest)
            tables = [
                pq.read_table(file.path.removeprefix("file://")) for file in files[self._files :]
            ]
            entry = self._checkpoint.offsets.get(latest)
        except (ContinuousError, OSError, pa.ArrowException) as exc:
            return f"a reader got {type(exc).__name__}: {exc}"
        if entry is None:
            return f"epoch {latest} is visible, and not in the offset log"
        first, self._files = self.ends, len(files)
        self.ends = self._source.ends_of(entry.offsets[0])
        return compare(tables, first, self.ends)


def compare(tables: list[pa.Table], first: Ends, ends: Ends) -> str | None:
    """Whether the tables hold exactly the records from ``first`` up to ``ends``, in order."""
    seen: dict[int, list[int]] = {p: [] for p in ends}
    for table in tables:
        for row in table.to_pylist():
            if row["h"] != digest(row["p"], row["s"]):
                return f"foreign: {row}"
            seen[row["p"]].append(row["s"])
    for partition, end in ends.items():
        expected = range(first[partition], end)
        if seen[partition] == list(expected):
            continue
        lost = Counter(expected) - Counter(seen[partition])
        more = Counter(seen[partition]) - Counter(expected)
        kind = f"{len(lost)} missing {sorted(lost)[:5]}, {len(more)} too many {sorted(more)[:5]}"
        return f"partition {partition}, records {expected}: {kind if lost or more else 'order'}"
    return None


def compare_all(result: LevelResult, out: Path, ends: Ends, where: str) -> None:
    """Everything that is visible at the end, against the whole source."""
    counts: dict[int, Counter[int]] = {p: Counter() for p in ends}
    for file in FileSinkLog(LocalStorage(out / FOLDER)).files():
        table = pq.read_table(file.path.removeprefix("file://"), columns=["p", "s"])
        for partition, seq in zip(*(column.to_pylist() for column in table.columns), strict=True):
            counts[partition][seq] += 1
    count(result, counts, ends, where)


def count(result: LevelResult, counts: dict[int, Counter[int]], ends: Ends, where: str) -> None:
    """Add to the result what was lost and repeated of ``ends`` records."""
    for partition, end in ends.items():
        expected = Counter(range(end))
        lost, more = expected - counts[partition], counts[partition] - expected
        result.records += end
        result.lost += lost.total()
        result.repeated += more.total()
        if lost:
            result.broken.append(f"{where}: lost {sorted(lost)[:5]} of partition {partition}")
        if more:
            result.broken.append(f"{where}: repeated {sorted(more)[:5]} of partition {partition}")

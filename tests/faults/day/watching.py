"""How much memory all processes have, and how large the checkpoints are, while the day goes by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.faults.day.rows import BEGAN_US, HOUR_US

_MIB = 1 << 20


class Sample(NamedTuple):
    """
    :param hour: of the day that the slower query's watermark has come to.
    :param driver: MiB of memory of the driver, its JVM and Spark's daemon; ``tasks``: of the
        workers that read and of those that keep state.
    :param checkpoints: MiB on the disk.
    :param keys: rows of state of all queries.
    """

    hour: float
    driver: int
    tasks: int
    checkpoints: int
    keys: int


def resident_mib(processes: Iterable[psutil.Process]) -> int:
    """Pages that forked processes share count for each."""
    total = 0
    for each in processes:
        with suppress(psutil.Error):
            total += each.memory_info().rss
    return total // _MIB


def size_mib(folders: Iterable[Path]) -> int:
    """Of all files below them."""
    total = 0
    for folder in folders:
        for file in folder.rglob("*"):
            with suppress(FileNotFoundError):
                total += file.stat().st_size
    return total // _MIB


def most(samples: Sequence[Sample], of: str, first: int, last: int) -> int:
    """The largest from one hour up to another; 0 if nobody looked then.

    :param of: a field of samples.
    """
    return max((getattr(each, of) for each in samples if first <= each.hour < last), default=0)


class Reports:
    """What a query has told of its epochs so far, read as it grows.

    :ivar hour: of the day that its watermark has come to; negative before the day, and at first.
    :ivar keys: rows of state behind the newest epoch.
    :ivar late: rows left out by now.
    :ivar rows: read by now.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self.hour, self.keys, self.late, self.rows = -1.0, 0, 0, 0

    def read(self) -> None:
        """Whole lines only: the writer may be in the middle of one."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        new = new[: new.rfind(b"\n") + 1]
        self._at += len(new)
        for line in new.splitlines():
            self._take(json.loads(line))

    def _take(self, report: dict[str, Any]) -> None:
        self.rows += report["numInputRows"]
        (kept,) = report["stateOperators"]
        self.keys, self.late = kept["numRowsTotal"], self.late + kept["numRowsDroppedByWatermark"]
        if (watermark := report["eventTime"].get("watermark")) is not None:
            at = datetime.fromisoformat(watermark.replace("Z", "+00:00")).timestamp()
            self.hour = (at * 1_000_000 - BEGAN_US) / HOUR_US

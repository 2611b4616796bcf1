"""L4, state: a windowed count on a real Spark whose processes are killed and stopped, one after the
other: of the workers that read as well as of those that count. In the end each count is that of a
batch computation."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.faults import l4_spark as kinds
from tests.faults.l2_oracle import SourceFiles
from tests.faults.l4_driver import BEGAN_S, COUNTS, KEYS, PARTITIONS, WINDOW_S, Setup
from tests.faults.l4_kafka import Story
from tests.faults.l4_processes import DEADLINE_S, told_in
from tests.faults.result import LevelResult
from tests.faults.roads.beside import beside
from tests.waiting import wait_until

FEED_EVERY_S, FEED_ROWS = 0.02, 3


def run(
    faults: Sequence[str],
    *,
    master: str = kinds.LOCAL,
    seed: int = 1,
    stop_s: float = 2.0,
    reducers: int = 2,
    stays: bool = False,
) -> LevelResult:
    """Do these faults, kinds of :mod:`tests.faults.l4_spark`, in an order of the seed.

    :param stays: whether the workers that read count as well, each the keys of its partitions.
    """
    where = ", where it is read," if stays else ""
    result = LevelResult(f"L4 state{where} {master}", seeds=[seed])
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    setup = Setup(str(folder), master, reducers=reducers, stays=stays)
    story = _Counting(setup, COUNTS, result, seed, stop_s)
    with told_in(result, folder, story.end):
        story.tell(faults)
    return result


class _Counting(Story):
    def __init__(self, setup: Setup, *given: Any) -> None:
        super().__init__(setup, *given)
        self._source = SourceFiles(setup.source, PARTITIONS[COUNTS])

    @contextmanager
    def feeding(self) -> Iterator[None]:
        stop = threading.Event()

        def feed() -> None:
            while not stop.wait(FEED_EVERY_S):
                self._source.append(FEED_ROWS)

        self._source.append(FEED_ROWS)
        with beside(feed, stop):
            yield

    def went_in(self) -> Counter[Any]:
        wait_until(self._has_committed_all, "all is committed", DEADLINE_S)
        return Counter(
            (seq % KEYS + KEYS * file * self._setup.stays, (seq + BEGAN_S) // WINDOW_S * WINDOW_S)
            for file, end in self._source.ends.items()
            for seq in range(end)
        )

    def _has_committed_all(self) -> bool:
        self.driver.check()
        (offset,) = self._checkpoint.committed_offsets() or ({},)
        assert isinstance(offset, dict)
        return self._source.ends_of(offset) == self._source.ends

    def came_out(self) -> Counter[Any]:
        with closing(sqlite3.connect(self._setup.database)) as connection:
            return Counter({(k, at): n for k, at, n in connection.execute("SELECT * FROM counts")})

"""The rows of one stream that wait for rows of another: what one side of a join keeps.

They lie in *runs*, each sorted by the hash of the key, so that the matches of many rows are found
with a few binary searches, however often a key repeats. What comes is a run of its own; neighbours
of about the same length are merged, up to a length that takes a few milliseconds. So the rows of a
run have come at about the same time: when the watermark moves, mostly whole runs leave, and the
others are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.exchange.hashing import Hashes
from engine.state.arrays import kept, kept_rows
from engine.state.event_times import NEVER

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
RUN_ROWS_MAX: Final = 1 << 16
"""Runs are not merged to longer ones."""
RUN_BYTES_MAX: Final = 1 << 28
"""Nor to larger ones: Arrow counts the bytes of a column's texts with 31 bits."""


class Run:
    """Rows sorted by the first lane of their hashes.

    :ivar hashes: of the keys.
    :ivar rows: all of their columns.
    :ivar numbers: each row's own.
    :ivar expires: until when they stay, in microseconds, or NEVER.
    :ivar matched: whether a match was found.
    :ivar changed: whether a snapshot has to have them.
    :ivar there: false: the watermark has passed them.
    :ivar soonest: none expires before.
    """

    __slots__ = (
        "changed", "expires", "hashes", "matched", "numbers", "rows", "soonest", "there"
    )  # fmt: skip

    def __init__(
        self,
        hashes: Hashes,
        rows: pa.RecordBatch,
        numbers: Places,
        expires: Places,
        matched: Flags,
        changed: Flags,
    ) -> None:
        order = np.argsort(hashes[0], kind="stable")
        self.hashes = kept(hashes[:, order])
        self.rows = kept_rows(rows.take(pa.array(order)))
        self.numbers = kept(numbers[order])
        self.expires = kept(expires[order])
        self.matched = kept(matched[order])
        self.changed = kept(changed[order])
        self.there = kept(np.ones(len(order), np.bool_))
        self.soonest = int(expires.min()) if len(expires) else NEVER

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """Of its columns, also of rows that are not there any more."""
        return int(self.rows.get_total_buffer_size())

    def find(self, lane: npt.NDArray[np.uint64]) -> tuple[Places, Places, Places]:
        """Which of these first lanes, in ascending order, rows have; where these rows begin, and
        how many there are. :meth:`are` tells whether they have the whole hash."""
        own = self.hashes[0]
        starts = np.searchsorted(own, lane)
        found = np.flatnonzero(own[np.minimum(starts, len(own) - 1)] == lane)
        starts = starts[found]
        return found, starts, np.searchsorted(own, lane[found], "right") - starts

    def are(self, places: Places, hashes: Hashes) -> Flags:
        """Whether the rows in these places have these hashes, and are there."""
        same: Flags = (self.hashes[1, places] == hashes[1]) & self.there[places]
        return same

    def mark(self, places: Places) -> None:
        """These rows have found a match."""
        new = places[~self.matched[places]]
        self.matched[new] = True
        self.changed[new] = True


class JoinedRows:
    """See the module."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._next = 0

    def __len__(self) -> int:
        """How many there are."""
        return sum(int(np.count_nonzero(run.there)) for run in self.runs)

    def add(
        self,
        hashes: Hashes,
        rows: pa.RecordBatch,
        expires: Places,
        matched: Flags,
        numbers: Places | None = None,
    ) -> None:
        """More rows.

        :param numbers: None: they are new. Else a snapshot has them, with these numbers.
        """
        count = rows.num_rows
        if not count:
            return
        changed = np.full(count, numbers is None)
        if numbers is None:
            numbers = np.arange(self._next, self._next + count)
        self._next = max(self._next, int(numbers.max()) + 1)
        for start in range(0, count, RUN_ROWS_MAX):
            part = slice(start, start + RUN_ROWS_MAX)
            run = Run(
                hashes[:, part],
                rows.slice(start, RUN_ROWS_MAX),
                numbers[part],
                expires[part],
                matched[part],
                changed[part],
            )
            self.runs.append(run)
            self._merge_last(self.runs)

    def find(self, hashes: Hashes) -> Iterator[tuple[Run, Places, Places]]:
        """The runs in which rows may have some of these hashes; for each hash where such rows
        begin, and how many there are, see :meth:`Run.are`."""
        count = hashes.shape[1]
        order = np.argsort(hashes[0])  # neighbours are searched for side by side
        lane = hashes[0, order]
        for run in self.runs:
            found, begins, lengths = run.find(lane)
            if len(found):
                starts, counts = np.zeros((2, count), np.int64)
                starts[order[found]], counts[order[found]] = begins, lengths
                yield run, starts, counts

    def expire(self, watermark_us: int) -> Iterator[pa.RecordBatch]:
        """Forget what the watermark has passed: returns the rows without a match."""
        kept: list[Run] = []
        for run in self.runs:
            is_shorter = False
            if run.soonest <= watermark_us:
                passed = run.there & (run.expires <= watermark_us)
                alone = np.flatnonzero(passed & ~run.matched)
                if len(alone):
                    yield run.rows.take(pa.array(alone))
                run.there &= ~passed
                left = int(np.count_nonzero(run.there))
                if 2 * left < len(run):
                    run, is_shorter = self._joined([run]), True
                else:
                    run.soonest = int(run.expires[run.there].min())
            if len(run):
                kept.append(run)
                if is_shorter:  # what stays of many runs, as rows without a time do, is not as many
                    self._merge_last(kept)
        self.runs = kept

    def taken(self, *, whole: bool) -> Iterator[tuple[Run, Places]]:
        """The rows that a snapshot has to have: runs, and places in them.

        :param whole: all rows; else those that have changed since the last call.
        """
        for run in self.runs:
            places = np.flatnonzero(run.there if whole else run.there & run.changed)
            run.changed[:] = False
            if len(places):
                yield run, places

    def _merge_last(self, runs: list[Run]) -> None:
        while len(runs) > 1:
            *_, older, newer = runs
            is_long = len(older) + len(newer) > RUN_ROWS_MAX
            is_large = older.nbytes + newer.nbytes > RUN_BYTES_MAX
            if len(older) > 2 * len(newer) or is_long or is_large:
                return
            runs[-2:] = [self._joined([older, newer])]

    def _joined(self, runs: list[Run]) -> Run:
        """One run of the rows that are there."""
        kept = [np.flatnonzero(run.there) for run in runs]

        def of(values: list[Any]) -> Any:
            return np.concatenate(
                [each[..., at] for each, at in zip(values, kept, strict=True)], -1
            )

        rows = [run.rows.take(pa.array(at)) for run, at in zip(runs, kept, strict=True)]
        return Run(
            of([run.hashes for run in runs]),
            pa.concat_batches(rows),
            of([run.numbers for run in runs]),
            of([run.expires for run in runs]),
            of([run.matched for run in runs]),
            of([run.changed for run in runs]),
        )

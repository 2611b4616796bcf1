"""What the offset log knows of the state of a query: which files hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class SnapshotHandle:
    """The state of one task behind an epoch, durable.

    :param stage: the number of the task's pipeline in the query.
    :param first_group: the first key group that it owns; ``end_group`` is behind the last.
    :param file: the newest file of its chain, relative to the checkpoint; None: there is no state.
    :param checksum: of that file, see :mod:`engine.state.snapshots`.
    :param since: the oldest epoch whose file the chain needs; that of the snapshot without one.
    :param rows: how many the state has, as far as it is known.
    :param nbytes: of all files of the chain.
    :param lag_ms: so far behind the query's watermark is that of its rows.
    :param replaced: the files in whose place another one has come since the epoch before; told to
        the driver, and in no entry.
    """

    stage: int
    first_group: int
    end_group: int
    file: str | None
    checksum: str | None
    since: int
    rows: int = 0
    nbytes: int = 0
    lag_ms: int = 0
    replaced: tuple[str, ...] = field(default=(), compare=False)

    def to_json(self) -> dict[str, Any]:
        """For the offset log."""
        entry = asdict(self)
        del entry["replaced"]
        if not self.lag_ms:
            del entry["lag_ms"]
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> SnapshotHandle:
        """:raises ValueError: it is none."""
        try:
            return cls(**entry)
        except TypeError as exc:
            raise ValueError(f"{dict(entry)} is no handle of a snapshot: {exc}.") from exc

"""What can be done to a table of a lake by those who look after it: see
:mod:`engine.sinks.lakes.maintenance`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from engine.errors import ConfigError

RETAIN_MIN_S: Final = 3_600.0
"""Nothing younger is removed: it may be of a commit that is under way."""
REWINDABLE_S: Final = 86_400.0
_GO_BY: Final = {
    "retain_s": ("how long old states and their files stay", ("expire", "vacuum")),
    "rewindable_s": ("how far back a query can be rewound", ("compact", "expire")),
    "file_bytes": ("how large files should be", ("compact",)),
}
"""What a setting of :class:`Orders` says, and the steps that go by it."""

F = TypeVar("F")
N = TypeVar("N")


@dataclass(frozen=True)
class Orders:
    """What is to be done.

    :param compact: make larger files of small ones.
    :param expire: forget old states of the table.
    :param vacuum: remove files that neither the table nor a state of it that is kept has.
    :param retain_s: so long old states and their files stay; None: as the table says.
    :param rewindable_s: files that are younger are not compacted, and no history of that time is
        forgotten: a query can be rewound as far; None: :data:`REWINDABLE_S`.
    :param pinned: query id → the lowest epoch to which it must be possible to rewind as well.
    :param file_bytes: how large files should be; None: as the table says.
    :param dry_run: change nothing, only tell.
    :raises ConfigError: that cannot be done, or no step that is asked for goes by a setting.
    """

    compact: bool = True
    expire: bool = True
    vacuum: bool = True
    retain_s: float | None = None
    rewindable_s: float | None = None
    pinned: Mapping[str, int] = field(default_factory=dict)
    file_bytes: int | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not (self.compact or self.expire or self.vacuum):
            raise ConfigError("Neither compact nor expire nor vacuum is asked for.")
        if self.retain_s is not None and self.retain_s < RETAIN_MIN_S:
            raise ConfigError(
                f"What is older than {self.retain_s:g} s is to go: it must be {RETAIN_MIN_S:g} s "
                "or more.",
                hint="Younger files may belong to a commit that is under way.",
            )
        if self.reach_s < 0:
            raise ConfigError(f"A rewind is to reach back {self.reach_s:g} s: less than 0.")
        if self.file_bytes is not None and self.file_bytes < 1:
            raise ConfigError(f"Files are to have {self.file_bytes} bytes: 1 or more.")
        for setting, (says, steps) in _GO_BY.items():
            if getattr(self, setting) is None or any(getattr(self, step) for step in steps):
                continue
            name = setting.removesuffix("_s")
            raise ConfigError(
                f"{name} says {says}, and no step that is asked for goes by it: it is for "
                f"{' and '.join(steps)}.",
                hint=f"Leave {name} out, or ask for {' or '.join(steps)}, too.",
            )

    @property
    def reach_s(self) -> float:
        """:attr:`rewindable_s`, or its default."""
        return REWINDABLE_S if self.rewindable_s is None else self.rewindable_s


class TableFile(NamedTuple, Generic[F]):
    """A data file of the table.

    :param group: only files of the same group can become one; None: this one stays as it is.
    :param since_ms: when it became a part of the table, or was written.
    :param file: what the lake knows it by.
    """

    path: str
    size: int
    group: Hashable
    since_ms: int
    file: F


class Swap(NamedTuple, Generic[F, N]):
    """Files, and what is to take their place: the same rows."""

    old: Sequence[TableFile[F]]
    new: N


@dataclass(frozen=True)
class MaintenanceReport:
    """What was done to a table, or would be.

    :param files_before: data files of the table, and their bytes; likewise ``..._after``.
    :param compacted_files: so many of them became ``compacted_into``.
    :param left_files: small ones that stay as they are: others were quicker, or their rows cannot
        be read as the table's columns; the log of this process tells.
    :param expired: snapshots (Iceberg), or entries of the table's log (Delta; None: unknown before
        it is done) that were forgotten.
    :param removed_files: files that nobody could need, and their bytes.
    """

    table: str
    files_before: int
    bytes_before: int
    files_after: int
    bytes_after: int
    compacted_files: int
    compacted_into: int
    left_files: int
    expired: int | None
    removed_files: int
    removed_bytes: int
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class Upkeep(ABC, Generic[F, N]):
    """A table of a lake to those who look after it. Methods raise what
    :meth:`engine.sinks.lakes.table_log.TableLog.commit` does.

    :ivar where: the table, for people.
    """

    where: str

    @abstractmethod
    def check(self, orders: Orders) -> None:
        """:raises ConfigError: this cannot be done to the table; nothing has changed."""

    @abstractmethod
    def file_bytes(self) -> int:
        """How large files should be, as the table says."""

    @abstractmethod
    def files(self) -> Sequence[TableFile[F]]:
        """The data files that the table has now."""

    @abstractmethod
    def rewrite(self, files: Sequence[TableFile[F]]) -> N:
        """Write the rows of files of one group into one, durably; it is no part of the table.

        :raises pyarrow.ArrowException: they cannot be read as the table's columns.
        """

    @abstractmethod
    def swap(self, swaps: Sequence[Swap[F, N]]) -> Sequence[Swap[F, N]]:
        """Put files in the place of others, in one commit.

        :returns: those that were made; the others' files have changed since.
        """

    @abstractmethod
    def discard(self, new: N) -> None:
        """Remove a file that never became a part of the table."""

    @abstractmethod
    def expire(self, orders: Orders, now_ms: int) -> int | None:
        """Forget old states; see :class:`MaintenanceReport`."""

    @abstractmethod
    def garbage(self, orders: Orders, now_ms: int) -> Mapping[str, int]:
        """Files that nobody can need, with their bytes."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove one of these; it may be gone."""

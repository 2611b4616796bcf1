"""The files of snapshots, read: those that the offset log names, and those before them.

A file has to be the very one that the offset log vouches for, or that a file does which it vouches
for: anything else is refused, and the error tells what it is instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.base.open_files import allow_many_open_files
from engine.errors import CheckpointCorruptError, CheckpointVersionError
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import SnapshotName
from engine.state.files import (
    Content,
    Header,
    Link,
    TableHead,
    checksum_of,
    decode,
    head_of,
    header_of,
)
from engine.state.pieces import piece_bytes
from engine.state.scratch import HERE, Scratch

if TYPE_CHECKING:
    from engine.checkpoint.storage.contract import Storage

_MAPPED_MIN: Final = 1 << 20
"""Smaller files are read."""
HINT: Final = (
    "Restore the file from a copy of the checkpoint, or rewind the query to an epoch that does not "
    "need it, or start it with a new checkpoint."
)


@dataclass(frozen=True)
class StateFile:
    """A file that was read.

    :param link: what the next file would say of it.
    """

    header: Header
    tables: Mapping[TableHead, pa.Table]
    link: Link


@dataclass(frozen=True)
class Chain:
    """The files that a task goes on behind.

    :param handle: what the offset log says of them.
    :param links: the files, the oldest first.
    """

    handle: SnapshotHandle
    links: tuple[Link, ...]


def read_chains(
    storage: Storage,
    handles: Sequence[SnapshotHandle],
    query_id: str | None,
    scratch: Scratch = HERE,
) -> list[list[StateFile]]:
    """The files behind each handle, the oldest first; none where there is no state.

    :param query_id: of the checkpoint, to tell what a wrong file is; None: it is not known.
    :param scratch: for copies of files that are far away, if together they are more than a piece.
    :raises CheckpointCorruptError: a file is missing, damaged or another one.
    :raises CheckpointVersionError: a newer engine has written it.
    """
    allow_many_open_files()  # a large one stays open as long as it is looked into
    is_large = sum(handle.nbytes for handle in handles) > piece_bytes(scratch)
    read = _Reading(storage, query_id, scratch if is_large else None)
    newest = [
        (handle.file, handle.checksum, handle.nbytes)
        for handle in handles
        if handle.file is not None and handle.checksum is not None
    ]
    ends = read(newest)
    before = [(link.file, link.checksum, link.nbytes) for e in ends for link in e.header.chain]
    others, found = iter(read(before)), iter(ends)
    chains = []
    for handle in handles:
        end = [] if handle.file is None else [next(found)]
        chains.append([*(next(others) for each in end for _ in each.header.chain), *end])
    return chains


def read_files(
    storage: Storage, links: Sequence[Link], query_id: str | None, scratch: Scratch = HERE
) -> list[StateFile]:
    """Some files of a chain; as :func:`read_chains`."""
    allow_many_open_files()
    is_large = sum(link.nbytes for link in links) > piece_bytes(scratch)
    read = _Reading(storage, query_id, scratch if is_large else None)
    return list(read([(link.file, link.checksum, link.nbytes) for link in links]))


def read_schemas(storage: Storage, handles: Sequence[SnapshotHandle]) -> dict[TableHead, pa.Schema]:
    """The tables of the files behind the handles, of which no more than the beginning is read.

    :raises CheckpointCorruptError: a file is missing, or is no snapshot.
    :raises CheckpointVersionError: a newer engine has written it.
    """
    found: dict[TableHead, pa.Schema] = {}
    names = [handle.file for handle in handles if handle.file is not None]
    ends = storage.together(*(partial(_head, storage, name) for name in names))
    before = {link.file for header, _ in ends for link in header.chain}
    others = storage.together(*(partial(_head, storage, name) for name in sorted(before)))
    for header, schemas in (*ends, *others):
        found |= zip(header.tables, schemas, strict=True)
    return found


def _head(storage: Storage, name: str) -> tuple[Header, list[pa.Schema]]:
    with _refusing(storage, name):
        return head_of(storage.beginning(name))


@contextmanager
def _refusing(storage: Storage, name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise _refused(storage, name, "is missing") from None
    except CheckpointVersionError as exc:
        raise CheckpointVersionError(
            f"{storage.path(name)} cannot be read. {exc.message}", hint=exc.hint
        ) from exc
    except ValueError as exc:
        raise _refused(storage, name, f"cannot be read: {exc}") from exc


@dataclass(frozen=True)
class _Reading:
    """:param scratch: large files are looked into where they are, or in a copy; None: all are held
    in memory."""

    storage: Storage
    query_id: str | None
    scratch: Scratch | None

    def __call__(self, wanted: Sequence[tuple[str, str, int]]) -> Sequence[StateFile]:
        """:param wanted: names, checksums, and no fewer bytes than each has."""
        return self.storage.together(*(partial(self._read, *each) for each in wanted))

    def _read(self, name: str, checksum: str, nbytes: int) -> StateFile:
        with _refusing(self.storage, name):
            data = self._content(name, nbytes)
            if checksum_of(data) != checksum:
                raise _refused(self.storage, name, _difference(name, data, self.query_id))
            header, tables = decode(data)
        link = Link(name, checksum, len(data), sum(table.num_rows for table in tables))
        return StateFile(header, dict(zip(header.tables, tables, strict=True)), link)

    def _content(self, name: str, nbytes: int) -> Content:
        if self.scratch is None or nbytes < _MAPPED_MIN or not self.storage.info(name).size:
            return self.storage.read(name)
        with self.scratch.file() as file, self.scratch.told():
            return self.storage.mapped(name, file)


def _difference(name: str, data: Content, query_id: str | None) -> str:
    """What is wrong with a file that has another checksum than it should have."""
    try:
        header = header_of(data)
    except (ValueError, CheckpointVersionError):
        return f"is torn: its {len(data)} bytes are no snapshot"
    wanted = SnapshotName.parse(name)
    found = (header.stage, header.epoch, header.first_group, header.end_group)
    if query_id is not None and header.query_id != query_id:
        return f"is a file of another query, {header.query_id}"
    if wanted is None or found != (
        wanted.stage, wanted.epoch, wanted.first_group, wanted.end_group
    ):  # fmt: skip
        return (
            f"is another file: stage {header.stage} behind epoch {header.epoch}, key groups "
            f"{header.first_group} to {header.end_group - 1}"
        )
    return "is damaged, or of another run: its checksum is not that of the file that was written"


def _refused(storage: Storage, name: str, fault: str) -> CheckpointCorruptError:
    wanted = SnapshotName.parse(name)
    return CheckpointCorruptError(
        f"The snapshot {storage.path(name)} {fault}.",
        hint=HINT,
        epoch=None if wanted is None else wanted.epoch,
    )

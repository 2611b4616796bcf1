"""What is in a table, and at its place; and a snapshot that Iceberg's client does not make."""

from __future__ import annotations

from collections.abc import Iterator

from pyarrow import fs as arrow_fs
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import ManifestContent, ManifestEntry
from pyiceberg.table import Table, Transaction
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, ancestors_of
from pyiceberg.table.update.snapshot import _OverwriteFiles


class Replacement(_OverwriteFiles):
    """A snapshot with the same rows as before, in other files: operation ``replace``. Readers of
    what comes anew pass over it."""

    def __init__(self, transaction: Transaction, io: FileIO, told: dict[str, str]) -> None:
        super().__init__(Operation.OVERWRITE, transaction, io, snapshot_properties=told)

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summary = super()._summary(snapshot_properties or {})
        return Summary(Operation.REPLACE, **summary.additional_properties)


def history_of(table: Table) -> Iterator[Snapshot]:
    """The snapshots that the table's rows are from, the newest first, as far as it has them."""
    return iter(ancestors_of(table.current_snapshot(), table.metadata))


def entries(table: Table) -> Iterator[ManifestEntry]:
    """The data files that the table's rows are in now, with what it knows of them."""
    snapshot = table.current_snapshot()
    for manifest in () if snapshot is None else snapshot.manifests(table.io):
        if manifest.content == ManifestContent.DATA:
            yield from manifest.fetch_manifest_entry(table.io, discard_deleted=True)


def data_files(table: Table) -> Iterator[ManifestFile]:
    """Those that the table's rows are in now."""
    return (entry.data_file for entry in entries(table))


def files_below(table: Table, root: str) -> Iterator[tuple[str, arrow_fs.FileInfo]]:
    """All files at a place of the table: location, and what the storage tells of it. None where
    they cannot be listed."""
    if not isinstance(table.io, PyArrowFileIO):
        return
    path, below = _below(table.io, root, recursive=True)
    for found in below:
        if found.type == arrow_fs.FileType.File:
            yield root + found.path.removeprefix(path), found


def has_files(io: FileIO, root: str) -> bool | None:
    """Whether anything is at a place; None if that cannot be listed.

    :raises OSError: the storage does not answer.
    """
    return bool(_below(io, root)[1]) if isinstance(io, PyArrowFileIO) else None


def _below(
    io: PyArrowFileIO, root: str, *, recursive: bool = False
) -> tuple[str, list[arrow_fs.FileInfo]]:
    """A place as its file system names it, and what is there."""
    scheme, netloc, path = io.parse_location(root, io.properties)
    selector = arrow_fs.FileSelector(path, recursive=recursive, allow_not_found=True)
    return path, io.fs_by_scheme(scheme, netloc).get_file_info(selector)


def places_of(table: Table) -> LocationProvider:
    """Where the table's files are."""
    return load_location_provider(table.location(), table.properties)

"""Looks after a table of Iceberg: see :mod:`engine.sinks.lakes.maintenance`.

A compaction is a snapshot with the same rows (operation ``replace``). Snapshots expire by
themselves: their files go with a vacuum, which removes what no snapshot that is left names, data
files, manifests and metadata. What queries know their epochs by is a property of the table, which
stays.

Source: Iceberg's spec, snapshot retention policy; RemoveSnapshots and DeleteOrphanFiles of Java.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.table import FileScanTask, Table, TableProperties
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.table.update.snapshot import ExpireSnapshots

from engine.errors import ConfigError
from engine.sinks.iceberg.contents import entries, files_below, history_of, places_of
from engine.sinks.iceberg.data_files import DataFile, OpenFile, location_of
from engine.sinks.iceberg.names import OWNER
from engine.sinks.iceberg.schemas import unkept
from engine.sinks.iceberg.table_log import PROPERTY, IcebergLog, Mark, mark_of, note_in, once
from engine.sinks.iceberg.writer import CODEC, file_format
from engine.sinks.lakes.notes import epochs_in
from engine.sinks.lakes.origins import may_be_committed, origin_of, query_part
from engine.sinks.lakes.upkeep import Orders, Swap, TableFile, Upkeep
from engine.sinks.lakes.writer import FILE_BYTES

_AGE_MS: Final = "history.expire.max-snapshot-age-ms", 432_000_000
_KEPT: Final = "history.expire.min-snapshots-to-keep", 1
_NOT_OURS: Final = ("_", ".", "version-hint")
"""What other tools keep beside a table's files."""
_COLLECTED: Final = "gc.enabled"


class IcebergUpkeep(Upkeep[ManifestFile, DataFile]):
    """
    :param compression: of files that are made; None: the table says.
    :param file_bytes: how large they should be; None: likewise.
    """

    def __init__(self, log: IcebergLog, compression: str | None, file_bytes: int | None) -> None:
        self._log, self._compression, self._file_bytes = log, compression, file_bytes
        self.where = log.where

    def check(self, orders: Orders) -> None:
        if not self._log.exists():
            raise ConfigError(f"{OWNER}: there is no Iceberg table {self.where}.")
        table = self._log.look()
        self._facts = self._log.facts()
        problem = next(self._problems(table, orders), None)
        if problem is not None:
            raise ConfigError(f"{OWNER}: the table {self.where} {problem}")

    def _problems(self, table: Table, orders: Orders) -> Iterator[str]:
        if orders.compact:
            yield from unkept(self._facts)
        if (orders.expire or orders.vacuum) and (
            table.properties.get(_COLLECTED, "true").lower() == "false"
        ):
            yield f"has {_COLLECTED} = false: its files may be those of other tables, too."
        if not orders.vacuum:
            return
        if not isinstance(table.io, PyArrowFileIO):
            yield "cannot be vacuumed: its files cannot be listed with this py-io-impl."
        for place in _roots(table):
            if not f"{place}/".startswith(f"{table.location().rstrip('/')}/"):
                yield (
                    f"cannot be vacuumed: it has files in {place}, beside its own location, where "
                    "other tables may have theirs."
                )

    def file_bytes(self) -> int:
        said = self._facts.properties.get(TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, FILE_BYTES)
        return self._file_bytes or int(said)

    def files(self) -> Sequence[TableFile[ManifestFile]]:
        return list(self._files(self._log.look()).values())

    def _files(self, table: Table) -> dict[str, TableFile[ManifestFile]]:
        found = {}
        with self._log.speaking("cannot be read"):
            fixed = _with_deletes(table)
            for entry in entries(table):
                file = entry.data_file
                snapshot = table.snapshot_by_id(entry.snapshot_id or 0)
                is_fixed = (
                    file.spec_id != table.spec().spec_id
                    or file.file_format != FileFormat.PARQUET
                    or fixed is None
                    or file.file_path in fixed
                )
                found[file.file_path] = TableFile(
                    file.file_path,
                    file.file_size_in_bytes,
                    None if is_fixed else tuple(_values(file)),
                    0 if snapshot is None else snapshot.timestamp_ms,
                    file,
                )
        return found

    # -- compaction -----------------------------------------------------------------------------

    def rewrite(self, files: Sequence[TableFile[ManifestFile]]) -> DataFile:
        table, facts = self._log.look(), self._facts
        codec = self._compression or facts.properties.get(
            TableProperties.PARQUET_COMPRESSION, CODEC
        )
        made_as = file_format(codec)
        schema = facts.arrow([field.name for field in facts.schema.fields])
        values = tuple(_values(files[0].file))
        # No name of an epoch's file: it is nothing that a rewind takes out, or a start removes.
        name = f"compacted-{uuid.uuid4()}{made_as.extension}"
        try:
            path = location_of(places_of(table), facts, self.where, values, name)
            made = OpenFile(table.io, path, values, made_as, facts, schema)
            try:
                scan = ArrowScan(table.metadata, table.io, facts.schema, AlwaysTrue())
                for file in files:  # one by one, for a scan holds all that it is given
                    for batch in scan.to_record_batches([FileScanTask(file.file)]):
                        made.write(_as(batch, schema))
                made.end()
                return made.finish()
            except BaseException:
                made.discard()
                raise
        except FileNotFoundError:
            raise
        except OSError as exc:
            raise self._log.unavailable("cannot be compacted", exc) from exc

    def swap(
        self, swaps: Sequence[Swap[ManifestFile, DataFile]]
    ) -> Sequence[Swap[ManifestFile, DataFile]]:
        made: list[Swap[ManifestFile, DataFile]] = []

        def find(table: Table) -> tuple[Sequence[ManifestFile], Sequence[ManifestFile]]:
            there = self._files(table)
            facts = self._log.facts_of(table)
            made[:] = [
                swap
                for swap in swaps
                if facts == self._facts
                and table.io.new_input(swap.new.path).exists()
                and all(_is_same(file, there.get(file.path)) for file in swap.old)
            ]
            return (
                [there[file.path].file for swap in made for file in swap.old],
                [swap.new.entry(facts) for swap in made],
            )

        def is_done(table: Table) -> bool:
            return bool(made) and made[0].new.path in self._files(table)

        self._log.replace(find, is_done)
        return made

    def discard(self, new: DataFile) -> None:
        self._log.remove_file(new.path)

    # -- what is old ----------------------------------------------------------------------------

    def expire(self, orders: Orders, now_ms: int) -> int:
        gone: list[int] = []

        def commit(table: Table) -> None:
            gone[:] = _expired(table, orders, now_ms)
            if not gone or orders.dry_run:
                return
            transaction, current = once(table), table.current_snapshot()
            ExpireSnapshots(transaction).by_ids(gone).commit()
            # What was decided is about the table as it was then.
            main = {
                "type": "assert-ref-snapshot-id",
                "ref": "main",
                "snapshot-id": None if current is None else current.snapshot_id,
            }
            is_same = AssertRefSnapshotId.model_validate(main)
            transaction._stage((), (is_same,))
            transaction.commit_transaction()

        def is_done(table: Table) -> bool:
            return bool(gone) and not any(table.snapshot_by_id(each) for each in gone)

        self._log.change(commit, is_done)
        return len(gone)

    def garbage(self, orders: Orders, now_ms: int) -> Mapping[str, int]:
        # What is there is listed before the table is looked at: what is committed in between is
        # found to be a part of it.
        table = self._log.look()
        with self._log.speaking("cannot be listed"):
            found = [each for root in _roots(table) for each in files_below(table, root)]
        table = self._log.look()
        retain_s = _age_ms(table) / 1000 if orders.retain_s is None else orders.retain_s
        before_s = now_ms / 1000 - retain_s
        with self._log.speaking("cannot be read"):
            named = {_key(path) for path in _named(table)}
        marks = {
            query_part(query_id): mark_of(table, query_id)
            for query_id in (
                name.removeprefix(PROPERTY)
                for name in table.properties
                if name.startswith(PROPERTY)
            )
        }
        return {
            path: info.size
            for path, info in found
            if info.mtime.timestamp() < before_s
            and not info.base_name.startswith(_NOT_OURS)
            and _key(path) not in named
            and not _may_be_committed(path, marks)
        }

    def remove(self, path: str) -> None:
        self._log.remove_file(path)


def _is_same(file: TableFile[ManifestFile], now: TableFile[ManifestFile] | None) -> bool:
    """Whether it is still there, and none of its rows were deleted."""
    return now is not None and now.group == file.group


def _values(file: ManifestFile) -> Iterator[Any]:
    return (file.partition[number] for number in range(len(file.partition)))


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    columns = [batch.column(each.name).cast(each.type) for each in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _with_deletes(table: Table) -> set[str] | None:
    """Data files of which rows are deleted beside them; None: all may be."""
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    if all(each.content == ManifestContent.DATA for each in manifests):
        return set()
    try:
        tasks = table.scan().plan_files()
    except (NotImplementedError, ValueError):  # equality deletes
        return None
    return {task.file.file_path for task in tasks if task.delete_files}


def _age_ms(table: Table) -> int:
    name, default = _AGE_MS
    return int(table.properties.get(name, default))


def _expired(table: Table, orders: Orders, now_ms: int) -> list[int]:
    """The snapshots that are too old, and that no branch or tag, and no rewind, can need."""
    age_ms = _age_ms(table) if orders.retain_s is None else int(orders.retain_s * 1000)
    rewindable_ms = int(orders.reach_s * 1000)
    name, default = _KEPT
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
    for ref in table.metadata.refs.values():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            at_least = ref.min_snapshots_to_keep or int(table.properties.get(name, default))
            own_age_ms = age_ms if ref.max_snapshot_age_ms is None else ref.max_snapshot_age_ms
            since_ms = now_ms - max(own_age_ms, rewindable_ms)
            history = ancestors_of(table.snapshot_by_id(ref.snapshot_id), table.metadata)
            for number, snapshot in enumerate(history):
                if number < at_least or snapshot.timestamp_ms >= since_ms:
                    kept.add(snapshot.snapshot_id)
    kept |= {each.snapshot_id for each in _behind_pins(table, orders.pinned)}
    since_ms = now_ms - max(age_ms, rewindable_ms)
    return [
        each.snapshot_id
        for each in table.snapshots()
        if each.snapshot_id not in kept and each.timestamp_ms < since_ms
    ]


def _behind_pins(table: Table, pinned: Mapping[str, int]) -> Iterator[Snapshot]:
    """The history that a rewind to these epochs reads: back to the last commit that stays."""
    open_ = {
        query_id: epoch
        for query_id, epoch in pinned.items()
        if (mark := mark_of(table, query_id)) is not None and mark.epoch > epoch
    }
    for snapshot in history_of(table):
        if not open_:
            return
        yield snapshot
        note = note_in(snapshot) or {}
        query_id, epochs = note.get("query", ""), epochs_in(note)
        if query_id in open_ and epochs and epochs[0][0] <= open_[query_id]:
            del open_[query_id]


def _roots(table: Table) -> list[str]:
    places = places_of(table)
    return sorted({places.data_path, places.metadata_path})


def _named(table: Table) -> Iterator[str]:
    """All files that the table, or a state of it that is kept, has."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (each.metadata_file for each in metadata.metadata_log)
    yield from (each.statistics_path for each in metadata.statistics)
    yield from (each.statistics_path for each in metadata.partition_statistics)
    read: set[str] = set()
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in read:
                continue
            read.add(manifest.manifest_path)
            yield manifest.manifest_path
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file.file_path


def _key(location: str) -> str:
    """A place, however its scheme is written: ``s3``, ``s3a``, ``file`` or none."""
    scheme, colon, rest = location.partition(":")
    return (rest if colon and "/" not in scheme else location).lstrip("/")


def _may_be_committed(path: str, marks: Mapping[str, Mark | None]) -> bool:
    origin = origin_of(path)
    if origin is None:
        return False
    mark = marks.get(origin.query)
    return may_be_committed(origin, None if mark is None else (mark.timeline, mark.epoch))

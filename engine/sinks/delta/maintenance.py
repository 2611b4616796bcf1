"""Looks after a table of Delta: see :mod:`engine.sinks.lakes.maintenance`.

A compaction is a commit of files with the same rows (``dataChange`` false). To forget old states is
to write a checkpoint of the table's log, and to remove the entries behind it that are older than
``delta.logRetentionDuration``. The identifiers by which queries know their epochs are part of each
checkpoint. ``VACUUM`` is Delta's own, less what a query may yet commit.

Source: Delta's PROTOCOL.md; delta-rs, vacuum.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from engine.base.options import parse_interval_ms
from engine.errors import ConfigError
from engine.sinks.delta.data_files import DataFile, OpenFile
from engine.sinks.delta.schemas import OWNER, unkept
from engine.sinks.delta.table_log import DeltaLog, epochs_of, has_vectors
from engine.sinks.files.file_formats import ParquetFormat
from engine.sinks.files.partition_paths import folder_of
from engine.sinks.lakes.origins import may_be_committed, origin_of
from engine.sinks.lakes.upkeep import Orders, Swap, TableFile, Upkeep
from engine.sinks.lakes.writer import FILE_BYTES

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

_ROWS: Final = 131_072
_HOUR_S: Final = 3_600
_FILE_BYTES: Final = "delta.targetFileSize"
_FILES_KEPT: Final = "delta.deletedFileRetentionDuration", "interval 1 week"
_LOG_KEPT: Final = "delta.logRetentionDuration", "interval 30 days"

Values = tuple[str | None, ...]


class DeltaUpkeep(Upkeep[Values, DataFile]):
    """
    :param file_format: of the files that are made.
    :param file_bytes: how large they should be; None: as the table says.
    """

    def __init__(self, log: DeltaLog, file_format: ParquetFormat, file_bytes: int | None) -> None:
        self._log, self._place, self._format = log, log.place, file_format
        self._file_bytes = file_bytes
        self.where = log.where

    def check(self, orders: Orders) -> None:
        if not self._log.exists():
            raise ConfigError(f"{OWNER}: there is no Delta table at {self.where}.")
        facts = self._facts = self._log.facts()
        problem = next(unkept(facts), None) if orders.compact else None
        if orders.compact and has_vectors(self._log.look()):
            problem = "has deletion vectors, which are not kept here."
        if problem is not None:
            raise ConfigError(
                f"{OWNER}: the table {self.where} {problem}",
                hint="Compact it with Delta's own OPTIMIZE while no query is to be rewound.",
            )
        name, default = _FILES_KEPT
        kept = facts.properties.get(name, default)
        if orders.vacuum and parse_interval_ms(kept, name) < (orders.retain_s or 0) * 1000:
            raise ConfigError(
                f"{OWNER}: the table {self.where} forgets after {kept} which files were taken out "
                f"of it, and they are to stay for {orders.retain_s:g} s.",
                hint=f"Set {name} of the table.",
            )
        name, default = _LOG_KEPT
        kept = facts.properties.get(name, default)
        if orders.expire and parse_interval_ms(kept, name) < orders.reach_s * 1000:
            raise ConfigError(
                f"{OWNER}: the table {self.where} keeps its log for {kept}, and a rewind is to "
                f"reach back {orders.reach_s:g} s.",
                hint=f"Set {name} of the table, or let rewinds reach back less.",
            )

    def file_bytes(self) -> int:
        said = self._facts.properties.get(_FILE_BYTES, str(self._file_bytes or FILE_BYTES))
        if self._file_bytes is None and not said.isdecimal():
            raise ConfigError(
                f"{OWNER}: the table {self.where} has {_FILE_BYTES} = {said}, which is no number "
                "of bytes.",
                hint="Say how large files should be.",
            )
        return self._file_bytes or int(said)

    def files(self) -> Sequence[TableFile[Values]]:
        return list(self._files(self._log.look()).values())

    def _files(self, table: DeltaTable) -> dict[str, TableFile[Values]]:
        with self._log.speaking("cannot be read"):
            actions = pa.table(table.get_add_actions())
            columns = table.metadata().partition_columns
        found = {}
        for each in actions.to_pylist():
            path = unquote(each["path"])
            values = tuple(_text(each["partition"][column]) for column in columns)
            found[path] = TableFile(
                path,
                each["size_bytes"],
                values,
                each["modification_time"],
                values,
            )
        return found

    # -- compaction -----------------------------------------------------------------------------

    def rewrite(self, files: Sequence[TableFile[Values]]) -> DataFile:
        partition_by, values = self._facts.partition_by, files[0].file
        folder = folder_of(partition_by, values)
        schema = self._schema()
        # No name of an epoch's file: it is nothing that a rewind takes out, or a start removes.
        name = f"compacted-{uuid.uuid4()}{self._format.extension}"
        try:
            made = OpenFile(
                self._place,
                f"{folder}/{name}" if folder else name,
                dict(zip(partition_by, values, strict=True)),
                self._format,
                schema,
            )
            try:
                for file in files:
                    self._copy(file.path, made, schema)
                made.end()
                done = made.finish()
            except BaseException:
                made.discard()
                raise
            self._place.settle([folder])
        except FileNotFoundError:
            raise
        except OSError as exc:
            raise self._log.unavailable("cannot be compacted", exc) from exc
        return done

    def _schema(self) -> pa.Schema:
        """Of the rows in a file."""
        told = pa.schema(self._log.look().schema().to_arrow())
        return pa.schema([each for each in told if each.name not in self._facts.partition_by])

    def _copy(self, path: str, target: OpenFile, schema: pa.Schema) -> None:
        with self._place.open(path) as source:
            rows = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            for batch in rows.iter_batches(batch_size=_ROWS):
                columns = [
                    batch.column(each.name).cast(each.type)
                    if each.name in batch.schema.names
                    else pa.nulls(batch.num_rows, each.type)
                    for each in schema
                ]
                target.write(pa.Table.from_arrays(columns, schema=schema))

    def swap(self, swaps: Sequence[Swap[Values, DataFile]]) -> Sequence[Swap[Values, DataFile]]:
        from deltalake.transaction import RemoveAction

        made: list[Swap[Values, DataFile]] = []
        now_ms = time.time_ns() // 1_000_000

        def find(table: DeltaTable) -> list[AddAction | RemoveAction]:
            there = {} if has_vectors(table) else self._files(table)
            made[:] = [
                swap
                for swap in swaps
                if self._place.size(swap.new.path) == swap.new.size
                and all(there.get(file.path) == file for file in swap.old)
            ]
            return [
                *(
                    RemoveAction(
                        path=file.path,
                        data_change=False,
                        deletion_timestamp=now_ms,
                        size=file.size,
                        partition_values=swap.new.partition_values,
                    )
                    for swap in made
                    for file in swap.old
                ),
                *(swap.new.action(is_news=False) for swap in made),
            ]

        def is_done(table: DeltaTable) -> bool:
            return bool(made) and made[0].new.path in self._files(table)

        note = {"compacted": sum(len(swap.old) for swap in swaps)}
        self._log.replace(find, note, is_done)
        return made

    def discard(self, new: DataFile) -> None:
        self._place.remove(new.path)

    # -- what is old ----------------------------------------------------------------------------

    def expire(self, orders: Orders, now_ms: int) -> int | None:
        if self._facts.properties.get("delta.enableExpiredLogCleanup", "").lower() == "false":
            return 0
        if orders.dry_run:
            return None
        table = self._log.look()
        with self._log.speaking("cannot forget its old log"):
            before = self._place.log_names()
            table.create_checkpoint()
            # Else a power failure could leave neither it nor what it stands for.
            self._place.settle_log(range(table.version(), table.version() + 1))
            table.cleanup_metadata()
            return len(before - self._place.log_names())

    def garbage(self, orders: Orders, now_ms: int) -> Mapping[str, int]:
        table = self._log.look()
        hours = None if orders.retain_s is None else math.ceil(orders.retain_s / _HOUR_S)
        with self._log.speaking("cannot be listed"):
            found = table.vacuum(
                retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True
            )
            # As of the same version: what is committed from now on was not before.
            kept = self._may_be_committed(table, found)
            return {path: self._place.size(path) or 0 for path in found if path not in kept}

    def _may_be_committed(self, table: DeltaTable, strays: Sequence[str]) -> set[str]:
        """Those of the strays that a query may yet commit.

        The table tells how far a query has come in a timeline, and not which timelines it has: that
        the files' names tell. One that none tells any more makes nothing go that is needed.
        """
        origins = {path: origin for path in strays if (origin := origin_of(path)) is not None}
        if not origins:
            return set()
        queries = {each.query for each in origins.values()}
        named = (*origins.values(), *filter(None, map(origin_of, self._files(table))))
        timelines = {(each.query, each.timeline) for each in named if each.query in queries}
        newest: dict[str, tuple[int, int]] = {}
        for query, timeline in sorted(timelines):
            epoch = table.transaction_version(epochs_of(query, timeline))
            if epoch is not None:
                newest[query] = timeline, epoch
        return {
            path
            for path, origin in origins.items()
            if may_be_committed(origin, newest.get(origin.query))
        }

    def remove(self, path: str) -> None:
        with self._log.speaking("has a file that cannot be removed"):
            self._log.remove_file(path)


def _text(value: Any) -> str | None:
    """A value of a partition as the log has it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)

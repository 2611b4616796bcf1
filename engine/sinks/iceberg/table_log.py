"""A table's log: what a query has committed to it, and how it commits more.

See :mod:`engine.sinks.lakes.table_log`. Each commit is one snapshot, and sets one of the table's
properties with it::

    continuous.<query id>    {"epoch":7,"generation":3,"timeline":0}

A property stays when others expire the snapshots, and is set if and only if the snapshot is there.
What the snapshot is, its summary tells, for a rewind and for people::

    continuous               {"query":"...","epoch":7,"files":2}

(see :mod:`engine.sinks.lakes.notes`). A commit names the snapshot that it comes
behind, and the catalog refuses it if another one is the table's by then. So everything that must
shut others out makes a snapshot, without files if need be: a commit that only sets the property
would be overtaken unseen. For the same reason no rewind makes an earlier snapshot the current one
again: who has slept since would find it as it was. Iceberg's client tries again by itself what was
refused, on top of what others have committed, a later run of this query among them; it is told not
to.

Source: Iceberg's spec, optimistic concurrency, and table requirements of the REST catalog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.snapshots import Snapshot

from engine.checkpoint.sink_context import SinkContext
from engine.errors import SinkUnavailableError
from engine.sinks.iceberg.catalogs import TableName, Tables
from engine.sinks.iceberg.contents import Replacement, data_files, files_below, places_of
from engine.sinks.iceberg.data_files import DataFile
from engine.sinks.iceberg.names import OWNER
from engine.sinks.iceberg.schemas import Rows, TableFacts
from engine.sinks.lakes.notes import note_of, note_of_epochs
from engine.sinks.lakes.table_log import TableLog

PROPERTY: Final = "continuous."
NOTE: Final = "continuous"
NEW_TABLE: Final[Mapping[str, str]] = {
    TableProperties.FORMAT_VERSION: "2",
    # Each commit writes the table's metadata anew.
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
}
"""Properties of a table that is made here."""


class Mark(NamedTuple):
    """What a table says of a query."""

    epoch: int
    generation: int
    timeline: int


class IcebergLog(TableLog[Table, TableFacts, Rows, DataFile]):
    """
    :param location: where the table's files are if it is made; None: the catalog says.
    """

    owner: ClassVar[str] = OWNER
    hint: ClassVar[str] = (
        "See that its catalog and its storage can be reached, and the options that begin with "
        "catalog."
    )

    def __init__(self, name: TableName, location: str | None = None) -> None:
        self.where = str(name)
        self._name, self._location = name, location
        self._tables = Tables(name)
        self._io: FileIO | None = None  # of the last look

    def another(self) -> IcebergLog:
        return IcebergLog(self._name, self._location)

    # -- the table ------------------------------------------------------------------------------

    def exists(self) -> bool:
        self.forget()
        with self.speaking("cannot be read"):
            return self._tables.find() is not None

    def create(self, rows: Rows) -> None:
        catalog, name = self._tables.catalog, self._name.name
        with self.speaking("cannot be created"):
            catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
            catalog.create_table_if_not_exists(
                name,
                rows.schema,
                location=self._location,
                partition_spec=rows.spec(),
                properties=dict(NEW_TABLE),
            )

    def add_columns(self, rows: Rows, names: Sequence[str]) -> None:
        table = self.look()
        with self.speaking("cannot be given columns"), table.update_schema() as update:
            for name in names:
                update.add_column(name, rows.schema.find_field(name).field_type)

    def look(self) -> Table:
        with self.speaking("cannot be read"):
            table = self._tables.find()
        if table is None:
            raise SinkUnavailableError(
                f"{OWNER}: there is no table {self.where}, and there was one.",
                hint="See that it is the same catalog, or bring the table back.",
            )
        self._io = table.io
        return table

    def forget(self) -> None:
        self._tables.forget()
        self._io = None

    def remove_file(self, path: str) -> None:
        io = self._io or self.look().io
        with self.speaking("has a file that cannot be removed"), suppress(FileNotFoundError):
            io.delete(path)

    def strays(self, is_one: Callable[[str], bool] = lambda path: True) -> list[str]:
        table = self.look()
        with self.speaking("cannot be listed"):
            root = places_of(table).data_path
            found = {path for path, _ in files_below(table, root) if is_one(path)}
            if found:
                found -= {file.file_path for file in data_files(table)}
        return sorted(found)

    def facts_of(self, table: Table) -> TableFacts:
        return TableFacts(
            id=str(table.metadata.table_uuid),
            schema=table.schema(),
            spec=table.spec(),
            location=table.location(),
            format_version=table.format_version,
            properties={
                key: value
                for key, value in table.properties.items()
                if key.startswith(("write.", "encryption."))
            },
        )

    # -- what a query has in it -----------------------------------------------------------------

    def commit(
        self,
        context: SinkContext,
        epochs: Mapping[int, Sequence[DataFile]],
        check: Callable[[TableFacts], None],
    ) -> None:
        epoch = max(epochs)

        def is_done(table: Table) -> bool:
            latest = self._epoch(table, context)
            return latest is not None and latest >= epoch

        def commit(table: Table) -> None:
            facts = self.facts_of(table)
            missing = self._missing(table, context, epochs)
            entries = [file.entry(facts) for files in missing.values() for file in files]
            self._add(table, entries, note_of_epochs(context, missing), context, epoch)

        self._write(context, commit, is_done, check)

    def fence(self, context: SinkContext) -> None:
        def commit(table: Table) -> None:
            # What the table has stays told, though it be of before a rewind.
            mark = mark_of(table, context.query_id) or Mark(-1, 0, context.timeline)
            note = note_of(context, generation=context.generation)
            fenced = replace(context, timeline=mark.timeline)
            self._add(table, [], note, fenced, mark.epoch)

        self._write(
            context,
            commit,
            is_done=lambda table: self._generation(table, context) == context.generation,
        )

    def remove(
        self, context: SinkContext, find: Callable[[Table], Sequence[ManifestFile]], rewound_to: int
    ) -> None:
        """Take files out of the table, and shut out earlier runs.

        :param find: which, of the table as it is.
        :raises ContinuousError: as :meth:`commit`.
        """
        note = note_of(context, rewoundTo=rewound_to)

        def commit(table: Table) -> None:
            files = find(table)
            if not files:
                self._add(table, [], note, context, rewound_to)
                return
            transaction = once(table)
            update = transaction.update_snapshot(snapshot_properties=_summary(note))
            with update.overwrite() as overwrite:
                for file in files:
                    overwrite.delete_data_file(file)
            self._end(transaction, context, rewound_to)

        self._write(context, commit)

    def replace(
        self,
        find: Callable[[Table], tuple[Sequence[ManifestFile], Sequence[ManifestFile]]],
        is_done: Callable[[Table], bool],
    ) -> None:
        """Exchange files for others with the same rows. It is no commit of a query.

        :param find: those that go, of the table as it is, and those that come; none: nothing is
            committed.
        :raises ContinuousError: as :meth:`commit`.
        """

        def commit(table: Table) -> None:
            old, new = find(table)
            if not old:
                return
            transaction = once(table)
            note = {"compacted": len(old)}
            with Replacement(transaction, table.io, _summary(note)) as replacement:
                for file in old:
                    replacement.delete_data_file(file)
                for file in new:
                    replacement.append_data_file(file)
            transaction.commit_transaction()

        self.change(commit, is_done)

    def _add(
        self,
        table: Table,
        files: Sequence[ManifestFile],
        note: Mapping[str, Any],
        context: SinkContext,
        epoch: int,
    ) -> None:
        transaction = once(table)
        update = transaction.update_snapshot(snapshot_properties=_summary(note))
        with update.merge_append() as append:
            for file in files:
                append.append_data_file(file)
        self._end(transaction, context, epoch)

    def _end(self, transaction: Transaction, context: SinkContext, epoch: int) -> None:
        mark = Mark(epoch, context.generation, context.timeline)
        told = json.dumps(mark._asdict(), separators=(",", ":"))
        transaction.set_properties({PROPERTY + context.query_id: told})
        transaction.commit_transaction()

    def _epoch(self, table: Table, context: SinkContext) -> int | None:
        mark = mark_of(table, context.query_id)
        if mark is None or mark.timeline != context.timeline or mark.epoch < 0:
            return None
        return mark.epoch

    def _generation(self, table: Table, context: SinkContext) -> int | None:
        mark = mark_of(table, context.query_id)
        return None if mark is None else mark.generation

    def _is_overtaken(self, error: Exception) -> bool:
        return isinstance(error, CommitFailedException)


def note_in(snapshot: Snapshot) -> dict[str, Any] | None:
    """What a commit of this engine tells of itself."""
    told = snapshot.summary[NOTE] if snapshot.summary is not None else None
    return None if told is None else dict(json.loads(told))


def mark_of(table: Table, query_id: str) -> Mark | None:
    """What the table says of a query."""
    told = table.properties.get(PROPERTY + query_id)
    return None if told is None else Mark(**json.loads(told))


def once(table: Table) -> Transaction:
    """A transaction that is refused if the table is another by now. What is set here is not
    written."""
    properties = table.metadata.properties
    properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    # As Iceberg has it by default, and its Python client not.
    properties.setdefault(TableProperties.MANIFEST_MERGE_ENABLED, "true")
    return table.transaction()


def _summary(note: Mapping[str, Any]) -> dict[str, str]:
    return {NOTE: json.dumps(note, separators=(",", ":"))}

"""A table's log: what a query has committed to it, and how it commits more.

See :mod:`engine.sinks.lakes.table_log`. Each commit carries two of Delta's transaction
identifiers::

    continuous/<query id>               the generation of the run that commits
    continuous/<query id>/<timeline>    the epoch, the last if there are several

Delta refuses a commit if another one with the same identifier was made since the look, and tries
again by itself if any other was made.

Source: Delta's PROTOCOL.md, transaction identifiers; Spark's DeltaSink; delta-rs, conflict_checker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.sinks.delta.data_files import DataFile
from engine.sinks.delta.places import Place
from engine.sinks.delta.schemas import OWNER, Rows, TableFacts
from engine.sinks.lakes.notes import note_of, note_of_epochs
from engine.sinks.lakes.table_log import TableLog, reason_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction, Transaction

INSTALL: Final = "pip install 'airflow-provider-continuous[delta]'"
_UNSAFE: Final = "aws_s3_allow_unsafe_rename"
UNSURE_MAX: Final = 100
"""What a run that died may not have synchronised is among so many versions, the newest."""
STORAGE: Final = "storage."
"""What the options that are for Delta's own client begin with."""
NOTE: Final = "continuous"
"""Under this key a commit's ``commitInfo`` tells what it is, for a rewind and for people."""


class DeltaLog(TableLog["DeltaTable", TableFacts, Rows, DataFile]):
    """
    :param storage_options: of Delta's own client.
    """

    owner: ClassVar[str] = OWNER
    hint: ClassVar[str] = (
        "See that its storage can be reached, and the option path and those that begin with "
        "storage."
    )

    def __init__(self, place: Place, storage_options: dict[str, str]) -> None:
        self.place = place
        self.where = place.url
        self._options = storage_options
        self._table: DeltaTable | None = None

    def another(self) -> DeltaLog:
        return DeltaLog(self.place, self._options)

    # -- the table ------------------------------------------------------------------------------

    def exists(self) -> bool:
        from deltalake.exceptions import TableNotFoundError

        self.forget()
        try:
            self.look()
        except SinkUnavailableError as exc:
            if isinstance(exc.__cause__, TableNotFoundError):
                return False
            raise
        return True

    def create(self, rows: Rows) -> None:
        from deltalake import DeltaTable, Schema

        with self.speaking("cannot be created"):
            DeltaTable.create(
                self.place.url,
                Schema.from_json(json.dumps(rows.schema())),
                mode="ignore",
                partition_by=list(rows.partition_by or ()),
                storage_options=self._options,
            )
            self.place.settle_log(range(1))
        self.forget()

    def add_columns(self, rows: Rows, names: Sequence[str]) -> None:
        from deltalake import Schema

        table = self.look()
        before = table.version()
        with self.speaking("cannot be given columns"):
            table.alter.add_columns(Schema.from_json(json.dumps(rows.schema(names))).fields)
        self._settle_behind(before)

    def look(self) -> DeltaTable:
        from deltalake import DeltaTable

        with self.speaking("cannot be read"):
            if self._table is None:
                self._table = DeltaTable(self.place.url, storage_options=self._options)
            else:
                self._table.update_incremental()
            return self._table

    def forget(self) -> None:
        self._table = None

    def strays(self, is_one: Callable[[str], bool] = lambda path: True) -> list[str]:
        """Those that nobody has committed, and those that were replaced; paths are below the
        table's folder."""
        table = self.look()
        with self.speaking("cannot be listed"):
            found = table.vacuum(
                retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True
            )
        return [path for path in found if is_one(path)]

    def remove_file(self, path: str) -> None:
        self.place.remove(path)

    def facts_of(self, table: DeltaTable) -> TableFacts:
        metadata = table.metadata()
        return TableFacts(
            id=str(metadata.id),
            fields={each["name"]: each for each in json.loads(table.schema().to_json())["fields"]},
            partition_by=tuple(metadata.partition_columns),
            properties=dict(metadata.configuration),
        )

    # -- what a query has in it -----------------------------------------------------------------

    def commit(
        self,
        context: SinkContext,
        epochs: Mapping[int, Sequence[DataFile]],
        check: Callable[[TableFacts], None],
    ) -> None:
        from deltalake.transaction import Transaction

        epoch = max(epochs)

        def is_done(table: DeltaTable) -> bool:
            latest = self._epoch(table, context)
            return latest is not None and latest >= epoch

        told = [_run_of(context), Transaction(_epochs_of(context), epoch)]

        def commit(table: DeltaTable) -> None:
            missing = self._missing(table, context, epochs)
            adds = [file.action(is_news=True) for files in missing.values() for file in files]
            self._commit(table, note_of_epochs(context, missing), adds, told)

        self._write(context, commit, is_done, check=check)

    def fence(self, context: SinkContext) -> None:
        note = note_of(context, generation=context.generation)
        self._write(
            context,
            lambda table: self._commit(table, note, (), [_run_of(context)]),
            is_done=lambda table: self._generation(table, context) == context.generation,
        )

    def remove(
        self,
        context: SinkContext,
        find: Callable[[DeltaTable], Sequence[RemoveAction]],
        rewound_to: int,
    ) -> None:
        """Take files out of the table, and shut out earlier runs.

        :param find: which, of the table as it is.
        :raises ContinuousError: as :meth:`commit`.
        """
        note, told = note_of(context, rewoundTo=rewound_to), [_run_of(context)]
        self._write(
            context, lambda table: self._commit(table, note, find(table), told, is_alone=True)
        )

    def replace(
        self,
        find: Callable[[DeltaTable], Sequence[AddAction | RemoveAction]],
        note: dict[str, Any],
        is_done: Callable[[DeltaTable], bool],
    ) -> None:
        """Exchange files for others with the same rows. It is no commit of a query.

        :param find: which, of the table as it is; none: nothing is committed.
        :raises ContinuousError: as :meth:`commit`.
        """

        def commit(table: DeltaTable) -> None:
            self._before = table.version()
            actions = find(table)
            if actions:
                self._commit(table, note, actions, (), is_alone=True)

        self.change(commit, is_done)

    def _commit(
        self,
        table: DeltaTable,
        note: dict[str, Any],
        actions: Sequence[AddAction | RemoveAction],
        told: Sequence[Transaction],
        *,
        is_alone: bool = False,
    ) -> None:
        """:param is_alone: refused if there was any other commit since the look. Delta's client
        takes it for an append, and would let it pass when others have removed the same files."""
        from deltalake import CommitProperties

        self._before = table.version()
        table.create_write_transaction(
            list(actions),
            "append",
            table.schema(),
            list(table.metadata().partition_columns),
            commit_properties=CommitProperties(
                custom_metadata={NOTE: note},
                app_transactions=list(told),
                max_commit_retries=0 if is_alone else None,
            ),
        )

    def _epoch(self, table: DeltaTable, context: SinkContext) -> int | None:
        return table.transaction_version(_epochs_of(context))

    def _generation(self, table: DeltaTable, context: SinkContext) -> int | None:
        return table.transaction_version(_runs_of(context))

    def _is_overtaken(self, error: Exception) -> bool:
        from deltalake.exceptions import CommitFailedError

        if not isinstance(error, CommitFailedError):
            return False
        if self.look().version() == self._before:
            raise SinkCommitRejectedError(
                f"{OWNER}: the table {self.where} cannot be written to: {reason_of(error)}",
                hint="Delta's client (package deltalake) does not do what the table asks of its "
                "writers: see whether a newer one does, or write to a table of its own.",
            ) from error
        return True

    def _settle_found(self, table: DeltaTable) -> None:
        with self.speaking("cannot be synchronised"):
            self.place.settle_log(range(max(0, table.version() - UNSURE_MAX), table.version() + 1))

    def _settle(self, table: DeltaTable) -> None:
        self._settle_behind(self._before)

    def _settle_behind(self, version: int) -> None:
        if not self.place.syncs_log:
            return
        newest = self.look().version()
        with self.speaking("cannot be synchronised"):
            self.place.settle_log(range(version + 1, newest + 1))


def import_client() -> None:
    """:raises ConfigError: Delta's client is not installed."""
    try:
        import deltalake  # noqa: F401
    except ImportError as exc:
        raise ConfigError(
            f"{OWNER} needs Delta's client, which is not installed.", hint=INSTALL
        ) from exc


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """What a sink's options hold for Delta's own client.

    :raises ConfigError: they would let two runs overwrite each other's commits.
    """
    found = {key[len(STORAGE) :]: str(value) for key, value in options.items() if is_storage(key)}
    given = {key.lower(): value for key, value in {**os.environ, **found}.items()}
    if given.get(_UNSAFE, "").lower() in ("true", "1"):
        raise ConfigError(
            f"{OWNER}: with {_UNSAFE.upper()} two writers overwrite each other's commits.",
            hint="Leave it out: S3 has conditional puts.",
        )
    return found


def is_storage(option: str) -> bool:
    """Whether an option is for Delta's own client."""
    return option.lower().startswith(STORAGE)


def has_vectors(table: DeltaTable) -> bool:
    """Whether rows are deleted beside the files that they are in."""
    return (
        "deletionVectors" in (table.protocol().reader_features or ())
        and pa.table(table.deletion_vectors()).num_rows > 0
    )


def epochs_of(query_id: str, timeline: int) -> str:
    """The identifier that the epochs of a query and timeline are told by."""
    return f"continuous/{query_id}/{timeline}"


def _runs_of(context: SinkContext) -> str:
    return f"continuous/{context.query_id}"


def _run_of(context: SinkContext) -> Transaction:
    from deltalake.transaction import Transaction

    return Transaction(_runs_of(context), context.generation)


def _epochs_of(context: SinkContext) -> str:
    return epochs_of(context.query_id, context.timeline)

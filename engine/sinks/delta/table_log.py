"""A table's log: what a query has committed to it, and how it commits more.

Each commit of an epoch carries two of Delta's transaction identifiers::

    continuous/<query id>               the generation of the run that commits
    continuous/<query id>/<timeline>    the epoch

So the table itself tells which epochs it has, and that a later run, or a rewind, has been here.
Epochs come again after a rewind, in another timeline. Before each commit the table is looked at
anew; what another run of the query commits between the look and the commit makes the commit fail
(Delta's rule for transactions of the same identifier), and is looked at again. What others commit,
appends, compactions, deletions, does not stand in the way: Delta's own client tries again, or this
does.

An epoch without rows leaves the table as it is.

Source: Delta's PROTOCOL.md, transaction identifiers; Spark's DeltaSink; delta-rs, conflict_checker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from engine.base.failpoints import reach
from engine.checkpoint.sink_context import SinkContext
from engine.errors import (
    ConfigError,
    ContinuousError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.sinks.delta.data_files import DataFile
from engine.sinks.delta.places import Place
from engine.sinks.delta.schemas import OWNER, TableFacts

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction, Transaction

INSTALL: Final = "pip install 'airflow-provider-continuous[delta]'"
_UNSAFE: Final = "aws_s3_allow_unsafe_rename"
TRIES_MAX: Final = 20
"""So often others may be quicker in a row."""
UNSURE_MAX: Final = 100
"""What a run that died may not have synchronised is among so many versions, the newest."""
STORAGE: Final = "storage."
"""What the options that are for Delta's own client begin with."""
NOTE: Final = "continuous"
"""Under this key a commit's ``commitInfo`` tells what it is, for a rewind and for people."""


class TableLog:
    """Not safe to use from several threads.

    :param storage_options: of Delta's own client.
    """

    def __init__(self, place: Place, storage_options: dict[str, str]) -> None:
        self.place = place
        self._options = storage_options
        self._table: DeltaTable | None = None

    def another(self) -> TableLog:
        """The same for another thread."""
        return TableLog(self.place, self._options)

    # -- the table ------------------------------------------------------------------------------

    def exists(self) -> bool:
        """:raises SinkUnavailableError: it cannot be told."""
        from deltalake.exceptions import TableNotFoundError

        self.forget()
        try:
            self.look()
        except SinkUnavailableError as exc:
            if isinstance(exc.__cause__, TableNotFoundError):
                return False
            raise
        return True

    def create(self, schema: dict[str, Any], partition_by: Sequence[str]) -> None:
        """Make the table if it is not there.

        :param schema: Spark's ``StructType`` as JSON, which is Delta's.
        :raises SinkUnavailableError: that failed.
        """
        from deltalake import DeltaTable, Schema

        with self._speaking("cannot be created"):
            DeltaTable.create(
                self.place.url,
                Schema.from_json(json.dumps(schema)),
                mode="ignore",
                partition_by=list(partition_by),
                storage_options=self._options,
            )
            self.place.settle_log(range(1))
        self.forget()

    def add_columns(self, schema: dict[str, Any]) -> None:
        """:param schema: of the columns that the table does not have yet.
        :raises SinkUnavailableError: that failed."""
        from deltalake import Schema

        table = self.look()
        before = table.version()
        with self._speaking("cannot be given columns"):
            table.alter.add_columns(Schema.from_json(json.dumps(schema)).fields)
        self._settle(before)

    def facts(self) -> TableFacts:
        """What the table is.

        :raises SinkUnavailableError: it cannot be read.
        """
        return _facts(self.look())

    def look(self) -> DeltaTable:
        """The table as it is now.

        :raises SinkUnavailableError: it cannot be read.
        """
        from deltalake import DeltaTable

        with self._speaking("cannot be read"):
            if self._table is None:
                self._table = DeltaTable(self.place.url, storage_options=self._options)
            else:
                self._table.update_incremental()
            return self._table

    def forget(self) -> None:
        """Look at the table as if for the first time: it may be another one."""
        self._table = None

    def strays(self) -> list[str]:
        """All files in the table's folder that are no part of it now, below that folder: those that
        nobody has committed, and those that were replaced.

        :raises SinkUnavailableError: it cannot be read.
        """
        table = self.look()
        with self._speaking("cannot be listed"):
            return table.vacuum(
                retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True
            )

    # -- what a query has in it -----------------------------------------------------------------

    def latest(self, context: SinkContext) -> int | None:
        """The newest epoch with rows that the query has committed in its present timeline. It stays
        so, though the run that has committed it may have died before it could see to that.

        :raises SinkUnavailableError: the table cannot be read.
        """
        table = self.look()
        latest = table.transaction_version(_epochs_of(context))
        if latest is not None:
            self._settle_found(table)
        return latest

    def check_run(self, context: SinkContext) -> None:
        """:raises StaleRunError: a later run of the query, or a rewind, has written to the table.
        :raises SinkUnavailableError: it cannot be read."""
        self._check_run(self.look(), context)

    def commit(
        self,
        context: SinkContext,
        epoch: int,
        files: Sequence[DataFile],
        check: Callable[[TableFacts], None],
    ) -> None:
        """Commit an epoch; nothing changes if it is committed already.

        :param check: sees that the files fit the table as it is now.
        :raises StaleRunError: the run has lost the query.
        :raises SinkCommitRejectedError: Delta's client refuses the commit.
        :raises SinkUnavailableError: the table cannot be written; the epoch is not committed.
        :raises SinkCommitUnknownError: it may be committed.
        """
        from deltalake.transaction import AddAction, Transaction

        adds = [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values=file.partition_values,
                modification_time=file.modified_ms,
                data_change=True,
                stats=file.statistics,
            )
            for file in files
        ]
        name = _epochs_of(context)

        def is_done(table: DeltaTable) -> bool:
            latest = table.transaction_version(name)
            return latest is not None and latest >= epoch

        told = {"epoch": epoch, "files": len(adds)}
        self._write(context, told, adds, [Transaction(name, epoch)], is_done, check)

    def fence(self, context: SinkContext) -> None:
        """Shut out earlier runs, also those that sleep in the middle of a commit: it fails when
        they wake up.

        :raises ContinuousError: as :meth:`commit`.
        """
        name = _runs_of(context)
        told = {"generation": context.generation}
        self._write(
            context,
            told,
            is_done=lambda table: table.transaction_version(name) == context.generation,
        )

    def remove(
        self, context: SinkContext, removals: Sequence[RemoveAction], rewound_to: int
    ) -> None:
        """Take files out of the table, and shut out earlier runs.

        :raises ContinuousError: as :meth:`commit`.
        """
        self._write(context, {"rewoundTo": rewound_to}, removals)

    def _write(
        self,
        context: SinkContext,
        told: dict[str, Any],
        actions: Sequence[AddAction | RemoveAction] = (),
        transactions: Sequence[Transaction] = (),
        is_done: Callable[[DeltaTable], bool] = lambda table: False,
        check: Callable[[TableFacts], None] = lambda facts: None,
    ) -> None:
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import Transaction

        run = Transaction(_runs_of(context), context.generation)
        properties = CommitProperties(
            custom_metadata={NOTE: {"query": context.query_id, **told}},
            app_transactions=[run, *transactions],
        )
        reason: Exception | None = None
        for _ in range(TRIES_MAX):
            table = self.look()
            before = table.version()
            self._check_run(table, context)
            if is_done(table):
                self._settle_found(table)
                return
            facts = _facts(table)
            check(facts)
            reach("tableLog.before")
            try:
                table.create_write_transaction(
                    list(actions),
                    "append",
                    table.schema(),
                    list(facts.partition_by),
                    commit_properties=properties,
                )
            except CommitFailedError as exc:
                if self.look().version() == before:
                    raise self._rejected(exc) from exc
                reason = exc  # others were quicker: look again
                continue
            except Exception as exc:
                # If it arrives late, the next commit of the query finds it, or makes it fail.
                if not self._is_done_after(exc, is_done):
                    raise self._unavailable("cannot be written to", exc) from exc
            reach("tableLog.after")
            self._settle(before)
            reach("tableLog.checked")
            return
        assert reason is not None
        raise self._unavailable(f"has changed {TRIES_MAX} times meanwhile", reason) from reason

    def _is_done_after(self, error: Exception, is_done: Callable[[DeltaTable], bool]) -> bool:
        self.forget()
        try:
            return is_done(self.look())
        except SinkUnavailableError as exc:
            raise SinkCommitUnknownError(
                f"{exc.message} It may have taken the commit that failed before: {_reason(error)}",
                hint=exc.hint,
            ) from error

    def _check_run(self, table: DeltaTable, context: SinkContext) -> None:
        found = table.transaction_version(_runs_of(context))
        if found is not None and found > context.generation:
            raise StaleRunError(
                f"This run of query {context.query_id} is generation {context.generation}, and "
                f"generation {found} has written to the table {self.place.url}.",
                hint="The other run goes on from the last committed epoch. If there is none, the "
                "checkpoint is an older copy of itself: start the query with a new one.",
            )

    def _settle_found(self, table: DeltaTable) -> None:
        with self._speaking("cannot be synchronised"):
            self.place.settle_log(range(max(0, table.version() - UNSURE_MAX), table.version() + 1))

    def _settle(self, before: int) -> None:
        """What was committed behind a version stays so."""
        if not self.place.syncs_log:
            return
        newest = self.look().version()
        with self._speaking("cannot be synchronised"):
            self.place.settle_log(range(before + 1, newest + 1))

    # -- errors ---------------------------------------------------------------------------------

    @contextmanager
    def _speaking(self, what: str) -> Iterator[None]:
        """Errors of Delta's client become the engine's."""
        try:
            yield
        except ContinuousError:
            raise
        except Exception as exc:
            self.forget()
            raise self._unavailable(what, exc) from exc

    def _unavailable(self, what: str, exc: Exception) -> SinkUnavailableError:
        return SinkUnavailableError(
            f"{OWNER}: the table {self.place.url} {what}: {_reason(exc)}",
            hint="See that its storage can be reached, and the option path and those that begin "
            "with storage.",
        )

    def _rejected(self, exc: Exception) -> SinkCommitRejectedError:
        return SinkCommitRejectedError(
            f"{OWNER}: the table {self.place.url} cannot be written to: {_reason(exc)}",
            hint="Delta's client (package deltalake) does not do what the table asks of its "
            "writers: see whether a newer one does, or write to a table of its own.",
        )


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


def _facts(table: DeltaTable) -> TableFacts:
    metadata = table.metadata()
    return TableFacts(
        id=str(metadata.id),
        fields={field["name"]: field for field in json.loads(table.schema().to_json())["fields"]},
        partition_by=tuple(metadata.partition_columns),
        properties=dict(metadata.configuration),
    )


def _runs_of(context: SinkContext) -> str:
    return f"continuous/{context.query_id}"


def _epochs_of(context: SinkContext) -> str:
    return f"continuous/{context.query_id}/{context.timeline}"


def _reason(exc: Exception) -> str:
    """The first line: what follows are debugging values of the client."""
    lines = str(exc).strip().splitlines() or [type(exc).__name__]
    return lines[0].rstrip(". ") + "."

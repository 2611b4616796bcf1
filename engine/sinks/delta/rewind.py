"""Takes epochs of a table back: one commit that removes the files of later epochs from it.

Which they are: :mod:`engine.sinks.lakes.taking_back`; the history is the table's own
(``delta.logRetentionDuration``). The files stay in the folder, and earlier versions of the table
with them, until ``VACUUM``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.sinks.delta.places import place_of
from engine.sinks.delta.schemas import OWNER, is_append_only, partition_text
from engine.sinks.delta.table_log import (
    NOTE,
    DeltaLog,
    epochs_of,
    has_vectors,
    import_client,
    storage_options,
)
from engine.sinks.lakes.taking_back import Lake, is_last, later_files

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import RemoveAction

_HINT: Final = (
    "Take the table back yourself (RESTORE TABLE ... TO VERSION AS OF ...), and start a new query "
    "from a copy of the checkpoint: python -m engine copy."
)


class DeltaRewind:
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._context: SinkContext | None = None

    def bind(self, context: SinkContext) -> None:
        """Whose epochs are taken back."""
        self._context = context
        self._log.forget()

    def checkRewind(self, epoch: int) -> None:
        """:raises ConfigError: there is no table, or it is not known any more which of its rows
        came later."""
        if not self._log.exists():
            raise ConfigError(f"{OWNER}: there is no Delta table at {self._log.place.url}.")
        if is_append_only(self._log.facts()):
            raise ConfigError(
                f"{OWNER}: the table {self._log.place.url} is append-only (delta.appendOnly).",
                hint=_HINT,
            )
        if self._context is not None:  # else it is asked again, when it is known whose they are
            self._later_files(self._log.look(), self._context, epoch)

    def rewind(self, epoch: int) -> None:
        """Take the files of later epochs out of the table. Again is fine.

        :raises ConfigError: as :meth:`checkRewind`.
        :raises SinkError: the table cannot be written.
        """
        from deltalake.transaction import RemoveAction

        context = self._context
        assert context is not None, "bind() comes first"
        now_ms = time.time_ns() // 1_000_000

        def find(table: DeltaTable) -> list[RemoveAction]:
            return [
                RemoveAction(
                    path=path,
                    data_change=True,
                    deletion_timestamp=now_ms,
                    size=file["size_bytes"],
                    # For readers of the table's changes: the file does not hold them.
                    partition_values={
                        name: partition_text(value)
                        for name, value in (file.get("partition") or {}).items()
                    },
                )
                for path, file in self._later_files(table, context, epoch).items()
            ]

        self._log.remove(context, find, epoch)

    def _later_files(
        self, table: DeltaTable, context: SinkContext, epoch: int
    ) -> dict[str, dict[str, Any]]:
        """Path, not encoded → what the log says of the file."""
        actions, history = pa.table(table.get_add_actions()).to_pylist(), table.history()
        partly = _with_deletion_vectors(table)
        newest = table.transaction_version(epochs_of(context.query_id, context.timeline))
        lake = Lake(
            f"{OWNER}: the table {self._log.where}", "OPTIMIZE, DELETE, UPDATE or RESTORE", _HINT
        )
        return later_files(
            lake,
            context.query_id,
            epoch,
            (
                (path, file)
                for path, file in ((unquote(file["path"]), file) for file in actions)
                if path.rpartition("/")[2] not in partly
            ),
            (_note(commit) for commit in history),
            # None at all: Delta's client reads none in a folder whose path has # or ?.
            is_whole=(bool(history) and history[-1]["version"] == 0) or is_last(newest, epoch),
        )


def _with_deletion_vectors(table: DeltaTable) -> set[str]:
    """The names of files of which rows were deleted without writing them again. To take such a file
    out asks for its vector, which Delta's client does not write."""
    if not has_vectors(table):
        return set()
    paths = pa.table(table.deletion_vectors())["filepath"].to_pylist()
    return {path.rpartition("/")[2] for path in paths}


def _note(commit: Mapping[str, Any]) -> Mapping[str, Any] | None:
    note = commit.get(NOTE)
    return note if isinstance(note, Mapping) else None


def reopen(options: Mapping[str, str]) -> DeltaRewind | None:
    """The sink of these options; None if they name no table.

    :raises ConfigError: the path is not one of this machine, or Delta's client is not installed.
    """
    path = {key.lower(): value for key, value in options.items()}.get("path")
    if path is None:
        return None
    import_client()
    settings = storage_options(options)
    return DeltaRewind(DeltaLog(place_of(path, settings), settings))

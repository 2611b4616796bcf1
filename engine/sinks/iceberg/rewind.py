"""Takes epochs of a table back: one snapshot without the files of later epochs.

Which they are: :mod:`engine.sinks.lakes.taking_back`; the history is that of the snapshots. The
files stay, and earlier snapshots with them, until somebody expires these.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.table import Table

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.sinks.iceberg.contents import data_files, history_of
from engine.sinks.iceberg.names import OWNER
from engine.sinks.iceberg.table_log import IcebergLog, mark_of, note_in
from engine.sinks.lakes.taking_back import Lake, is_last, later_files

_HINT: Final = (
    "Take the table back yourself (CALL system.rollback_to_snapshot), and start a new query from "
    "a copy of the checkpoint: python -m engine copy."
)


class IcebergRewind:
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def __init__(self, log: IcebergLog) -> None:
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
            raise ConfigError(
                f"{OWNER}: there is no Iceberg table {self._log.where}.",
                hint="If its catalog needs settings that the checkpoint does not record, name the "
                "query: --spec.",
            )
        if self._context is not None:  # else it is asked again, when it is known whose they are
            self._later_files(self._log.look(), self._context.query_id, epoch)

    def rewind(self, epoch: int) -> None:
        """Take the files of later epochs out of the table. Again is fine.

        :raises ConfigError: as :meth:`checkRewind`.
        :raises SinkError: the table cannot be written.
        """
        context = self._context
        assert context is not None, "bind() comes first"
        self._log.remove(
            context, lambda table: self._later_files(table, context.query_id, epoch), epoch
        )

    def _later_files(self, table: Table, query_id: str, epoch: int) -> list[ManifestFile]:
        history, mark = list(history_of(table)), mark_of(table, query_id)
        lake = Lake(
            f"{OWNER}: the table {self._log.where}",
            "rewrite_data_files, DELETE, UPDATE, MERGE or a rollback",
            _HINT,
        )
        found = later_files(
            lake,
            query_id,
            epoch,
            ((file.file_path, file) for file in data_files(table)),
            map(note_in, history),
            # That a snapshot names none before it says nothing: some take the name of an expired
            # one away. In format version 1 there is no telling.
            is_whole=not history
            or history[-1].sequence_number == 1
            or is_last(None if mark is None else mark.epoch, epoch),
        )
        return list(found.values())

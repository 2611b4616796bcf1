"""Takes epochs of a table back: one commit that removes the files of later epochs from it.

Which files these are, their names tell. Whether they still hold the rows of these epochs, and no
others, the history tells: each commit of an epoch has noted how many files it added, and as many
have to be there. Once somebody has rewritten them (``OPTIMIZE``, ``DELETE``, ``UPDATE``), or the
history of that time is gone (``delta.logRetentionDuration``), a rewind is refused.

The files stay in the folder, and earlier versions of the table with them, until ``VACUUM``.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.sinks.delta.data_files import origin_of, query_part
from engine.sinks.delta.places import place_of
from engine.sinks.delta.schemas import OWNER, is_append_only
from engine.sinks.delta.table_log import NOTE, TableLog, import_client, storage_options

_HINT: Final = (
    "Take the table back yourself (RESTORE TABLE ... TO VERSION AS OF ...), and start a new query "
    "from a copy of the checkpoint: python -m engine copy."
)


class DeltaRewind:
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def __init__(self, log: TableLog) -> None:
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
            self._later_files(self._context.query_id, epoch)

    def rewind(self, epoch: int) -> None:
        """Take the files of later epochs out of the table. Again is fine.

        :raises ConfigError: as :meth:`checkRewind`.
        :raises SinkError: the table cannot be written.
        """
        from deltalake.transaction import RemoveAction

        assert self._context is not None, "bind() comes first"
        now_ms = time.time_ns() // 1_000_000
        removals = [
            RemoveAction(path=path, data_change=True, deletion_timestamp=now_ms, size=size)
            for path, size in self._later_files(self._context.query_id, epoch).items()
        ]
        self._log.remove(self._context, removals, epoch)

    def _later_files(self, query_id: str, epoch: int) -> dict[str, int]:
        """Path, not encoded → bytes."""
        table, query = self._log.look(), query_part(query_id)
        found: dict[str, int] = {}
        there: Counter[int] = Counter()
        actions = pa.table(table.get_add_actions())
        for encoded, size in zip(
            actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True
        ):
            path = unquote(encoded)
            origin = origin_of(path)
            if origin is not None and origin.query == query and origin.epoch > epoch:
                found[path] = size
                there[origin.epoch] += 1
        expected: Counter[int] = Counter()
        for later, files in _committed_behind(epoch, query_id, table.history(), self._log):
            expected[later] += files
        if there != expected:
            changed = min(each for each in there | expected if there[each] != expected[each])
            raise ConfigError(
                f"{OWNER}: files of epoch {changed} in the table {self._log.place.url} were "
                "rewritten since (OPTIMIZE, DELETE, UPDATE or RESTORE): which rows came behind "
                f"epoch {epoch} is not known any more.",
                hint=_HINT,
                epoch=epoch,
            )
        return found


def _committed_behind(
    epoch: int, query_id: str, history: list[dict[str, Any]], log: TableLog
) -> Iterator[tuple[int, int]]:
    """The commits of later epochs that no rewind has taken back: epoch, and number of files.

    :param history: of all commits that the table's log still has, the newest first.
    """
    taken_back = sys.maxsize
    for commit in history:
        note = commit.get(NOTE)
        if not isinstance(note, Mapping) or note.get("query") != query_id:
            continue
        if "rewoundTo" in note:
            taken_back = min(taken_back, note["rewoundTo"])
        elif "epoch" in note:
            if note["epoch"] <= epoch:
                return
            if note["epoch"] <= taken_back:
                yield note["epoch"], note["files"]
    if history and history[-1]["version"] > 0:
        raise ConfigError(
            f"{OWNER}: the history of the table {log.place.url} does not reach back to epoch "
            f"{epoch}: which files came later is not known any more.",
            hint=_HINT,
            epoch=epoch,
        )


def reopen(options: Mapping[str, str]) -> DeltaRewind | None:
    """The sink of these options; None if they name no table.

    :raises ConfigError: the path is not one of this machine, or Delta's client is not installed.
    """
    path = {key.lower(): value for key, value in options.items()}.get("path")
    if path is None:
        return None
    import_client()
    settings = storage_options(options)
    return DeltaRewind(TableLog(place_of(path, settings), settings))

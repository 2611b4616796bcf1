"""Takes epochs of a table back.

Rows that were appended are known by the column ``epochColumn``, if the query has that option. What
was upserted stays: the changes come again, and end where they ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, SinkUnavailableError
from engine.sinks.sqlalchemy.database import OWNER, speaking
from engine.sinks.sqlalchemy.epochs import Epochs
from engine.sinks.sqlalchemy.options import SinkOptions, sink_options
from engine.sinks.sqlalchemy.tables import Rows, look_up

_HINT: Final = (
    "Delete the rows yourself, and start a new query from a copy of the checkpoint: python -m "
    "engine copy."
)


class TableRewind:
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._context: SinkContext | None = None

    def bind(self, context: SinkContext) -> None:
        """Whose epochs are taken back."""
        self._context = context

    def checkRewind(self, epoch: int) -> None:
        """:raises ConfigError: it is not known which rows came later."""
        place = self._options.place.shown
        if self._options.key:
            return
        if self._options.epoch_column is None:
            raise ConfigError(
                f"{OWNER}: which rows of {place} came behind epoch {epoch} is not known: the query "
                "has no epochColumn.",
                hint=_HINT,
                epoch=epoch,
            )
        if self._context is None:  # it is asked again, when it is known whose they are
            return
        with self._speaking("cannot be asked"):
            others = self._epochs().others(self._context)
        if others:
            raise ConfigError(
                f"{OWNER}: {others} other queries write to {place}: whose the rows of later epochs "
                "are is not known.",
                hint=_HINT,
                epoch=epoch,
            )

    def rewind(self, epoch: int) -> None:
        """Delete what later epochs have appended. Again is fine.

        :raises ContinuousError: the table cannot be written to.
        """
        assert self._context is not None, "bind() comes first"
        with self._speaking("cannot be rewound"):
            epochs = self._epochs()
            epochs.begin(self._context)
            rows = Rows({}, epoch_column=self._options.epoch_column)
            target = look_up(epochs.connected(), self._options.place, rows, is_whole=False)
            epochs.connected().rollback()
            with epochs.changing(self._context, epoch):
                if target is not None:
                    target.delete_behind(epochs.connected(), epoch)
                epochs.note(self._context, epoch)
            epochs.forget()

    def _epochs(self) -> Epochs:
        return Epochs(self._options.database, self._options.place)

    def _speaking(self, what: str) -> AbstractContextManager[None]:
        says = f"{OWNER}: {self._options.database.name} {what}"
        return speaking(SinkUnavailableError, ConfigError, says)


def reopen(options: Mapping[str, str]) -> TableRewind | None:
    """The sink of these options; None if they name no table.

    :param options: without a ``url``, whose password no checkpoint has, the ``path`` in its place:
        enough for SQLite, and where the client finds user and password by itself.
    :raises ConfigError: they are wrong, or no driver is installed.
    """
    given = {name.lower(): value for name, value in options.items()}
    given.setdefault("url", given.get("path", ""))
    if not given["url"] or "table" not in given:
        return None
    return TableRewind(sink_options(given))

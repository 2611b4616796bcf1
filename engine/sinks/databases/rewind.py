"""Takes epochs of a table back.

Rows that were appended are known by the column ``epochColumn``, if the query has that option. What
was upserted stays: the changes come again, and end where they ended.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from engine.base.text_tables import count
from engine.checkpoint.sink_context import BoundContext
from engine.errors import ConfigError
from engine.sinks.databases.epochs import Epochs
from engine.sinks.databases.rows import Mode

E = TypeVar("E", bound=Epochs)

_HINT: Final = (
    "Delete the rows yourself, and start a new query from a copy of the checkpoint: python -m "
    "engine copy."
)


class TableRewind(Generic[E]):
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def __init__(self, epochs: E, mode: Mode) -> None:
        self._epochs, self._mode = epochs, mode
        self._context: BoundContext | None = None

    def bind(self, context: BoundContext) -> None:
        """Whose epochs are taken back."""
        self._context = context
        self._epochs.forget()

    @property
    def keepsRows(self) -> bool:
        """What was upserted stays."""
        return bool(self._mode.key)

    def checkRewind(self, epoch: int) -> None:
        """:raises ConfigError: it is not known which rows came later."""
        owner, table = self._epochs.owner, self._epochs.table
        if self._mode.key:
            return
        if self._mode.epoch_column is None:
            raise ConfigError(
                f"{owner}: which rows of {table} came behind epoch {epoch} is not known: the query "
                "has no epochColumn.",
                hint=_HINT,
                epoch=epoch,
            )
        if self._context is None:  # it is asked again, when it is known whose they are
            return
        with self._epochs.speaking("cannot be asked", final=ConfigError):
            others = self._epochs.others(self._context)
        if others:
            write = "writes" if others == 1 else "write"
            raise ConfigError(
                f"{owner}: {count(others, 'other query')} {write} to {table}: whose the rows of "
                "later epochs are is not known.",
                hint=_HINT,
                epoch=epoch,
            )

    def rewind(self, epoch: int) -> None:
        """Delete what later epochs have appended. Again is fine.

        :raises ContinuousError: the table cannot be written to.
        """
        with self._epochs.speaking("cannot be rewound", final=ConfigError):
            self._epochs.begin(self._bound)
            with self._epochs.changing(self._bound, epoch):
                if self._mode.epoch_column is not None:
                    self._epochs.delete_behind(epoch, self._mode.epoch_column)
                self._epochs.note(self._bound, epoch)
            self._epochs.forget()

    @property
    def _bound(self) -> BoundContext:
        assert self._context is not None, "bind() comes first"
        return self._context

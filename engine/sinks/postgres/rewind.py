"""Takes epochs of a table back.

Rows that were appended are known by the column ``epochColumn``, if the query has that option. What
was upserted stays: the changes come again, and end where they ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from psycopg.sql import SQL, Identifier

from engine.checkpoint.sink_context import SinkContext
from engine.clients.postgres import speaking_postgres
from engine.errors import ConfigError, SinkUnavailableError
from engine.sinks.postgres.epochs import Epochs
from engine.sinks.postgres.options import SinkOptions, sink_options
from engine.sinks.postgres.tables import OWNER, look_up

_HINT: Final = (
    "Delete the rows yourself, and start a new query from a copy of the checkpoint: python -m "
    "engine copy."
)


class PostgresRewind:
    """The methods of a stream writer that :mod:`engine.checkpoint.rewind` calls."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._context: SinkContext | None = None

    def bind(self, context: SinkContext) -> None:
        """Whose epochs are taken back."""
        self._context = context

    def checkRewind(self, epoch: int) -> None:
        """:raises ConfigError: it is not known which rows came later."""
        if self._options.key:
            return
        if self._options.epoch_column is None:
            raise ConfigError(
                f"{OWNER}: which rows of {self._options.table} came behind epoch {epoch} is not "
                "known: the query has no epochColumn.",
                hint=_HINT,
                epoch=epoch,
            )
        if self._context is None:  # it is asked again, when it is known whose they are
            return
        with self._speaking("cannot be asked"):
            others = self._epochs().others(self._context)
        if others:
            raise ConfigError(
                f"{OWNER}: {others} other queries write to {self._options.table}: whose the rows "
                "of later epochs are is not known.",
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
            table = look_up(epochs.connected(), self._options.table)
            column = self._options.epoch_column
            with epochs.changing(self._context, epoch):
                if table is not None and column is not None and column in table.columns:
                    epochs.connected().execute(
                        SQL("DELETE FROM {} WHERE {} > %s").format(
                            Identifier(table.schema, table.name), Identifier(column)
                        ),
                        [epoch],
                    )
                epochs.note(self._context, epoch)
            epochs.forget()

    def _epochs(self) -> Epochs:
        return epochs_of(self._options)

    def _speaking(self, what: str) -> AbstractContextManager[None]:
        return speaking_postgres(
            SinkUnavailableError,
            ConfigError,
            f"{OWNER}: PostgreSQL at {self._options.server.name} {what}",
        )


def epochs_of(options: SinkOptions) -> Epochs:
    """Where the epochs of these options are noted.

    :raises psycopg.Error: the server cannot be asked.
    """
    with options.server.connect() as connection:
        found = connection.execute(
            "SELECT coalesce((parse_ident(%(t)s))[array_length(parse_ident(%(t)s), 1) - 1], "
            "current_schema()), (parse_ident(%(t)s))[array_length(parse_ident(%(t)s), 1)]",
            {"t": options.table},
        ).fetchone()
    assert found is not None
    schema, name = found
    if schema is None:
        raise ConfigError(
            f"{OWNER}: PostgreSQL at {options.server.name} has no schema for {name}.",
            hint='Name it: option("table", "shop.orders").',
        )
    return Epochs(options.server, options.place or schema, (schema, name))


def reopen(options: Mapping[str, str]) -> PostgresRewind | None:
    """The sink of these options; None if they name no table.

    :raises ConfigError: they are wrong, or PostgreSQL's client is not installed.
    """
    given = {name.lower(): value for name, value in options.items()}
    if not {"url", "table"} <= given.keys():
        return None
    return PostgresRewind(sink_options(given))

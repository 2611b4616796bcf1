"""What the user has said of a table, and the table itself."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table

from engine.errors import ConfigError, SourceUnavailableError
from engine.sinks.iceberg.catalogs import TableName, Tables
from engine.sources.iceberg.snapshots import OWNER
from engine.sources.lakes.run import Pace


@dataclass(frozen=True)
class IcebergOptions:
    """What the user has said.

    :param start: a snapshot's id, or ``latest``; None for the table as it is, and what comes then.
    :param start_ms: or so: the first snapshot of this time or later, since 1970.
    :param loses: what is not there any more is left out, and logged.
    :param tuning: options for the catalog that may be others with any start.
    """

    name: TableName
    pace: Pace
    start: int | str | None
    start_ms: int | None
    skips_overwrites: bool
    skips_deletes: bool
    loses: bool
    tuning: tuple[str, ...] = ()


class Catalog:
    """Where the table is found. Not safe to use from several threads."""

    def __init__(self, name: TableName) -> None:
        self._name, self._tables = name, Tables(name)

    def table(self) -> Table:
        """As it is now.

        :raises SourceUnavailableError: it cannot be read.
        :raises ConfigError: its snapshots have no order.
        """
        try:
            table = self._tables.find()
        except Exception as exc:
            self._tables.forget()
            reason = (str(exc).strip().splitlines() or [type(exc).__name__])[0]
            raise SourceUnavailableError(
                f"{OWNER}: the table {self._name} cannot be read: {reason}",
                hint="See that its catalog and its storage can be reached, and the options that "
                "begin with catalog.",
            ) from exc
        if table is None:
            raise SourceUnavailableError(
                f"{OWNER}: there is no table {self._name}.",
                hint="See that it is the right catalog, or make the table.",
            )
        if table.format_version != 2:
            raise ConfigError(
                f"{OWNER}: the table {self._name} has format version {table.format_version}: only "
                "version 2 is read here.",
                hint="Read it with Spark's own format iceberg.",
            )
        return table

"""The table that a query writes to: whether its rows fit, and what is done with them.

Rows that are replaced are updated, and not deleted and inserted: what refers to them stays, and so
do the columns that the query does not write. There is no upsert that all databases have, so it is
three statements, each for all rows: delete, update, insert what is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import sqlalchemy as sa

from engine.errors import ConfigError
from engine.expressions.types import sql_name
from engine.sinks.databases.rows import Mode, Rows
from engine.sinks.sqlalchemy.columns import bytes_max, fits, has_zones, times_of, type_of_new
from engine.sinks.sqlalchemy.database import OWNER
from engine.sinks.sqlalchemy.prepared import Prepared, prepare
from engine.sinks.sqlalchemy.values import Limits

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Dialect

ROWS_AT_ONCE: Final = 1_000
"""So many are Python's objects at a time."""
_TRANSACTIONAL: Final = ("innodb", "ndbcluster", "rocksdb")


@dataclass(frozen=True)
class Place:
    """:param schema: None: the user's own."""

    schema: str | None
    name: str

    @classmethod
    def of(cls, text: str) -> Place:
        """:param text: as :attr:`shown`."""
        schema, _, name = text.rpartition(".")
        return cls(schema or None, name)

    @property
    def shown(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


def rows_of(schema: pa.Schema, mode: Mode) -> Rows:
    """:raises ConfigError: not every database can hold them, or an option names what is not
    there."""
    rows = Rows.in_mode(mode, OWNER, schema)
    for name, dtype in rows.types.items():
        type_of_new(name, dtype, is_key=name in rows.key)
        if name in rows.key and (pa.types.is_binary(dtype) or pa.types.is_floating(dtype)):
            raise ConfigError(
                f"{OWNER}: the column {name} of the option keyColumns is {sql_name(dtype)}, "
                "by which no row is found.",
                hint=f"Cast it, for example hex({name}).",
            )
    return rows


class Target:
    """A table that is there, and the rows fit it.

    :param found: as the database tells it.
    """

    def __init__(self, place: Place, found: sa.Table, rows: Rows, dialect: Dialect) -> None:
        self.place, self._table, self._rows = place, found, rows
        self._dialect, self._server = dialect.name, dialect
        # What is bound must have no name that a column has, too.
        self._key_prefix, self._value_prefix = "key_", "value_"
        names = [column.name for column in found.c]
        while any(name.startswith((self._key_prefix, self._value_prefix)) for name in names):
            self._key_prefix, self._value_prefix = f"a{self._key_prefix}", f"a{self._value_prefix}"

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns of rows that must not be null."""
        return (*self._rows.key, *self._required)

    @property
    def _required(self) -> tuple[str, ...]:
        columns = [self._table.c[name] for name in self._rows.types]
        return tuple(c.name for c in columns if not c.nullable and c.name not in self._rows.key)

    def limits(self) -> Limits:
        """What tasks look at."""
        columns = [self._table.c[name] for name in self._rows.types]
        return Limits(
            self.place.shown,
            self._rows.key,
            self._required,
            self._rows.deletes,
            {c.name: length for c in columns if (length := getattr(c.type, "length", None))},
            {c.name: size for c in columns if (size := bytes_max(c.type, self._dialect))},
            {c.name: times for c in columns if (times := times_of(c.type, self._server))},
            takes_nan=self._dialect in ("postgresql", "duckdb"),
            takes_infinity=self._dialect in ("postgresql", "duckdb", "sqlite"),
        )

    def prepare(self, tables: Sequence[pa.Table]) -> Prepared:
        """The rows of an epoch as :meth:`write` takes them.

        :param tables: of each task that has any.
        """
        return prepare(tables, self._rows, has_zones=has_zones(self._dialect))

    def write(self, connection: Connection, prepared: Prepared, epoch: int) -> None:
        """Append or replace the rows of an epoch.

        Within the transaction a thousand rows are looked at between two statements, never all: a
        driver that is silent for long is thrown out.
        """
        if self._rows.key:
            self._replace(connection, prepared)
            return
        insert = sa.insert(self._table)
        own = {} if self._rows.epoch_column is None else {self._rows.epoch_column: epoch}
        for some in _chunks(prepared.kept):
            connection.execute(insert, [{**row, **own} for row in some])

    def delete_behind(self, connection: Connection, epoch: int) -> None:
        """Delete the rows of later epochs, if it is known which they are."""
        name = self._rows.epoch_column
        if name is not None:
            connection.execute(sa.delete(self._table).where(self._table.c[name] > epoch))

    def _replace(self, connection: Connection, prepared: Prepared) -> None:
        columns = self._table.c
        same = sa.and_(
            *(columns[name] == self._bound(name, self._key_prefix) for name in self._rows.key)
        )
        for some in _chunks(prepared.gone):
            connection.execute(sa.delete(self._table).where(same), self._keyed(some))
        others = [name for name in self._rows.types if name not in self._rows.key]
        update = sa.update(self._table).where(same)
        update = update.values({name: self._bound(name) for name in others})
        new = sa.select(*(self._bound(name).label(name) for name in self._rows.types)).where(
            ~sa.exists(sa.select(sa.literal(1)).select_from(self._table).where(same))
        )
        insert = sa.insert(self._table).from_select(list(self._rows.types), new)
        for some in _chunks(prepared.kept):
            keyed = self._keyed(some, list(self._rows.types))
            if others:
                connection.execute(update, self._keyed(some, others))
            connection.execute(insert, keyed)

    def _bound(self, name: str, prefix: str | None = None) -> sa.BindParameter[Any]:
        prefix = prefix or self._value_prefix
        return sa.bindparam(f"{prefix}{name}", type_=self._table.c[name].type)

    def _keyed(
        self, rows: Sequence[Mapping[str, Any]], values: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """What is bound: the key, and these values."""
        return [
            {
                **{f"{self._key_prefix}{name}": row[name] for name in self._rows.key},
                **{f"{self._value_prefix}{name}": row[name] for name in values},
            }
            for row in rows
        ]


def look_up(
    connection: Connection, place: Place, rows: Rows, *, is_whole: bool = True
) -> Target | None:
    """A table; None if it is not there.

    :param is_whole: ``rows`` has all that the query writes.
    :raises ConfigError: the rows do not fit it.
    """
    inspector = sa.inspect(connection)
    if not inspector.has_table(place.name, place.schema):
        return None
    found = sa.Table(
        place.name, sa.MetaData(), schema=place.schema, autoload_with=connection, resolve_fks=False
    )
    dialect = connection.dialect.name
    problem = next(_problems(found, rows, dialect, is_whole), None)
    if problem is None and dialect in ("mysql", "mariadb"):
        engine = str(inspector.get_table_options(place.name, place.schema).get("mysql_engine"))
        if engine.lower() not in _TRANSACTIONAL:
            problem = f"is one of {engine}, which has no transactions."
    if problem is not None:
        raise ConfigError(
            f"{OWNER}: the table {place.shown} {problem}",
            hint="Cast or rename in the query: df.select(...); or change the table.",
        )
    return Target(place, found, rows, connection.dialect)


def check_new(rows: Rows, dialect: str) -> None:
    """:raises ConfigError: a table that is made for the rows would not keep each value."""
    for name, dtype in rows.types.items():
        if pa.types.is_decimal(dtype) and not fits(
            dtype, type_of_new(name, dtype, is_key=False), dialect
        ):
            raise ConfigError(
                f"{OWNER}: {dialect} does not keep each value of the column {name}, which is "
                f"{sql_name(dtype)}.",
                hint=f"Write it as text: CAST({name} AS STRING).",
            )


def create(connection: Connection, place: Place, rows: Rows) -> None:
    """Make a table for the rows. Again is fine."""
    columns: list[sa.Column[Any]] = [
        sa.Column(
            name,
            type_of_new(name, dtype, is_key=name in rows.key),
            primary_key=name in rows.key,
            autoincrement=False,
        )
        for name, dtype in rows.written.items()
    ]
    table = sa.Table(
        place.name, sa.MetaData(), *columns, schema=place.schema, mysql_engine="InnoDB"
    )
    table.create(connection, checkfirst=True)
    connection.commit()


def _chunks(tables: Iterable[pa.Table]) -> Iterator[list[dict[str, Any]]]:
    for table in tables:
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            yield table.slice(start, ROWS_AT_ONCE).to_pylist()


def _problems(table: sa.Table, rows: Rows, dialect: str, is_whole: bool) -> Iterator[str]:
    by_case = {name.lower(): name for name in table.c.keys()}  # noqa: SIM118  its names
    for name, dtype in rows.written.items():
        column = table.c.get(name)
        if column is None:
            other = by_case.get(name.lower())
            if other is not None:
                yield f"has the column {other}, which the query calls {name}."
            yield f"has no column {name}."
        elif column.computed is not None or (
            column.identity is not None and column.identity.always
        ):
            yield f"makes the values of {name} itself."
        elif not fits(dtype, column.type, dialect):
            held = column.type.compile(dialect=sa.engine.default.DefaultDialect())
            yield (
                f"has the column {name} with the type {held}, which does not keep each value of "
                f"{sql_name(dtype)}."
            )
    for column in table.c if is_whole else ():
        is_filled = (
            column.nullable
            or column.server_default is not None
            or column.identity is not None
            or column is table.autoincrement_column
        )
        if column.name not in rows.written and not is_filled:
            yield f"has the column {column.name}, which must not be left out."

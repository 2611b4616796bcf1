"""Whether a query's rows fit a table, and how they get into it.

Rows are written in PostgreSQL's binary format. A column of the table takes them as they come
(*as it is*), or by a cast (*converted*), which is tried as soon as a row comes: what the table
would refuse must fail the task, and not the commit.

============================  ==================  ===============================================
Spark                         a new column        an existing one may also be
============================  ==================  ===============================================
BOOLEAN, BINARY, DATE         the same, bytea
TINYINT, SMALLINT             smallint            integer, bigint, numeric
INT                           integer             bigint, numeric, double precision
BIGINT                        bigint              numeric
FLOAT, DOUBLE                 real, double        double precision
                              precision
DECIMAL(p,s)                  numeric(p,s)        any numeric
STRING                        text                anything that has a text form: varchar, json,
                                                  jsonb, uuid, inet, an enumeration, ...
TIMESTAMP                     timestamptz
TIMESTAMP_NTZ                 timestamp
ARRAY of one of the above,    array of it
but for times
============================  ==================  ===============================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.errors import ConfigError
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ, sql_name
from engine.sinks.databases.rows import Mode, Rows

if TYPE_CHECKING:
    from psycopg import Connection

OWNER: Final = "sink postgres"
NAME_BYTES_MAX: Final = 63
_WIRE: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    TIMESTAMP: "timestamp with time zone",
    TIMESTAMP_NTZ: "timestamp without time zone",
}
_SAME_BYTES: Final = {"text": ("character varying", "character", "json", "xml", "citext")}
_WIDER: Final = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric", "double precision"),
    "bigint": ("numeric",),
    "real": ("double precision",),
}
_TIMES: Final = (TIMESTAMP, TIMESTAMP_NTZ)
_COLUMNS: Final = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
       pg_catalog.format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL), t.typtype::text,
       a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_CHECKS: Final = """
SELECT pg_catalog.pg_get_expr(c.conbin, c.conrelid), array(
    SELECT a.attname::text FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey))
FROM pg_catalog.pg_constraint c WHERE c.conrelid = %s AND c.contype = 'c' AND c.convalidated
"""
_KEYS: Final = """
SELECT array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = i.indrelid
               AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
FROM pg_catalog.pg_index i
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL
"""
_RELATION: Final = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, pg_catalog.has_table_privilege(c.oid, 'INSERT')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s)
"""


@dataclass(frozen=True)
class Column:
    """
    :param type: as DDL has it; ``base`` without length, of a domain what it is made of.
    :param is_filled: the table gives it a value if a row has none.
    :param is_fixed: it takes no values.
    """

    name: str
    type: str
    base: str
    kind: str
    not_null: bool
    is_filled: bool
    is_fixed: bool


@dataclass(frozen=True)
class TableFacts:
    """What a table is to its writers.

    :param checks: conditions as DDL, each with its columns.
    :param keys: the columns of each unique index.
    """

    schema: str
    name: str
    columns: Mapping[str, Column]
    checks: Sequence[tuple[str, frozenset[str]]] = ()
    keys: Collection[frozenset[str]] = ()

    @property
    def shown(self) -> str:
        return f"{self.schema}.{self.name}"


def rows_of(schema: pa.Schema, mode: Mode) -> Rows:
    """:raises ConfigError: PostgreSQL cannot hold them, or an option names what is not there."""
    rows = Rows.in_mode(mode, OWNER, schema)
    for name, dtype in rows.written.items():
        if len(name.encode()) > NAME_BYTES_MAX:
            raise ConfigError(
                f"{OWNER}: the name {name} is longer than {NAME_BYTES_MAX} bytes, at which "
                "PostgreSQL would cut it.",
                hint="Rename it: df.withColumnRenamed(...).",
            )
        wire_type(name, dtype)
    return rows


def lacks(table: TableFacts, rows: Rows, *, adds_columns: bool) -> list[str]:
    """The columns that the table is to get.

    :raises ConfigError: the rows do not fit it."""
    problem = next(_problems(table, rows), None)
    if problem is not None:
        raise ConfigError(
            f"{OWNER}: the table {table.shown} {problem}",
            hint="Cast or rename in the query: df.select(...).",
        )
    missing = [name for name in rows.written if name not in table.columns]
    if missing and not adds_columns:
        raise ConfigError(
            f"{OWNER}: the table {table.shown} has no column {', '.join(missing)}.",
            hint='Select the columns that it has, or set option("schemaEvolution", "add-columns").',
        )
    return missing


def _problems(table: TableFacts, rows: Rows) -> Iterator[str]:
    by_case = {name.lower(): name for name in table.columns}
    for name, dtype in rows.written.items():
        column = table.columns.get(name)
        if column is None:
            other = by_case.get(name.lower())
            if other is not None:
                yield f"has the column {other}, which the query calls {name}."
        elif column.is_fixed:
            yield f"makes the values of {name} itself."
        elif name == rows.epoch_column:
            if column.base != "bigint":
                yield f"has the column {name}, which must be bigint."
        elif fits(wire_type(name, dtype), column) is None:
            yield (
                f"has the column {name} with the type {column.type}; the query writes "
                f"{sql_name(dtype)}."
            )
    for name, column in table.columns.items():
        if name not in rows.written and column.not_null and not column.is_filled:
            yield f"has the column {name}, which must not be left out."
    if rows.key and frozenset(rows.key) not in table.keys:
        keys = ", ".join(rows.key)
        yield f"has no unique index on ({keys}), which mode upsert needs: CREATE one, UNIQUE."


def wire_type(name: str, dtype: pa.DataType) -> str:
    """As which a column is copied, and the type of a new one.

    :raises ConfigError: there is none.
    """
    if dtype in _WIRE:
        return _WIRE[dtype]
    if pa.types.is_decimal128(dtype):
        return f"numeric({dtype.precision},{dtype.scale})"
    if pa.types.is_list(dtype):
        element = dtype.value_type
        if element in _WIRE and element not in _TIMES:
            return f"{_WIRE[element]}[]"
    raise ConfigError(
        f"{OWNER}: PostgreSQL cannot hold the column {name}, which is {sql_name(dtype)}.",
        hint=f"Write it as JSON: to_json({name}), or cast it.",
    )


def fits(wire: str, column: Column) -> bool | None:
    """Whether a column takes a value as it is; False: by a cast; None: not at all."""
    if wire.split("(")[0] == column.base or column.base in _SAME_BYTES.get(wire, ()):
        return True
    if wire == "text" and column.kind == "e":
        return True
    if wire == "text" or column.base in _WIDER.get(wire, ()):
        return False
    return None


def look_up(connection: Connection[Any], name: str) -> TableFacts | None:
    """What a table is; None if it is not there.

    :param name: as SQL has it.
    :raises ConfigError: it is none, or may not be written to.
    """
    found = connection.execute(_RELATION, [name]).fetchone()
    if found is None:
        return None
    oid, schema, relation, kind, may_insert = found
    shown = f"{schema}.{relation}"
    if kind not in ("r", "p"):
        raise ConfigError(
            f"{OWNER}: {shown} is no table.", hint="Write to the table behind it, or to a new one."
        )
    if not may_insert:
        raise ConfigError(
            f"{OWNER}: the user may not write to the table {shown}.",
            hint=f"GRANT SELECT, INSERT, UPDATE, DELETE ON {shown} TO ...",
        )
    return TableFacts(
        schema,
        relation,
        {row[0]: Column(*row) for row in connection.execute(_COLUMNS, [oid])},
        [(text, frozenset(names)) for text, names in connection.execute(_CHECKS, [oid])],
        [frozenset(names) for (names,) in connection.execute(_KEYS, [oid])],
    )

"""The SQL of the sink: stages, which a task fills, and what a commit makes of them.

A stage is a table of its own with the columns that the query writes::

    continuous_<query>_<generation>_<task>_<turn>

It is logged as any table is. An unlogged one would cost less, but a server that crashes behind an
aborted transaction which had made or emptied one may not start at once ("could not create file":
PostgreSQL's bug 17731, seen with 15.18). Its constraints are those of the table, so that a row
which the table would refuse fails its task before the epoch is prepared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from engine.errors import ConfigError
from engine.sinks.databases.rows import Rows
from engine.sinks.postgres.tables import OWNER, TableFacts, fits, wire_type

ROW: Final = "continuous_row"
TASK: Final = "continuous_task"
_COMMA: Final = SQL(", ")


@dataclass(frozen=True)
class Statements:
    """
    :param table: as it is when tasks are started; has all columns of ``rows``.
    :param place: the schema of stages, and of what is noted of epochs.
    """

    table: TableFacts
    rows: Rows
    place: str

    def stage(self, name: str) -> Identifier:
        return Identifier(self.place, name)

    @property
    def target(self) -> Identifier:
        return Identifier(self.table.schema, self.table.name)

    # -- stages -----------------------------------------------------------------------------------

    def create_stage(self, name: str) -> Composed:
        parts: list[Composable] = [
            SQL("{} {}").format(Identifier(name), SQL(self._stage_type(name)))
            for name in self.rows.types
        ]
        if self.rows.deletes is not None:
            parts.append(SQL("{} boolean").format(Identifier(self.rows.deletes)))
        if self.rows.key:
            parts.append(
                SQL("{} bigint GENERATED ALWAYS AS IDENTITY (CACHE 1000)").format(Identifier(ROW))
            )
        parts += self._constraints()
        return SQL("CREATE TABLE {} ({})").format(self.stage(name), _COMMA.join(parts))

    def fill_stage(self, name: str, columns: Sequence[str]) -> Composed:
        return SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
            self.stage(name), _COMMA.join(map(Identifier, columns))
        )

    def _is_converted(self, name: str) -> bool:
        return not fits(self._wire(name), self.table.columns[name])

    def _wire(self, name: str) -> str:
        return wire_type(name, self.rows.types[name])

    def _stage_type(self, name: str) -> str:
        return self._wire(name) if self._is_converted(name) else self.table.columns[name].type

    def _cast(self, name: str) -> Composable:
        column = Identifier(name)
        if not self._is_converted(name):
            return column
        return SQL("CAST({} AS {})").format(column, SQL(self.table.columns[name].type))

    def _constraints(self) -> Iterator[Composable]:
        exact = {name for name in self.rows.types if not self._is_converted(name)}
        for name in self.rows.types:
            column = Identifier(name)
            # No key of NULL is found again: its row would be appended each time.
            if self.table.columns[name].not_null or name in self.rows.key:
                given = SQL("{} IS NOT NULL").format(column)
                yield SQL("CHECK ({})").format(
                    given if name in self.rows.key else self._unless_deleted(given)
                )
            if name not in exact:
                yield SQL("CHECK ({} IS NULL OR {} IS NOT NULL)").format(column, self._cast(name))
        for text, columns in self.table.checks:
            if columns <= exact:
                yield SQL("CHECK ({})").format(self._unless_deleted(SQL(text)))

    def _unless_deleted(self, condition: Composable) -> Composable:
        if self.rows.deletes is None:
            return condition
        return SQL("{} IS TRUE OR ({})").format(Identifier(self.rows.deletes), condition)

    # -- commit -----------------------------------------------------------------------------------

    def take(
        self, stages: Sequence[str], epoch: int, types: Mapping[str, str] | None = None
    ) -> Iterator[Composed]:
        """Make the rows of these stages, in the order of their tasks, the table's.

        :param types: the columns of the stages, if an earlier start has made them: what its query
            did not have is left to the table, and what this one does not have is left out.
        :raises ConfigError: the table cannot have the rows.
        """
        if types is not None:
            self._check_earlier(types)
        if self.rows.key:
            yield self._replace(stages, types)
            return
        names, values = self._taken(types)
        if self.rows.epoch_column is not None:
            names.append(Identifier(self.rows.epoch_column))
            values.append(Literal(epoch))
        for stage in stages:
            yield SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
                self.target, _COMMA.join(names), _COMMA.join(values), self.stage(stage)
            )

    def _taken(self, types: Mapping[str, str] | None) -> tuple[list[Composable], list[Composable]]:
        """The columns of the table that get values of a stage, and these."""
        if types is None:
            types = {name: self._stage_type(name) for name in self.rows.types}
        names = [name for name in self.rows.types if name in types]
        values = [
            self._cast(name)
            if types[name] == self._stage_type(name)
            else SQL("CAST({} AS {})").format(Identifier(name), SQL(self.table.columns[name].type))
            for name in names
        ]
        return [*map(Identifier, names)], values

    def _check_earlier(self, types: Mapping[str, str]) -> None:
        filled = {n for n, column in self.table.columns.items() if not column.not_null}
        filled |= {n for n, column in self.table.columns.items() if column.is_filled}
        needed = [name for name in self.rows.types if name in self.rows.key or name not in filled]
        absent = [name for name in needed if name not in types]
        if self.rows.key and ROW not in types:
            absent.append("that tells which row is the last one of a key")
        if absent:
            raise ConfigError(
                f"{OWNER}: the epoch was prepared by an earlier start, whose rows have no column "
                f"{', '.join(absent)}; the table {self.table.shown} does not take them.",
                hint="Start the query once more as it was, drain it, and then change it.",
            )

    def _replace(self, stages: Sequence[str], types: Mapping[str, str] | None) -> Composed:
        key = [Identifier(name) for name in self.rows.key]
        names, taken = self._taken(types)
        values = [
            SQL("{} AS {}").format(value, name) for name, value in zip(names, taken, strict=True)
        ]
        deletes = self.rows.deletes
        if types is not None and deletes not in types:
            deletes = None
        is_gone = SQL("false" if deletes is None else "{} IS TRUE").format(
            *([] if deletes is None else [Identifier(deletes)])
        )
        all_rows = SQL(" UNION ALL ").join(
            SQL("SELECT {}, {} AS continuous_gone, {}, {} AS {} FROM {}").format(
                _COMMA.join(values), is_gone, Identifier(ROW), Literal(task), Identifier(TASK),
                self.stage(stage),
            )
            for task, stage in enumerate(stages)
        )  # fmt: skip
        set_ = [SQL("{0} = EXCLUDED.{0}").format(name) for name in names if name not in key]
        doing = SQL("UPDATE SET {}").format(_COMMA.join(set_)) if set_ else SQL("NOTHING")
        return SQL(
            "WITH latest AS MATERIALIZED (SELECT DISTINCT ON ({key}) * FROM ({rows}) s "
            "ORDER BY {key}, {task} DESC, {row} DESC), "
            "gone AS (DELETE FROM {target} t USING latest l WHERE {same} AND l.continuous_gone) "
            "INSERT INTO {target} ({names}) SELECT {names} FROM latest WHERE NOT continuous_gone "
            "ON CONFLICT ({key}) DO {doing}"
        ).format(
            key=_COMMA.join(key),
            rows=all_rows,
            task=Identifier(TASK),
            row=Identifier(ROW),
            target=self.target,
            same=SQL(" AND ").join(SQL("t.{0} = l.{0}").format(each) for each in key),
            names=_COMMA.join(names),
            doing=doing,
        )


def create_table(schema: str, name: str, rows: Rows) -> Composed:
    """A table for rows that have none."""
    parts: list[Composable] = [
        SQL("{} {}").format(Identifier(each), SQL(wire_type(each, dtype)))
        for each, dtype in rows.written.items()
    ]
    if rows.key:
        parts.append(SQL("PRIMARY KEY ({})").format(_COMMA.join(map(Identifier, rows.key))))
    return SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(
        Identifier(schema, name), _COMMA.join(parts)
    )


def add_columns(table: TableFacts, names: Sequence[str], rows: Rows) -> Composed:
    """Give a table what it lacks."""
    added = [
        SQL("ADD COLUMN IF NOT EXISTS {} {}").format(
            Identifier(name), SQL(wire_type(name, rows.written[name]))
        )
        for name in names
    ]  # fmt: skip
    return SQL("ALTER TABLE {} {}").format(Identifier(table.schema, table.name), _COMMA.join(added))


def query_part(query_id: str) -> str:
    """A query's id as a part of a stage's name."""
    return hashlib.sha256(query_id.encode()).hexdigest()[:12]


def stage_name(query_id: str, generation: int, task: int, turn: int) -> str:
    """See the module."""
    return f"continuous_{query_part(query_id)}_{generation}_{task}_{turn}"


def generation_of(stage: str) -> int:
    """Of the run whose stage it is."""
    return int(stage.split("_")[2])

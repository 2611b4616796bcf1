"""What a task looks at, of columns as MySQL and MariaDB describe them: no server is needed."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra sqlalchemy")

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.mysql.reflection import MySQLTableDefinitionParser

from engine.errors import SinkCommitRejectedError
from engine.expressions.types import TIMESTAMP
from engine.sinks.databases.rows import Rows
from engine.sinks.sqlalchemy.columns import fits
from engine.sinks.sqlalchemy.tables import Place, Target
from engine.sinks.sqlalchemy.values import Limits

MYSQL_8, MARIADB_11_4, MARIADB_11_5 = (8, 4, 0), (11, 4, 2), (11, 5, 2)


def limits(ddl: str, dtype: pa.DataType, version: tuple[int, ...] = MYSQL_8) -> Limits:
    """Of a column x, as ``SHOW CREATE TABLE`` tells it."""
    dialect: Any = mysql.dialect()
    dialect.server_version_info, dialect.is_mariadb = version, version >= MARIADB_11_4
    parser = MySQLTableDefinitionParser(dialect, dialect.identifier_preparer)
    state = parser.parse(f"CREATE TABLE `t` (\n  `x` {ddl}\n) ENGINE=InnoDB", "utf8mb4")
    ((name, held),) = [(each["name"], each["type"]) for each in state.columns]
    assert fits(dtype, held, dialect.name)
    table = sa.Table("t", sa.MetaData(), sa.Column(name, held))
    return Target(Place(None, "t"), table, Rows(types={"x": dtype}), dialect).limits()


def check(limits: Limits, dtype: pa.DataType, value: Any) -> None:
    limits.check(pa.record_batch([pa.array([None, value], dtype)], ["x"]))


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("tinytext", 255), ("text", 65_535), ("mediumtext", 16_777_215),
        ("tinyblob", 255), ("blob", 65_535), ("mediumblob", 16_777_215),
    ],
)  # fmt: skip
def test_a_value_of_more_bytes_than_its_column_takes_fails_the_task(kind: str, size: int) -> None:
    dtype, of = (pa.string(), "ä") if kind.endswith("text") else (pa.binary(), b"xy")
    found = limits(kind, dtype)
    check(found, dtype, of * (size // 2))
    with pytest.raises(SinkCommitRejectedError, match=f"x has {size + 1} bytes, and .* {size}"):
        check(found, dtype, of * (size // 2 + 1))


@pytest.mark.parametrize("kind", ["longtext", "varchar(300)"])
def test_a_column_without_such_a_limit_takes_more_bytes(kind: str) -> None:
    check(limits(kind, pa.string()), pa.string(), "ä" * 300)


@pytest.mark.parametrize(
    ("version", "year"), [(MYSQL_8, 2038), (MARIADB_11_4, 2038), (MARIADB_11_5, 2106)]
)
def test_a_time_that_a_timestamp_does_not_hold_fails_the_task(
    version: tuple[int, ...], year: int
) -> None:
    found = limits("timestamp(6) NULL DEFAULT NULL", TIMESTAMP, version)
    utc = datetime.timezone.utc
    last = datetime.datetime(2106, 2, 7, 6, 28, 15, tzinfo=utc)
    if year == 2038:
        last = datetime.datetime(2038, 1, 19, 3, 14, 7, tzinfo=utc)
    first = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=utc)
    for at in (first, last):
        check(found, TIMESTAMP, at)
    second = datetime.timedelta(seconds=1)
    for at in (first - second, last + second):
        with pytest.raises(SinkCommitRejectedError, match=f"not between 1970-01-01 .* and {year}"):
            check(found, TIMESTAMP, at)


def test_a_datetime_holds_any_time() -> None:
    found = limits("datetime(6) DEFAULT NULL", TIMESTAMP)
    check(found, TIMESTAMP, datetime.datetime(1600, 1, 1, tzinfo=datetime.timezone.utc))

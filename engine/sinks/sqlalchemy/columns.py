"""Which column of a database holds which column of a query, by SQLAlchemy's types.

========================  ====================  =================================================
Spark                     a new column          an existing one may also be
========================  ====================  =================================================
BOOLEAN                   Boolean               an integer, where there are no booleans
TINYINT, SMALLINT         SmallInteger          any integer that is wide enough, Numeric likewise
INT, BIGINT               Integer, BigInteger   the same
FLOAT, DOUBLE             REAL, Double          of FLOAT: Double
DECIMAL(p,s)              Numeric(p,s)          Numeric with as many digits on both sides
STRING                    Text; of a key        String(n), Unicode: a text that is longer fails
                          String(255)           its task
BINARY                    LargeBinary           VARBINARY(n) likewise
DATE                      Date
TIMESTAMP                 DateTime with zone    in databases that have no such type, one without:
                                                it gets the time in UTC
TIMESTAMP_NTZ             DateTime
========================  ====================  =================================================

What a database would change without a word is refused: seconds without their fractions, digits
that do not fit a double, a NaN that would become a null.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine

from engine.errors import ConfigError
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ, sql_name
from engine.sinks.sqlalchemy.database import OWNER

KEY_LENGTH: Final = 255
_MYSQLS: Final = ("mysql", "mariadb")
_NO_BOOLEANS: Final = (*_MYSQLS, "sqlite", "oracle")
_FRACTIONS: Final = mysql.DATETIME(fsp=6)
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INTEGER": 32, "BIGINT": 64}
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
_DIGITS_OF_SECOND: Final = 6
_BYTES: Final = {
    "TINYTEXT": 255, "TEXT": 65_535, "MEDIUMTEXT": 16_777_215,
    "TINYBLOB": 255, "BLOB": 65_535, "MEDIUMBLOB": 16_777_215,
}  # fmt: skip
"""So many a value of MySQL has at most. SQLAlchemy tells nothing of it."""
_FIRST_US: Final = 1_000_000
_LAST_US: Final = ((1 << 31) - 1) * 1_000_000 + 499_999
_LAST_OF_MARIADB_US: Final = ((1 << 32) - 1) * 1_000_000 + 499_999
"""What TIMESTAMP holds: from 1970-01-01 00:00:01 to 2038-01-19 03:14:07 UTC, in MariaDB since 11.5
to 2106-02-07 06:28:15. What is later than half of the last second may be rounded up."""
_SQLITE_DIGITS: Final = 15
"""Of a decimal number, which SQLite keeps as a double."""
_NEW: Final[dict[pa.DataType, TypeEngine[Any]]] = {
    pa.bool_(): sa.Boolean(),
    pa.int8(): sa.SmallInteger(),
    pa.int16(): sa.SmallInteger(),
    pa.int32(): sa.Integer(),
    pa.int64(): sa.BigInteger(),
    pa.float32(): sa.REAL().with_variant(mysql.FLOAT(), *_MYSQLS),
    pa.float64(): sa.Double(),
    pa.string(): sa.Text().with_variant(mysql.LONGTEXT(), *_MYSQLS),
    pa.binary(): sa.LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQLS),
    pa.date32(): sa.Date(),
    TIMESTAMP: sa.DateTime(timezone=True).with_variant(_FRACTIONS, *_MYSQLS),
    TIMESTAMP_NTZ: sa.DateTime().with_variant(_FRACTIONS, *_MYSQLS),
}


def type_of_new(name: str, dtype: pa.DataType, *, is_key: bool) -> TypeEngine[Any]:
    """The type of a column of a table that is made.

    :raises ConfigError: there is none.
    """
    if is_key and dtype == pa.string():
        return sa.String(KEY_LENGTH)
    if pa.types.is_decimal128(dtype):
        return sa.Numeric(dtype.precision, dtype.scale)
    if dtype in _NEW:
        return _NEW[dtype]
    raise ConfigError(
        f"{OWNER}: the column {name} is {sql_name(dtype)}, which not every database can hold.",
        hint=f"Write it as JSON: to_json({name}), or cast it.",
    )


def fits(dtype: pa.DataType, held: TypeEngine[Any], dialect: str) -> bool:
    """Whether a column of this type keeps each value as it is.

    :param held: as the database tells it.
    """
    if pa.types.is_boolean(dtype):
        stands_in = dialect in _NO_BOOLEANS and _bits(held, dialect) > 0
        return isinstance(held, sa.Boolean) or stands_in
    if pa.types.is_integer(dtype):
        return _holds_integer(dtype.bit_width, held, dialect)
    if pa.types.is_decimal128(dtype):
        if dialect == "sqlite" and dtype.precision > _SQLITE_DIGITS:
            return False
        return _holds_digits(dtype.precision - dtype.scale, dtype.scale, held, dialect)
    if pa.types.is_floating(dtype):
        return _holds_floating(dtype, held, dialect)
    if pa.types.is_string(dtype):
        is_padded = held.__visit_name__ in ("CHAR", "NCHAR") and dialect != "sqlite"
        return isinstance(held, sa.String) and not isinstance(held, sa.Enum) and not is_padded
    if pa.types.is_binary(dtype):
        is_padded = held.__visit_name__ == "BINARY" and dialect in (*_MYSQLS, "mssql")
        return isinstance(held, sa.types._Binary) and not is_padded
    if pa.types.is_date(dtype):
        return isinstance(held, sa.Date)
    return _holds_time(dtype, held, dialect)


def bytes_max(held: TypeEngine[Any], dialect: str) -> int | None:
    """So many a value in a column of this type has at most; None: no limit that matters."""
    return _BYTES.get(str(held.__visit_name__).upper()) if dialect in _MYSQLS else None


def times_of(held: TypeEngine[Any], dialect: Dialect) -> tuple[int, int] | None:
    """The first and the last instant that a column of this type holds, in microseconds; None: all
    that there are."""
    if dialect.name not in _MYSQLS or str(held.__visit_name__).upper() != "TIMESTAMP":
        return None
    version = dialect.server_version_info or ()
    is_late = getattr(dialect, "is_mariadb", False) and version >= (11, 5)
    return _FIRST_US, _LAST_OF_MARIADB_US if is_late else _LAST_US


def has_zones(dialect: str) -> bool:
    """Whether it has a type for instants."""
    return dialect not in (*_MYSQLS, "sqlite")


def _bits(held: TypeEngine[Any], dialect: str) -> int:
    if not isinstance(held, sa.Integer) or getattr(held, "unsigned", False):
        return 0
    if dialect == "sqlite":
        return 64
    name = str(held.__visit_name__).upper().replace("BIG_INTEGER", "BIGINT")
    return _BITS.get(name.replace("SMALL_INTEGER", "SMALLINT"), 0)


def _holds_integer(bits: int, held: TypeEngine[Any], dialect: str) -> bool:
    if dialect == "mssql" and held.__visit_name__ == "TINYINT":
        return False  # it begins at 0
    return _bits(held, dialect) >= bits or _holds_digits(_DIGITS[bits], 0, held, dialect)


def _holds_digits(before: int, behind: int, held: TypeEngine[Any], dialect: str) -> bool:
    if not isinstance(held, sa.Numeric) or isinstance(held, sa.Float):
        return False
    if held.precision is None:  # PostgreSQL's is then without a limit, as is Oracle's
        return dialect in ("postgresql", "oracle", "sqlite")
    scale = held.scale or 0
    return held.precision - scale >= before and scale >= behind


def _holds_floating(dtype: pa.DataType, held: TypeEngine[Any], dialect: str) -> bool:
    if not isinstance(held, sa.Float):
        return False
    name, precision = str(held.__visit_name__).upper(), held.precision
    is_single = name == "REAL" and dialect not in ("sqlite", *_MYSQLS)  # MySQL's is a double
    is_single |= name == "FLOAT" and dialect in (*_MYSQLS, "duckdb")
    is_single |= name == "FLOAT" and precision is not None and precision <= 24
    return dtype == pa.float32() or not is_single


def _holds_time(dtype: pa.DataType, held: TypeEngine[Any], dialect: str) -> bool:
    if not isinstance(held, sa.DateTime):
        return False
    name = str(held.__visit_name__).upper()
    digits = getattr(held, "precision", None)
    if digits is not None and digits < _DIGITS_OF_SECOND:  # it rounds
        return False
    if dialect in _MYSQLS:  # by default it has no fractions, and rounds
        is_exact = getattr(held, "fsp", None) == _FRACTIONS.fsp
        return is_exact and (name == "DATETIME" or dtype == TIMESTAMP)
    if dialect == "mssql" and name in ("DATETIME", "SMALLDATETIME"):  # it has milliseconds, or less
        return False
    if dialect == "oracle" and name == "DATE":
        return False
    zoned = bool(held.timezone) or name == "DATETIMEOFFSET"
    return zoned == (dtype == TIMESTAMP and has_zones(dialect))

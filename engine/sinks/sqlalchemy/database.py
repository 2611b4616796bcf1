"""A database by its URL: connections, what they are told first, and what their errors mean.

Source: SQLAlchemy's documentation, "Database URLs"; PEP 249, "Exceptions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.clients.errors import ClientErrors
from engine.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection
    from sqlalchemy.exc import SQLAlchemyError

OWNER: Final = "sink sqlalchemy"
SLEEPS_MS: Final = 10_000
"""A transaction whose driver says nothing for so long is ended, where the database can do that."""
LOCK_S: Final = 20
"""So long another driver's transaction is waited for, likewise."""
CHECK: Final = "See that the database runs, and the option url."
EXAMPLE: Final = "mysql+pymysql://user:password@host/shop"
_MYSQL: Final = (
    "SET time_zone = '+00:00'",
    # What does not fit is refused, and not cut; a null is not replaced.
    "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')",
    f"SET innodb_lock_wait_timeout = {LOCK_S}",
)
_FIRST: Final[Mapping[str, Sequence[str]]] = {
    "postgresql": (
        "SET TimeZone = 'UTC'",
        f"SET idle_in_transaction_session_timeout = {SLEEPS_MS}",
        f"SET lock_timeout = {LOCK_S * 1000}",
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') IN ('off', 'local')",
    ),
    "mysql": _MYSQL,
    "mariadb": (*_MYSQL, f"SET idle_transaction_timeout = {SLEEPS_MS // 1000}"),
    "sqlite": ("PRAGMA synchronous = FULL",),
}
"""By dialect: what is committed is on the disk; times are in UTC; nobody is waited for in vain."""


@dataclass(frozen=True)
class Database:
    """Picklable.

    :param url: with its password.
    :param name: for people and for the checkpoint: neither user nor parameters.
    """

    url: URL = field(repr=False)
    name: str

    @classmethod
    def of(cls, url: str) -> Database:
        """:raises ConfigError: there is no such dialect or driver, or nothing stays there."""
        sa = import_client()
        try:
            parsed = sa.engine.make_url(url)
        except (sa.exc.ArgumentError, ValueError) as exc:
            # What it says has the url, and so the password.
            raise ConfigError(
                f"{OWNER}: the option url is no URL of SQLAlchemy.", hint=f"As in {EXAMPLE}."
            ) from exc.with_traceback(None)
        try:
            dialect = parsed.get_dialect()
            dialect.import_dbapi()
        except (sa.exc.ArgumentError, ImportError) as exc:
            raise ConfigError(
                f"{OWNER}: no driver for {parsed.drivername} is installed: {exc}.",
                hint="Install it beside SQLAlchemy, on the driver's machine: pymysql for "
                "mysql+pymysql, psycopg for postgresql+psycopg.",
            ) from exc
        if dialect.name == "sqlite":
            if parsed.database in (None, "", ":memory:") or "mode=memory" in url:
                raise ConfigError(
                    f"{OWNER}: a database of SQLite in memory is gone with its connection.",
                    hint="Name a file: sqlite:////data/shop.db.",
                )
            if not str(parsed.database).startswith("file:"):
                # Whatever folder the next start is made in.
                parsed = parsed.set(database=str(Path(str(parsed.database)).absolute()))
        shown = sa.engine.URL.create(
            dialect.name, host=parsed.host, port=parsed.port, database=parsed.database
        )
        return cls(parsed, shown.render_as_string(hide_password=True))

    def connect(self) -> Connection:
        """:raises sqlalchemy.exc.SQLAlchemyError: that fails."""
        import sqlalchemy as sa

        # SQLAlchemy would show values of rows in its logs and errors.
        engine = sa.create_engine(self.url, poolclass=sa.pool.NullPool, hide_parameters=True)
        connection = engine.connect()
        try:
            for statement in _FIRST.get(dialect_of(connection), ()):
                connection.exec_driver_sql(statement)
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection


def dialect_of(connection: Connection) -> str:
    """Its name; what a URL of MySQL leads to may be MariaDB."""
    dialect: Any = connection.dialect
    return "mariadb" if getattr(dialect, "is_mariadb", False) else str(dialect.name)


def import_client() -> Any:
    """The module ``sqlalchemy``.

    :raises ConfigError: it is not installed.
    """
    try:
        import sqlalchemy
    except ImportError as exc:
        raise ConfigError(
            f"{OWNER} needs SQLAlchemy, which is not installed: {exc}.",
            hint="pip install 'airflow-provider-continuous[sqlalchemy]'",
        ) from exc
    return sqlalchemy


def is_passing(error: SQLAlchemyError) -> bool:
    """Whether time may mend it. PEP 249 counts to ``OperationalError`` what is no fault of the
    program, a full disk and a lock among it."""
    import sqlalchemy as sa

    kinds = (
        sa.exc.DataError,
        sa.exc.IntegrityError,
        sa.exc.NotSupportedError,
        sa.exc.ProgrammingError,
    )
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    return error.connection_invalidated or not isinstance(error, kinds)


def _reason(error: SQLAlchemyError) -> str:
    """In one line, without the statement."""
    return " ".join(str(getattr(error, "orig", None) or error).split()).rstrip(".")


def _base() -> type[Exception]:
    import sqlalchemy as sa

    return sa.exc.SQLAlchemyError


ERRORS: Final = ClientErrors(_base, is_passing, _reason, CHECK)

"""PostgreSQL's client, psycopg, by the options that its source and its sink share.

==================  ==============================================================================
option
==================  ==============================================================================
url                 ``postgresql://host:5432/database``, several hosts with commas; no password
user, password      without them libpq's own: PGUSER, PGPASSWORD, ``.pgpass``, a service file
libpq.*             any other parameter of libpq: ``libpq.sslmode``, ``libpq.connect_timeout``
==================  ==============================================================================

Source: PostgreSQL's documentation, "Parameter Key Words" and "PostgreSQL Error Codes".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine.base.connector_options import Options
from engine.clients.errors import ClientErrors
from engine.errors import ConfigError

if TYPE_CHECKING:
    import psycopg

PREFIX: Final = "libpq."
INSTALL: Final = "pip install 'airflow-provider-continuous[postgres]'"
CHECK: Final = "See that the server runs, and the options url, user, password and libpq.*."
OF_A_LOGIN: Final = ("user", "password")
_DEFAULTS: Final = {
    # A server that has vanished is noticed within a minute, and not after hours.
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "50000",
    "application_name": "continuous",
}
_OURS: Final = frozenset({"client_encoding", "replication"})
_NO_LIMITS: Final = (
    "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN "
    "('statement_timeout', 'transaction_timeout', 'idle_session_timeout', "
    "'idle_in_transaction_session_timeout') AND setting <> '0' AND source <> 'client'"
)
"""Those of the parameter ``options`` of libpq are of the client, and count."""
_PASSING: Final = ("08", "25006", "25P0", "40", "53", "55", "57", "58")
"""Beginnings of error codes: connections, a standby, a transaction that slept, serialization,
resources, locks that were not had in time, an operator's doing, and the system's."""


@dataclass(frozen=True)
class Server:
    """Where a database is, and how to log in. Picklable.

    :param name: for people: ``host:5432/database``.
    :param parameters: libpq's.
    :param tuning: the options that do not tell which database it is.
    """

    name: str
    parameters: Mapping[str, str] = field(repr=False)
    tuning: tuple[str, ...] = ()

    def connect(self, **parameters: str) -> psycopg.Connection[Any]:
        """Each statement by itself; times are in UTC, and texts in UTF-8. Limits of the user or of
        the database for statements do not count: an epoch is one, and so is a snapshot.

        :param parameters: beside its own.
        :raises psycopg.Error: that fails.
        """
        import psycopg

        connection = psycopg.connect(
            **{**self.parameters, **parameters},  # type: ignore[arg-type]
            client_encoding="UTF8",
            autocommit=True,
            prepare_threshold=None,
        )
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(_NO_LIMITS)
        return connection


def server_of(owner: str, options: Mapping[str, str], taken: Options) -> Server:
    """What the options of a connector say.

    :param owner: whose they are, for errors: ``sink postgres``.
    :param options: names in any case; those that are libpq's are taken from here.
    :param taken: the others.
    :raises ConfigError: the url is missing or wrong, or has a password.
    """
    psycopg = import_client(owner)
    example = "postgresql://host:5432/database"
    url = taken.required("url", example=example)
    try:
        found: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as exc:
        raise ConfigError(
            f"{owner}: the option url is no address of a database.",
            hint=f'Set option("url", "{example}").',
        ) from exc
    if found.get("password"):
        raise ConfigError(
            f"{owner}: the option url has a password, and would be written down with it.",
            hint='Set option("password", ...) instead.',
        )
    if not found.get("dbname"):
        raise ConfigError(f"{owner}: the option url names no database.", hint=f"As in {example}.")
    others = {
        name.lower().removeprefix(PREFIX): str(value)
        for name, value in options.items()
        if is_of_client(name)
    }
    if ours := sorted(_OURS & {*found, *others}):
        raise ConfigError(
            f"{owner} sets the parameter {ours[0]} of PostgreSQL's client itself.",
            hint="Leave it out.",
        )
    login = {name: taken.text(name) for name in OF_A_LOGIN}
    given = {**found, **others, **{key: value for key, value in login.items() if value}}
    try:
        psycopg.conninfo.make_conninfo(**given)
    except psycopg.ProgrammingError as exc:
        raise ConfigError(
            f"{owner}: PostgreSQL's client refuses an option: {str(exc).strip()}.",
            hint=f"What begins with {PREFIX} is a parameter of libpq: {PREFIX}sslmode.",
        ) from exc
    where = f"{found.get('host', 'localhost')}:{found.get('port', '5432')}/{found['dbname']}"
    tuning = (*OF_A_LOGIN, *(name for name in options if is_of_client(name)))
    return Server(where, {**_DEFAULTS, **given}, tuning)


def make_durable(connection: psycopg.Connection[Any]) -> None:
    """What is committed over it is on the server's disk, whatever the server's default is. A
    stronger one, which waits for standbys, stays."""
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )


def is_of_client(option: str) -> bool:
    """Whether it is a parameter of libpq."""
    return option.lower().startswith(PREFIX)


def import_client(owner: str) -> Any:
    """The module ``psycopg``.

    :raises ConfigError: it is not installed.
    """
    try:
        import psycopg
    except ImportError as exc:
        raise ConfigError(
            f"{owner} needs PostgreSQL's client, which is not installed: {exc}.", hint=INSTALL
        ) from exc
    return psycopg


def is_passing(error: psycopg.Error) -> bool:
    """Whether time may mend it."""
    import psycopg

    if error.sqlstate is None:  # the connection could not be made, or is lost
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return error.sqlstate.startswith(_PASSING)


def reason(error: psycopg.Error) -> str:
    """In one line."""
    said = error.diag
    parts = [said.message_primary or str(error), said.message_detail, said.context]
    return " ".join(" ".join(part.split()).rstrip(".") for part in parts if part).strip()


def _base() -> type[Exception]:
    import psycopg

    return psycopg.Error


ERRORS: Final = ClientErrors(_base, is_passing, reason, CHECK)
speaking_postgres: Final = ERRORS.speaking

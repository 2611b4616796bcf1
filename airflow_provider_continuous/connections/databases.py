"""``postgres``, ``mysql``, ``sqlite``, ``redis`` and ``mqtt``: an address, a user, a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from airflow_provider_continuous.connections.fields import Fields

_OF_LIBPQ: Final = (
    "application_name",
    "channel_binding",
    "connect_timeout",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "options",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
)
_MYSQL_CLIENTS: Final = {
    "mysqlclient": "mysqldb",
    "mysql-connector-python": "mysqlconnector",
    "pymysql": "pymysql",
}
_TLS_OF_REDIS: Final = (
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
)
_FILES_OF_MQTT: Final = ("caFile", "certFile", "keyFile")


def of_postgres(fields: Fields) -> dict[str, str]:
    """``url``, ``user``, ``password`` and ``libpq.`` options. The connection's schema is the
    database.

    :raises ConfigError: it names no host or no database, or has what libpq does not know.
    """
    database = fields.take("schema")
    address = _address(fields, "5432")
    if database is None:
        raise fields.wrong("names no database", "Its name is the connection's field schema.")
    found = {
        "url": f"postgresql://{address}/{quote(database, safe='')}",
        "user": fields.take("login"),
        "password": fields.take("password"),
        **{f"libpq.{name}": fields.extra_text(name) for name in _OF_LIBPQ},
    }
    fields.refuse_others()
    return {name: value for name, value in found.items() if value is not None}


def postgres_url(fields: Fields) -> dict[str, str]:
    """``url`` of SQLAlchemy, by PostgreSQL's client psycopg.

    :raises ConfigError: as :func:`of_postgres`.
    """
    libpq = {name: fields.extra_text(name) for name in _OF_LIBPQ}
    return {"url": _url(fields, "postgresql+psycopg", "5432", libpq)}


def mysql_url(fields: Fields) -> dict[str, str]:
    """``url`` of SQLAlchemy, by the client that Airflow's own provider would take.

    :raises ConfigError: it names no host or no database, or a client that is not known.
    """
    client = fields.extra_text("client") or "mysqlclient"
    if client not in _MYSQL_CLIENTS:
        raise fields.wrong(
            f"has in extra.client {client!r}, which is not known",
            f"It is one of {', '.join(_MYSQL_CLIENTS)}.",
        )
    others = {name: fields.extra_text(name) for name in ("charset", "unix_socket")}
    return {"url": _url(fields, f"mysql+{_MYSQL_CLIENTS[client]}", "3306", others)}


def sqlite_url(fields: Fields) -> dict[str, str]:
    """``url`` of SQLAlchemy. The connection's host is the file.

    :raises ConfigError: it names none.
    """
    path = fields.take("host")
    if path is None:
        raise fields.wrong("names no file", "Its path is the connection's field host.")
    fields.refuse_others()
    return {"url": f"sqlite:///{path}"}


def of_redis(fields: Fields) -> dict[str, str]:
    """``url``, ``username`` and ``password``.

    :raises ConfigError: it names no host, or has what the connector does not know.
    """
    address = _address(fields, "6379")
    scheme = "rediss" if fields.extra_flag("ssl") else "redis"
    tls = {name: fields.extra_text(name) for name in _TLS_OF_REDIS}
    query = urlencode({name: value for name, value in tls.items() if value is not None})
    found = {
        "url": f"{scheme}://{address}/{fields.extra_text('db') or 0}{'?' if query else ''}{query}",
        "username": fields.take("login"),
        "password": fields.take("password"),
    }
    fields.refuse_others()
    return {name: value for name, value in found.items() if value is not None}


def of_mqtt(fields: Fields) -> dict[str, str]:
    """``url``, ``username``, ``password`` and the files of certificates.

    :raises ConfigError: it names no host, or has what the connector does not know.
    """
    has_tls = fields.extra_flag("tls")
    address = _address(fields, "8883" if has_tls else "1883")
    found = {
        "url": f"{'mqtts' if has_tls else 'mqtt'}://{address}",
        "username": fields.take("login"),
        "password": fields.take("password"),
        **{name: fields.extra_text(name) for name in _FILES_OF_MQTT},
    }
    fields.refuse_others()
    return {name: value for name, value in found.items() if value is not None}


def _url(fields: Fields, driver: str, port: str, others: Mapping[str, str | None]) -> str:
    """:param others: what stands behind ``?``."""
    login, password = fields.take("login"), fields.take("password")
    database, address = fields.take("schema"), _address(fields, port)
    if database is None:
        raise fields.wrong("names no database", "Its name is the connection's field schema.")
    fields.refuse_others()
    user = "" if login is None else quote(login, safe="")
    user += "" if password is None else f":{quote(password, safe='')}"
    query = urlencode({name: value for name, value in others.items() if value is not None})
    at, asked = "@" if user else "", "?" if query else ""
    return f"{driver}://{user}{at}{address}/{quote(database, safe='')}{asked}{query}"


def _address(fields: Fields, port: str) -> str:
    host = fields.take("host")
    if host is None:
        raise fields.wrong("names no host")
    return f"{f'[{host}]' if ':' in host else host}:{fields.take('port') or port}"

"""``postgres`` and ``redis``: an address, a user, a password."""

from __future__ import annotations

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
_TLS_OF_REDIS: Final = (
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
)


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


def of_redis(fields: Fields) -> dict[str, str]:
    """``url``, ``username`` and ``password``.

    :raises ConfigError: it names no host, or has what the connector does not know.
    """
    address = _address(fields, "6379")
    scheme = "rediss" if fields.extra_text("ssl") == "true" else "redis"
    tls = {name: fields.extra_text(name) for name in _TLS_OF_REDIS}
    query = urlencode({name: value for name, value in tls.items() if value is not None})
    found = {
        "url": f"{scheme}://{address}/{fields.extra_text('db') or 0}{'?' if query else ''}{query}",
        "username": fields.take("login"),
        "password": fields.take("password"),
    }
    fields.refuse_others()
    return {name: value for name, value in found.items() if value is not None}


def _address(fields: Fields, port: str) -> str:
    host = fields.take("host")
    if host is None:
        raise fields.wrong("names no host")
    return f"{f'[{host}]' if ':' in host else host}:{fields.take('port') or port}"

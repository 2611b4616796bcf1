"""``http``: an address, a user, headers, as Airflow's HTTP provider has them."""

from __future__ import annotations

import base64
from typing import Final

from airflow_provider_continuous.connections.fields import Fields

_OF_A_SESSION: Final = (
    "allow_redirects",
    "cert",
    "check_response",
    "max_redirects",
    "proxies",
    "proxy",
    "stream",
    "timeout",
    "trust_env",
    "verify",
)
"""What Airflow's hook takes out of the extra; the rest is headers."""


def of_http(fields: Fields) -> dict[str, str]:
    """``url`` and ``header.`` options; login and password become a header, too.

    :raises ConfigError: it names no host, or has settings of a session.
    """
    host = fields.take("host")
    scheme, port = fields.take("schema") or "http", fields.take("port")
    login, password = fields.take("login"), fields.take("password")
    headers = fields.all_extras()
    fields.refuse_others()
    others = [name for name in _OF_A_SESSION if name in headers]
    if others:
        raise fields.wrong(
            f"has {', '.join(f'extra.{name}' for name in others)}, which {fields.owner} does not "
            "know",
            "What it knows in the extra are headers.",
        )
    if host is None:
        raise fields.wrong("names no host")
    address = host if "://" in host else f"{scheme}://{host}"
    found = {"url": address if port is None else f"{address}:{port}"}
    found |= {f"header.{name}": value for name, value in headers.items()}
    if login is not None or password is not None:
        user = base64.b64encode(f"{login or ''}:{password or ''}".encode()).decode()
        found["header.Authorization"] = f"Basic {user}"
    return found

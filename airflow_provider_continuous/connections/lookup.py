"""Finds connections, and single values in them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.definitions.connection import Connection

from airflow_provider_continuous.compat import AirflowNotFoundException
from engine.errors import ConfigError

PARTS = ("login", "password", "host", "port", "schema")


def find(conn_id: str, wanted_by: str) -> Connection:
    """Look a connection up.

    :param wanted_by: who names it, for the error: ``source kafka``.
    :raises ConfigError: it does not exist.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigError(
            f"There is no connection {conn_id!r}, which {wanted_by} names.",
            hint="Create it in Airflow, or correct the name.",
        ) from None


def value_at(connection: Connection, place: str, wanted_by: str) -> str:
    """Return one value of a connection.

    :param place: ``login``, ``password``, ``host``, ``port``, ``schema`` or ``extra.KEY``.
    :raises ConfigError: there is no such place, or nothing in it.
    """
    value: Any
    if place.startswith("extra."):
        value = connection.extra_dejson.get(place.removeprefix("extra."))
    elif place in PARTS:
        value = getattr(connection, place)
    else:
        raise ConfigError(
            f"{wanted_by} asks for {place!r} of the connection {connection.conn_id!r}.",
            hint=f"A connection has {', '.join(PARTS)} and extra.KEY.",
        )
    if value is None or value == "":
        raise ConfigError(
            f"The connection {connection.conn_id!r} has no {place}, which {wanted_by} asks for."
        )
    return str(value)

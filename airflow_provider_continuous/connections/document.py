"""Puts what connections say into a specification, in place of their names.

It is done anew for each start, in the worker that makes it, and the result goes only where a
specification's own secrets go: a file that only its owner can read, or the driver's environment.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from airflow.sdk.log import mask_secret

from airflow_provider_continuous.connections.fields import Fields
from airflow_provider_continuous.connections.kinds import CONNECTORS, GENERIC, STORAGES, read
from airflow_provider_continuous.connections.location import CheckpointLocation
from airflow_provider_continuous.connections.lookup import find, value_at
from engine.errors import ConfigError
from engine.query.spec.fields import literal
from engine.redaction.logs import SECRET_NAME, redact

logger = logging.getLogger(__name__)


def with_connections(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification that names no connection.

    :param document: as users write it; it stays as it is.
    :raises ConfigError: a connection is missing, of another type than its connector takes, or says
        what the connector does not know.
    """
    found = dict(document)
    for role in ("source", "sink"):
        if isinstance(found.get(role), Mapping):
            found[role] = connected(found[role], role)
    named = found.get("connections")
    if isinstance(named, Mapping):
        found["connections"] = {
            name: _of_format(name, given) if isinstance(given, str) else given
            for name, given in named.items()
        }
    return found


def connected(
    connector: Mapping[str, Any], role: str, *, in_document: bool = True
) -> dict[str, Any]:
    """Return a source or a sink without its ``connection``, and with the options that this says;
    explicit ones go first.

    :param role: ``source`` or ``sink``, for errors.
    :param in_document: the result is read as a specification, in which ``${NAME}`` is a variable.
    :raises ConfigError: as :func:`with_connections`.
    """
    found = {key: value for key, value in connector.items() if key != "connection"}
    explicit = found.get("options") or {}
    if connector.get("connection") is None or not isinstance(explicit, Mapping):
        return found  # whoever reads the document says what options are
    over = {str(key).lower() for key in explicit}
    said = {
        key: literal(value) if in_document else value
        for key, value in said_by_connection(connector, role).items()
        if key.lower() not in over
    }
    return {**found, "options": {**said, **explicit}}


def connected_sink(sink: Mapping[str, Any], argument: str) -> tuple[str, dict[str, Any]]:
    """Return the format and the options of a sink that is given apart from its query.

    :param argument: which argument it is, for errors.
    :raises ConfigError: it names no format; or as :func:`with_connections`.
    """
    if not isinstance(sink, Mapping) or not isinstance(sink.get("format"), str):
        raise ConfigError(
            f"{argument} is {sink!r}: it names no format.",
            hint='Give it as in the query: {"format": "delta", "options": {"path": "..."}}.',
        )
    found = connected(sink, argument, in_document=False)
    return found["format"], dict(found.get("options") or {})


def said_by_connection(connector: Mapping[str, Any], role: str) -> dict[str, str]:
    """Return the options that the ``connection`` of a source or a sink says; none without one.

    :raises ConfigError: as :func:`with_connections`.
    """
    if connector.get("connection") is None:
        return {}
    name = str(connector.get("format"))
    kinds = CONNECTORS.get(name.lower(), GENERIC)
    return _options(connector["connection"], kinds, f"{role} {name}")


def storage_options(location: CheckpointLocation) -> dict[str, str]:
    """Return what a query needs to open its checkpoint, as ``checkpoint_storage`` has it: empty if
    its location names no connection, or is no object store.

    :raises ConfigError: as :func:`with_connections`.
    """
    scheme = urlsplit(location.url).scheme
    if location.conn_id is None or scheme not in STORAGES:
        return {}
    said = _options(location.conn_id, STORAGES[scheme], f"the checkpoint's location, {scheme}://")
    return {key: literal(value) for key, value in said.items()}


def _of_format(conn_id: str, name: str) -> dict[str, str]:
    kinds = CONNECTORS.get(name.lower(), GENERIC)
    said = _options(conn_id, kinds, f"connections.{conn_id}, for {name},")
    return {key: literal(value) for key, value in said.items()}


def _options(named: Any, kinds: Mapping[str, Any], owner: str) -> dict[str, str]:
    conn_id, places = _named(named, owner)
    connection = find(conn_id, owner)
    if places is None:
        said = read(kinds, Fields(connection, owner))
    else:
        said = {}
        for key, place in places.items():
            if place == "password" and SECRET_NAME.search(key) is None:
                raise ConfigError(
                    f"{owner} would get the password of {conn_id!r} as its option {key}, which is "
                    "no secret's name: the checkpoint and explain would show it.",
                    hint="Hand it over in the query's environment (the field environment-from of "
                    "its connection), and let the connector read it there.",
                )
            said[str(key)] = value_at(connection, str(place), owner)
    for key, value in said.items():
        if redact(f"{key}={value}") != f"{key}={value}":
            mask_secret(value)
    logger.info("%s: %s of the connection %r", owner, ", ".join(sorted(said)) or "nothing", conn_id)
    return said


def _named(named: Any, owner: str) -> tuple[str, Mapping[str, Any] | None]:
    if isinstance(named, str) and named.strip():
        return named.strip(), None
    if isinstance(named, Mapping) and set(named) == {"id", "options"}:
        places = named["options"]
        if isinstance(named["id"], str) and isinstance(places, Mapping):
            return named["id"], places
    raise ConfigError(
        f"{owner} has a connection that is neither a name nor {{id, options}}.",
        hint="Write connection: my_conn, or connection: {id: my_conn, options: {apiKey: "
        "password}}.",
    )

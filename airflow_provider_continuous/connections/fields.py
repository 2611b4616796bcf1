"""The fields of one connection: taken one by one, and the rest refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from airflow.sdk.definitions.connection import Connection

from airflow_provider_continuous.connections.lookup import PARTS
from engine.errors import ConfigError


class Fields:
    """What a connection says.

    Its fields are ``login``, ``password``, ``host``, ``port``, ``schema``, and those of ``extra``
    by their own names. Nothing here shows a value.

    :param owner: who names it, for errors: ``source kafka``.
    :ivar name: the connection, for errors.
    :raises ConfigError: its extra is no JSON object.
    """

    def __init__(self, connection: Connection, owner: str) -> None:
        self.conn_id = str(connection.conn_id)
        self.conn_type = str(connection.conn_type)
        self.owner = owner
        own = {part: getattr(connection, part) for part in PARTS}
        self._own = {part: str(value) for part, value in own.items() if value not in (None, "")}
        self._extra = extra_of(connection)
        self.name = _name_of(connection)
        self._known: list[str] = []

    def take(self, part: str) -> str | None:
        """Return one of the connection's own fields, None if it says nothing there."""
        self._known.append(part)
        return self._own.pop(part, None)

    def extra_value(self, key: str) -> Any:
        """Return a value of the extra as it is, None if it says nothing there."""
        self._known.append(f"extra.{key}")
        value = self._extra.pop(key, None)
        return None if value == "" else value

    def extra_text(self, key: str) -> str | None:
        """Return a value of the extra as text.

        :raises ConfigError: it is an object or a list.
        """
        value = self.extra_value(key)
        return None if value is None else self.text(f"extra.{key}", value)

    def extra_flag(self, key: str) -> bool:
        """Return a truth value of the extra, false if it says nothing there. It is text where the
        connection is a URI.

        :raises ConfigError: it is something else.
        """
        said = self.extra_text(key)
        found = {None: False, "true": True, "1": True, "false": False, "0": False}.get(
            said and said.lower()
        )
        if found is None:
            raise self.wrong(f"has in extra.{key} {said!r}", "It is true or false.")
        return found

    def all_extras(self) -> dict[str, str]:
        """Return the whole extra: the connector knows its keys.

        :raises ConfigError: a value is an object or a list.
        """
        taken, self._extra = self._extra, {}
        return {key: self.text(f"extra.{key}", value) for key, value in taken.items()}

    def text(self, field: str, value: Any) -> str:
        """Return a value as text, as options of connectors are.

        :raises ConfigError: it is an object or a list.
        """
        if isinstance(value, Mapping | list):
            raise self.wrong(f"has in {field} what is neither text nor a number nor a truth value")
        return str(value).lower() if isinstance(value, bool) else str(value)

    def refuse_others(self, hint: str | None = None) -> None:
        """Call this when all was taken.

        :param hint: instead of what it takes.
        :raises ConfigError: the connection says something that nobody took.
        """
        left = [*self._own, *(f"extra.{key}" for key in self._extra)]
        if left:
            known = sorted(set(self._known))
            raise self.wrong(
                f"has {', '.join(left)}, which {self.owner} does not know",
                hint or f"It takes {', '.join(known)}.",
            )

    def wrong(self, what: str, hint: str | None = None) -> ConfigError:
        """Return the error of a connection that cannot be used."""
        return ConfigError(f"{self.name} {what}.", hint=hint)


def extra_of(connection: Connection) -> dict[str, Any]:
    """Return a connection's extra without what is null. Airflow takes one that is no JSON for an
    empty one.

    :raises ConfigError: it is no JSON object.
    """
    if not connection.extra:
        return {}
    try:
        found = json.loads(connection.extra)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            f"{_name_of(connection)} has an extra that is no JSON object.",
            hint="Correct it in Airflow.",
        )
    return {key: value for key, value in connection.extra_dejson.items() if value is not None}


def _name_of(connection: Connection) -> str:
    return f"The connection {str(connection.conn_id)!r} ({connection.conn_type})"


Reader: TypeAlias = Callable[[Fields], dict[str, str]]
"""From a connection's fields to options of a connector, or of a storage."""

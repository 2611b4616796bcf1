"""One name for a table, however an option spells it.

``orders``, ``shop.orders`` and, where the database folds names, ``ORDERS`` may be the same table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from engine.sinks.sqlalchemy.tables import Place

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Inspector

_SEARCH_PATH = "SELECT unnest(pg_catalog.current_schemas(false))"


def stored_name(connection: Connection, inspector: Inspector, place: Place) -> Place:
    """Schema and name as the database has them. Of a table that is not there: where an option that
    names no schema would have it made.

    :param inspector: of the connection; it remembers what it has asked.
    """
    for schema in _schemas(connection, inspector, place):
        if inspector.has_table(place.name, schema):
            name = _as_stored(place.name, inspector.get_table_names(schema))
            return Place(_as_stored(schema, inspector.get_schema_names()), name)
    return Place(place.schema or inspector.default_schema_name, place.name)


def _schemas(connection: Connection, inspector: Inspector, place: Place) -> Sequence[str]:
    """Where the table may be, in the order in which the database looks for it."""
    if place.schema is not None:
        return [place.schema]
    if connection.dialect.name == "postgresql":
        return connection.exec_driver_sql(_SEARCH_PATH).scalars().all()
    default = inspector.default_schema_name
    return [] if default is None else [default]


def _as_stored(name: str, names: Collection[str]) -> str:
    """:param name: of something that is there.

    :param names: of all that are.
    """
    if name in names:
        return name
    folded = [each for each in names if each.casefold() == name.casefold()]
    return folded[0] if len(folded) == 1 else name

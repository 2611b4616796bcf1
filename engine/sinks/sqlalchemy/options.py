"""The options of the sink ``sqlalchemy``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.connector_options import Options
from engine.errors import ConfigError
from engine.sinks.databases.rows import Mode
from engine.sinks.shipped import shipped_bytes_max
from engine.sinks.sqlalchemy.database import EXAMPLE, OWNER, Database
from engine.sinks.sqlalchemy.tables import Place


@dataclass(frozen=True)
class SinkOptions:
    database: Database
    place: Place
    bytes_max: int
    mode: Mode


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """:raises ConfigError: one is missing, wrong, or not known."""
    taken = Options(OWNER, options)
    taken.text("path")  # by which a checkpoint knows the place
    return SinkOptions(
        Database.of(taken.required("url", example=EXAMPLE)),
        _place(taken.required("table", example="shop.orders")),
        shipped_bytes_max(taken),
        Mode.of(OWNER, taken),
    )


def _place(table: str) -> Place:
    place = Place.of(table.strip())
    if not place.name or any(quote in table for quote in "\"'`[]"):
        raise ConfigError(
            f"{OWNER}: the option table is {table!r}, which names no table.",
            hint="A name, or schema.name, without quotes: they are set where a name needs them.",
        )
    return place

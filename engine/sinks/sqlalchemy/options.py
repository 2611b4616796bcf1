"""The options of the sink ``sqlalchemy``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.connector_options import Options
from engine.errors import ConfigError
from engine.sinks.shipped import shipped_bytes_max
from engine.sinks.sqlalchemy.database import EXAMPLE, OWNER, Database
from engine.sinks.sqlalchemy.tables import Place


@dataclass(frozen=True)
class SinkOptions:
    """:param key: names; empty in mode append."""

    database: Database
    place: Place
    key: tuple[str, ...]
    deletes: str | None
    epoch_column: str | None
    bytes_max: int


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """:raises ConfigError: one is missing, wrong, or not known."""
    taken = Options(OWNER, options)
    database = Database.of(taken.required("url", example=EXAMPLE))
    place = _place(taken.required("table", example="shop.orders"))
    mode = taken.choice("mode", "append", ("append", "upsert"))
    names = (taken.text("keyColumns") or "").split(",")
    key = tuple(name.strip() for name in names if name.strip())
    deletes, epoch_column = taken.text("deleteColumn"), taken.text("epochColumn")
    bytes_max = shipped_bytes_max(taken)
    taken.text("path")  # by which a checkpoint knows the place
    taken.refuse_others()
    if mode == "upsert" and not key:
        raise ConfigError(
            f"{OWNER}: mode upsert needs the option keyColumns.",
            hint='Set option("keyColumns", "id"), several columns with commas.',
        )
    for name, is_given in {"keyColumns": bool(key), "deleteColumn": bool(deletes)}.items():
        if mode == "append" and is_given:
            raise ConfigError(
                f"{OWNER}: the option {name} has no effect in mode append.",
                hint='Set option("mode", "upsert").',
            )
    if mode == "upsert" and epoch_column:
        raise ConfigError(
            f"{OWNER}: the option epochColumn has no effect in mode upsert: rows are replaced.",
            hint="Leave it out.",
        )
    return SinkOptions(database, place, key, deletes or None, epoch_column or None, bytes_max)


def _place(table: str) -> Place:
    schema, _, name = table.strip().rpartition(".")
    if not name or any(quote in table for quote in "\"'`[]"):
        raise ConfigError(
            f"{OWNER}: the option table is {table!r}, which names no table.",
            hint="A name, or schema.name, without quotes: they are set where a name needs them.",
        )
    return Place(schema or None, name)

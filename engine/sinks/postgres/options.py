"""The options of the sink ``postgres``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.base.connector_options import Options
from engine.clients.postgres import Server, is_of_client, server_of
from engine.errors import ConfigError
from engine.sinks.postgres.tables import OWNER

EVOLUTIONS: Final = ("refuse", "add-columns")


@dataclass(frozen=True)
class SinkOptions:
    """
    :param table: as SQL has it.
    :param place: the schema for stages and epochs; None: the table's.
    :param key: names; empty in mode append.
    """

    server: Server
    table: str
    place: str | None
    key: tuple[str, ...]
    deletes: str | None
    epoch_column: str | None
    adds_columns: bool


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """:raises ConfigError: one is missing, wrong, or not known."""
    taken = Options(OWNER, {name: each for name, each in options.items() if not is_of_client(name)})
    server = server_of(OWNER, options, taken)
    table = taken.required("table", example="shop.orders")
    place = taken.text("stagingSchema")
    mode = taken.choice("mode", "append", ("append", "upsert"))
    names = (taken.text("keyColumns") or "").split(",")
    key = tuple(name.strip() for name in names if name.strip())
    deletes, epoch_column = taken.text("deleteColumn"), taken.text("epochColumn")
    evolution = taken.choice("schemaEvolution", "refuse", EVOLUTIONS)
    taken.refuse_others()
    if mode == "upsert" and not key:
        raise ConfigError(
            f"{OWNER}: mode upsert needs the option keyColumns.",
            hint='Set option("keyColumns", "id"), several columns with commas.',
        )
    of_the_other = {"keyColumns": bool(key), "deleteColumn": bool(deletes)}
    for name, is_given in of_the_other.items():
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
    return SinkOptions(
        server, table, place, key, deletes, epoch_column or None, evolution == "add-columns"
    )

"""The options of the sink ``postgres``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.base.connector_options import Options
from engine.clients.postgres import Server, is_of_client, server_of
from engine.sinks.databases.rows import Mode
from engine.sinks.postgres.tables import OWNER

EVOLUTIONS: Final = ("refuse", "add-columns")


@dataclass(frozen=True)
class SinkOptions:
    """
    :param table: as SQL has it.
    :param place: the schema for stages and epochs; None: the table's.
    """

    server: Server
    table: str
    place: str | None
    adds_columns: bool
    mode: Mode


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """:raises ConfigError: one is missing, wrong, or not known."""
    taken = Options(OWNER, {name: each for name, each in options.items() if not is_of_client(name)})
    return SinkOptions(
        server_of(OWNER, options, taken),
        taken.required("table", example="shop.orders"),
        taken.text("stagingSchema"),
        taken.choice("schemaEvolution", "refuse", EVOLUTIONS) == "add-columns",
        Mode.of(OWNER, taken),
    )

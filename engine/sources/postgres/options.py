"""The options of the source ``postgres``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.base.connector_options import Options
from engine.clients.postgres import Server, is_of_client, server_of
from engine.errors import ConfigError
from engine.sources.postgres.rows import OWNER

STARTS: Final = ("snapshot", "latest")
_SLOT: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


@dataclass(frozen=True)
class SourceOptions:
    """
    :param table: as SQL has it.
    :param begins_with_snapshot: else with the changes from the start on.
    :param creates: publication and slot are made if they are not there.
    :param takes_unavailable: values that were not sent are null; else they are an error.
    """

    server: Server
    table: str
    slot: str
    publication: str
    begins_with_snapshot: bool
    creates: bool
    takes_unavailable: bool


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """:raises ConfigError: one is missing, wrong, or not known."""
    taken = Options(OWNER, {name: each for name, each in options.items() if not is_of_client(name)})
    server = server_of(OWNER, options, taken)
    table = taken.required("table", example="shop.orders")
    slot = taken.required("slot", example="orders_stream")
    if not set(slot) <= _SLOT or len(slot) > 63:
        raise ConfigError(
            f"{OWNER}: PostgreSQL does not allow the slot name {slot!r}.",
            hint="Up to 63 of: lower case letters, digits, underscore.",
        )
    publication = taken.text("publication") or slot
    start = taken.choice("startingPosition", "snapshot", STARTS)
    creates = taken.boolean("createIfMissing", True)
    unavailable = taken.choice("unavailableValues", "error", ("error", "null"))
    taken.refuse_others()
    return SourceOptions(
        server, table, slot, publication, start == "snapshot", creates, unavailable == "null"
    )

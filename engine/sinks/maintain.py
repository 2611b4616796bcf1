"""Tables of lakes, by whoever looks after them: as a sink's options name them, or as the checkpoint
of a query that writes to one tells.

See :mod:`engine.sinks.lakes.maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql.datasource import CaseInsensitiveDict

from engine.base.json_text import JSON
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.errors import ConfigError
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.lakes.upkeep import Upkeep

LAKES: Final = ("delta", "iceberg")
"""Sinks whose tables can be looked after."""


def table_of(name: str, options: Mapping[str, str]) -> Upkeep[Any, Any]:
    """The table that a sink writes to.

    :param name: the sink's format.
    :raises ConfigError: it has no table, or the options are wrong.
    """
    if name.lower() not in LAKES:
        raise ConfigError(
            f"The sink {name} has no table that could be looked after.",
            hint=f"There are {', '.join(LAKES)}.",
        )
    source: Any = sink_class(name)(CaseInsensitiveDict(dict(options)))
    upkeep: Upkeep[Any, Any] = source.upkeep()
    return upkeep


def recorded_table(checkpoint: Checkpoint) -> Upkeep[Any, Any]:
    """The table that the checkpoint's query wrote to at its last start.

    :raises ConfigError: the checkpoint does not tell, or its sink has no table.
    :raises CheckpointCorruptError: what it tells is unreadable.
    """
    parts: JSON = read_fingerprint(checkpoint.storage)
    if parts is None:
        raise ConfigError(
            f"{checkpoint.url} does not tell which sink its query has.",
            hint="Name the table.",
        )
    return table_of(parts["sink"]["format"], parts["sink"]["options"])


def pinned_epochs(checkpoints: Iterable[Checkpoint]) -> dict[str, int]:
    """Query id → its lowest pinned epoch; without those that have none.

    :raises CheckpointError: one cannot be read.
    """
    found = {}
    for checkpoint in checkpoints:
        pins, query_id = checkpoint.pins(), checkpoint.query_id()
        if pins and query_id is not None:
            found[query_id] = pins[0].epoch
    return found

"""What ``write_stream`` was told about a query, for whoever is to run it: the engine, or Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.base.nested_settings import pop_settings
from engine.base.output_modes import APPEND
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.standby import Standby
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ConfigError
from engine.sinks.builtin_sinks import sink_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from engine.execution.execution import ContinuousExecution

CHECKPOINT = "checkpointLocation"
STORAGE = "checkpointStorage."
"""Before each option that opens the checkpoint's storage, see :func:`pop_storage`."""
DEFAULT_INTERVAL = "1 second"


@dataclass
class WriteRequest:
    """One query to be started.

    :param df: what is written.
    :param trigger_kind: the keyword that ``trigger()`` was given, with its ``trigger_value``.
    :param standby: waits for the run that holds the checkpoint, before anything starts.
    :param on_made: is given the execution before it starts: who asks it takes no lock of it.
    :param function: what foreach or foreachBatch was given; ``sink_format`` tells which.
    """

    df: DataFrame
    sink_format: str | None = None
    sink_options: dict[str, str] = field(default_factory=dict)
    partition_columns: list[str] = field(default_factory=list)
    query_name: str | None = None
    output_mode: str = APPEND
    trigger_kind: str = "continuous"
    trigger_value: Any = DEFAULT_INTERVAL
    function: Any = None
    standby: Standby | None = None
    on_made: Callable[[ContinuousExecution], None] | None = None


def named_checkpoint(
    request: WriteRequest, location: str | None, settings: Mapping[str, Any]
) -> Checkpoint | None:
    """The query's checkpoint, which is not made yet; None if it has a temporary one.

    :param settings: see :func:`open_checkpoint`.
    :raises ConfigError: it needs one, and has none; or the location cannot be used.
    """
    named = _location(request, location)
    if named is not None:
        return open_checkpoint(named, settings)
    if settings:
        raise _meaningless(settings, "the checkpoint is a temporary one")
    return None


def temporary_checkpoint() -> Checkpoint:
    """A new one, in a folder of its own."""
    return Checkpoint(tempfile.mkdtemp(prefix="continuous-"))


def _location(request: WriteRequest, location: str | None) -> str | None:
    if location is not None:
        return location
    default = request.df.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
    if default and request.query_name:
        return f"{default.rstrip('/')}/{request.query_name}"
    # One of its own has nobody to stand by for.
    if sink_kind(str(request.sink_format)).is_ephemeral and request.standby is None:
        return None
    raise ConfigError(
        "The query has no checkpoint location.",
        hint='Set option("checkpointLocation", ...): it is what makes the query restartable.',
    )


def pop_storage(options: dict[str, str]) -> dict[str, Any]:
    """Take the options out that open the checkpoint's storage; nobody else sees them. They are
    fsspec's own: ``checkpointStorage.key``."""
    return pop_settings(options, STORAGE)


def open_checkpoint(location: str, settings: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint at a path or URL.

    :param settings: of fsspec, as :func:`pop_storage` returns them.
    :raises ConfigError: the location cannot be used, or is a path, which needs no settings.
    """
    checkpoint = Checkpoint(location, settings)
    if settings and isinstance(checkpoint.storage, LocalStorage):
        raise _meaningless(settings, f"the checkpoint {location} is on a disk")
    return checkpoint


def _meaningless(settings: Mapping[str, Any], reason: str) -> ConfigError:
    return ConfigError(
        f"Option {STORAGE}{next(iter(settings))} has no meaning: {reason}.",
        hint="Leave it out, or give the checkpoint's URL in an object store.",
    )


def pop_option(options: dict[str, str], name: str) -> str | None:
    """Take an option out, whatever the case of its key; None if it is not there."""
    for key in list(options):
        if key.lower() == name.lower():
            return options.pop(key)
    return None

"""The sink of a query that does not run, with the secrets that its checkpoint does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_continuous.connections.document import said_by_connection
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.sinks.reopen import reopen_sink


def sink_to_rewind(checkpoint: Checkpoint, document: Mapping[str, Any]) -> Any:
    """Return the sink that the checkpoint's query had at its last start, None if the checkpoint
    does not tell it or it cannot take rows back.

    :param document: a specification of the query; the connection of its sink is used.
    :raises ConfigError: the connection cannot be used.
    """
    parts = read_fingerprint(checkpoint.storage)
    return None if parts is None else reopened(parts["sink"], document)


def reopened(recorded: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """Return a sink that a checkpoint has recorded, reached by the specification's connection."""
    named, said = document.get("sink"), dict[str, str]()
    if isinstance(named, Mapping) and named.get("format") == recorded["format"]:
        said = said_by_connection(named, "sink")
    return reopen_sink(recorded["format"], {**said, **recorded["options"]})

"""A sink that is given apart from its query, to somebody who has the query's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.folder import CheckpointFolder
from engine.errors import ConfigError
from engine.pipeline.described import describe_connector
from engine.pipeline.identity import identity, is_told_as


def given_sink(
    checkpoint: CheckpointFolder, name: str, options: Mapping[str, Any]
) -> dict[str, str]:
    """The options that are given, and what the checkpoint tells besides: so it is enough to give
    what opens the sink, which no checkpoint tells.

    :param name: the sink's format.
    :raises ConfigError: the query writes to another sink.
    :raises CheckpointCorruptError: what the checkpoint tells is unreadable.
    """
    given = {key: _text(value) for key, value in options.items()}
    parts = read_fingerprint(checkpoint.storage)
    if parts is None:
        return given
    recorded, told, said = parts["sink"]["format"], parts["sink"]["options"], identity(given)
    differ = {key for key, value in told.items() if not is_told_as(value, said.get(key, value))}
    if recorded != name.lower() or differ:
        there, here = ({key: all_[key] for key in differ} for all_ in (told, said))
        raise ConfigError(
            f"The query of {checkpoint.url} writes to {describe_connector(recorded, there)}, not "
            f"to {describe_connector(name, here)}.",
            hint="Leave out what the checkpoint tells, or give the checkpoint of the query that "
            "writes there.",
        )
    known = {key.lower() for key in given}
    return {**{key: value for key, value in told.items() if key not in known}, **given}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""The sink that ``--spec`` names, with the secrets that no checkpoint tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.errors import ConfigError


def named_sink(spec_file: str, otherwise: str) -> tuple[str, Mapping[str, str]]:
    """The format and the options of a specification's sink.

    :param otherwise: what to do if it names none: the end of the error.
    :raises ConfigError: it does not, or the specification cannot be used.
    """
    from engine.query.spec import load_spec

    sink = load_spec(Path(spec_file)).sink
    if sink is None:
        raise ConfigError(
            f"{spec_file} names no sink: it leaves that to the function of its query.",
            hint=otherwise,
        )
    return sink.format, sink.options

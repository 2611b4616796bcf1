"""A source or a sink in one line, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.redaction.texts import SECRET_NAME, redact

REDACTED: Final = "*********(redacted)"
"""What Spark prints in place of a secret."""


def _redacted(options: Mapping[str, str]) -> dict[str, str]:
    """The options with the values of those that look like secrets replaced."""
    return {
        key: REDACTED if SECRET_NAME.search(key) or SECRET_NAME.search(value) else redact(value)
        for key, value in options.items()
    }


def describe_connector(name: str, options: Mapping[str, str]) -> str:
    """A source or a sink in one line, without secrets: ``rate[rowsPerSecond=10]``."""
    shown = ", ".join(f"{key}={value}" for key, value in sorted(_redacted(options).items()))
    return f"{name}[{shown}]"

"""Settings of a client among the flat options of a query: ``checkpointStorage.key``."""

from __future__ import annotations

from typing import Any

from engine.errors import ConfigError


def pop_settings(options: dict[str, str], prefix: str) -> dict[str, Any]:
    """Take out the options that begin with a prefix, whatever its case, and return them without it.

    A dot leads into a mapping, as in ``checkpointStorage.client_kwargs.endpoint_url``; ``true`` and
    ``false`` are truth values.

    :raises ConfigError: one of them says what is in another.
    """
    settings: dict[str, Any] = {}
    for key in [key for key in options if key.lower().startswith(prefix.lower())]:
        *folders, name = key[len(prefix) :].split(".")
        inner, value = settings, options.pop(key)
        for folder in folders:
            inner = inner.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"Option {key} says what is in {folder}, which another one sets.")
        inner[name] = {"true": True, "false": False}.get(value.lower(), value)
    return settings

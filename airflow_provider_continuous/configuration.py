"""The section ``[continuous]`` of Airflow's configuration; its options and their defaults are
declared in :mod:`airflow_provider_continuous.get_provider_info`."""

from __future__ import annotations

import re

from airflow_provider_continuous.compat import conf, load_provider_defaults
from engine.errors import ConfigError
from engine.logs.json_lines import FORMATS, TEXT

SECTION = "continuous"


def checkpoint_roots() -> list[str]:
    """The folders whose checkpoints are shown; the connections' roots are not among them."""
    text = _option("checkpoint_roots")
    return [root for root in re.split(r"[\s,]+", text) if root]


def log_dir() -> str | None:
    """Where the queries' output goes, unless the connection says it."""
    return _option("log_dir") or None


def python() -> str | None:
    """The interpreter of queries on the workers' machines, unless the connection says it."""
    return _option("python") or None


def log_format() -> str:
    """How the queries log whose specification does not say it.

    :raises ConfigError: in no way that there is.
    """
    asked = _option("log_format") or TEXT
    if asked not in FORMATS:
        raise ConfigError(
            f"[{SECTION}] log_format is {asked!r}: it is none of {', '.join(FORMATS)}."
        )
    return asked


def end_with_worker() -> bool:
    """Whether drivers may be started where they end with Airflow's worker."""
    load_provider_defaults()
    return conf.getboolean(SECTION, "end_with_worker", fallback=False)


def page_refresh_s() -> int:
    """Seconds after which the pages that show the queries look again; 0: never.

    :raises ConfigError: no whole number, or less than 0.
    """
    said = _option("page_refresh")
    if not said.isdecimal():
        raise ConfigError(
            f"[{SECTION}] page_refresh is {said!r}: it is no whole number of seconds.",
            hint="0 keeps the pages as they are.",
        )
    return int(said)


def _option(name: str) -> str:
    load_provider_defaults()
    return conf.get(SECTION, name) or ""

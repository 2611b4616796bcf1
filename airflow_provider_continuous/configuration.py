"""The section ``[continuous]`` of Airflow's configuration; its options and their defaults are
declared in :mod:`airflow_provider_continuous.get_provider_info`."""

from __future__ import annotations

import re

from airflow_provider_continuous.compat import conf

SECTION = "continuous"


def checkpoint_roots() -> list[str]:
    """The folders whose checkpoints are shown; the connections' roots are not among them."""
    text = conf.get(SECTION, "checkpoint_roots") or ""
    return [root for root in re.split(r"[\s,]+", text) if root]


def log_dir() -> str | None:
    """Where the queries' output goes, unless the connection says it."""
    return conf.get(SECTION, "log_dir") or None


def page_refresh_s() -> int:
    """Seconds after which the pages that show the queries look again; 0: never."""
    return int(conf.getint(SECTION, "page_refresh"))

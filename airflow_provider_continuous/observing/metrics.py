"""How queries go, as gauges of Airflow's metrics (StatsD, DataDog or OpenTelemetry).

==================================== ===================================================
``continuous.<query>.epoch``         the last committed epoch
``continuous.<query>.lag_seconds``   since the last commit
``continuous.<query>.watermark_lag`` seconds from the watermark to now, of queries that have one
``continuous.<query>.rows``          read in that epoch
``continuous.<query>.rows_rate``     the same per second
``continuous.<query>.latency_p99``   milliseconds from read to written, in that epoch
``continuous.<query>.restarts``      of this run, in place
``continuous.<query>.active``        1 while a run holds the checkpoint, else 0
==================================== ===================================================

``continuous.looks_hanging`` is how many looks at checkpoints, of the process that tells, have been
under way for longer than ten seconds: storage that hangs.

``<query>`` is the query's name, with an underscore for what metrics cannot have in their names, see
:func:`name_of`. It is a tag as well.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from airflow_provider_continuous.compat import RELEASE
from airflow_provider_continuous.view.overview import QueryOverview

if TYPE_CHECKING or RELEASE >= (3, 3):
    from airflow.sdk.observability import stats
elif RELEASE >= (3, 2):
    from airflow.sdk.observability.stats import Stats as stats
else:
    from airflow.stats import Stats as stats

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")
_NAME_MAX = 100
"""Airflow sends nothing whose name has more than 250 characters. For InfluxDB the tags are among
them, so that the query is in it twice."""


def name_of(query: str) -> str:
    """What a query is called in the names of its gauges: its own name as far as metrics can have
    it. One that is longer, or has letters that they cannot have, ends with a digest: else others
    might have the same."""
    name = _NOT_IN_NAMES.sub("_", query)
    if query.isascii() and len(name) <= _NAME_MAX:
        return name
    digest = sha256(query.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name[: _NAME_MAX - len(digest) - 1]}_{digest}"


def emit_hanging(looks: int) -> None:
    """Set the gauge of the looks of this process that do not come back."""
    stats.gauge("continuous.looks_hanging", looks)


def emit(overview: QueryOverview) -> None:
    """Set the gauges of one query; what is not known is left out."""
    status = overview.status
    values: dict[str, float | None] = {
        "epoch": status.epoch,
        "lag_seconds": overview.lag_s,
        "watermark_lag": overview.watermark_lag_s,
        "rows": overview.summary.rows,
        "rows_rate": overview.rows_per_second,
        "latency_p99": overview.latency_ms.get("p99"),
        "restarts": status.restarts,
        "active": int(status.state.is_active),
    }
    query = name_of(overview.name)
    for name, value in values.items():
        if value is not None:
            stats.gauge(f"continuous.{query}.{name}", value, tags={"query": query})

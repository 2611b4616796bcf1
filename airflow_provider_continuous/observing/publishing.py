"""Whoever polls a query's checkpoint also tells others how it goes: metrics and OpenLineage."""

from __future__ import annotations

import logging
import threading
import time
from functools import cache
from importlib.util import find_spec
from typing import Any

from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.observing import metrics
from airflow_provider_continuous.openlineage.datasets import recorded
from airflow_provider_continuous.view.overview import QueryOverview, look_at
from engine.checkpoint.checkpoint import Checkpoint
from engine.redaction.logs import redact

logger = logging.getLogger(__name__)

EVERY_S = 10.0
"""A query is told of once in so many seconds, however many tasks of a process watch it."""

_METRICS = ("statsd_on", "statsd_datadog_enabled", "otel_on")
_last_s: dict[str, float] = {}
_lock = threading.Lock()


def publish(checkpoint: Checkpoint, location: str) -> None:
    """Tell of a query that is being polled, if it is time and anybody listens.

    Never raises: whoever waits for the query does not depend on this.
    """
    if not somebody_listens():
        return
    with _lock:
        now_s = time.monotonic()
        if now_s - _last_s.get(location, -EVERY_S) < EVERY_S:
            return
        _last_s[location] = now_s
    try:
        publish_now(checkpoint, location)
    except Exception as error:  # of a metrics client or a lineage backend, as well as our own
        logger.warning("Nothing is published about %s: %s", redact(location), redact(str(error)))


def publish_now(checkpoint: Checkpoint, location: str) -> QueryOverview:
    """Tell of a query, to whoever listens; what was told.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    overview = look_at(checkpoint, location)
    if _metrics_are_on():
        metrics.emit(overview)
    if (events := _lineage_events()) is not None:
        events.emit(overview, recorded(checkpoint))
    return overview


def somebody_listens() -> bool:
    """Whether Airflow's metrics are on, or OpenLineage is."""
    return _metrics_are_on() or _lineage_events() is not None


def _metrics_are_on() -> bool:
    return any(conf.getboolean("metrics", name, fallback=False) for name in _METRICS)


@cache
def _installed_lineage_events() -> Any:
    """The module that makes events, None without the OpenLineage provider."""
    try:
        found = find_spec("airflow.providers.openlineage")
    except ModuleNotFoundError:
        found = None
    if found is None:
        return None
    from airflow_provider_continuous.openlineage import events

    return events


def _lineage_events() -> Any:
    events = _installed_lineage_events()
    return events if events is not None and events.is_on() else None

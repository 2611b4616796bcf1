"""Whoever polls a query's checkpoint also tells others how it goes: metrics and OpenLineage."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from importlib.util import find_spec
from typing import Any

from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.observing import metrics
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
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


def publish_soon(opened: Callable[[], Checkpoint], location: str) -> Future[None] | None:
    """As :func:`publish`, by a thread of the pool; None: it is not time yet.

    Whoever has asked need not wait: a lineage backend may take its time.

    :param opened: returns the checkpoint.
    """
    with _lock:
        if time.monotonic() - _last_s.get(location, -EVERY_S) < EVERY_S:
            return None
    return POOL.submit(
        place_of(location), lambda: _publish(opened, location), ("publish", location)
    )


def _publish(opened: Callable[[], Checkpoint], location: str) -> None:
    try:
        publish(opened(), location)
    except Exception as error:  # the connection of the storage
        logger.warning("Nothing is published about %s: %s", redact(location), redact(str(error)))


def publish(checkpoint: Checkpoint, location: str) -> None:
    """Tell of a query that is being polled, if it is time and anybody listens.

    Never raises: whoever waits for the query does not depend on this.
    """
    with _lock:
        now_s = time.monotonic()
        if now_s - _last_s.get(location, -EVERY_S) < EVERY_S:
            return
        _last_s[location] = now_s
    if not somebody_listens():
        return
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
        metrics.emit_hanging(sum(POOL.hanging().values()))
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

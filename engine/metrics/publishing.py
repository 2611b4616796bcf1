"""Which queries have metrics that somebody gets: those whose options ask for it."""

from __future__ import annotations

from engine.base.options import EngineOptions
from engine.checkpoint.query_state import QueryState
from engine.metrics import open_telemetry, prometheus
from engine.metrics.meter import STANDBY, QueryMeter

LOOPBACK = "127.0.0.1"


def metered(options: EngineOptions, name: str, *, stands_by: bool) -> QueryMeter | None:
    """The meter of a query that is to start, served and sent as its options say; None if they say
    nothing.

    :param name: of the query.
    :param stands_by: it starts when another process runs it no more.
    :raises ConfigError: a package is missing, or the port is in use; nothing is served.
    """
    ports = options.metrics_ports
    if ports is None and not options.open_telemetry:
        return None
    meter = QueryMeter(name, STANDBY if stands_by else QueryState.STARTING.value)
    try:
        if ports is not None:
            prometheus.serve(meter, options.metrics_host or LOOPBACK, ports)
        if options.open_telemetry:
            open_telemetry.send(meter)
    except BaseException:
        meter.close()
        raise
    return meter

"""The endpoint that Prometheus scrapes: ``http://127.0.0.1:<port>/metrics``, by its own client.

A process has one endpoint for all of its queries that name the same address. It answers on threads
of its own, and reads what the queries have added up by then: no epoch waits for a scrape.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from engine.base.options import PortRange
from engine.errors import ConfigError
from engine.metrics.meter import QueryMeter
from engine.metrics.table import BOUNDS_S, BOUNDS_US, METRICS, Kind, Metric
from engine.progress.histogram import LatencyHistogram
from engine.wire.listening import host_and_port

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

logger = logging.getLogger(__name__)
_served: dict[tuple[str, PortRange], _Endpoint] = {}
_lock = threading.Lock()


def serve(meter: QueryMeter, host: str, ports: PortRange) -> tuple[str, int]:
    """Let the metrics of a query be scraped until it closes its meter; the address.

    :param ports: the first free one is taken; 0: any.
    :raises ConfigError: the client is not installed, no port is free, or a query of this name is
        served there.
    """
    with _lock:
        place = host, ports
        endpoint = _served.get(place)
        if endpoint is None:
            endpoint = _served[place] = _Endpoint(host, ports)
        elif any(each.name == meter.name for each in endpoint.meters):
            raise ConfigError(
                f"Two queries of this process would have the same metrics: both are {meter.name}.",
                hint="Give them names by queryName.",
            )
        endpoint.meters.append(meter)
    meter.on_close(lambda: _leave(place, meter))
    logger.info("metrics of %s: http://%s/metrics", meter.name, host_and_port(*endpoint.address))
    return endpoint.address


def _leave(place: tuple[str, PortRange], meter: QueryMeter) -> None:
    with _lock:
        endpoint = _served[place]
        endpoint.meters.remove(meter)
        if not endpoint.meters:
            del _served[place]
            endpoint.close()


def _import_client() -> Any:
    try:
        import prometheus_client
    except ImportError as exc:
        raise ConfigError(
            f"Option metricsPort needs the package prometheus-client, which is not installed: "
            f"{exc}.",
            hint="pip install 'airflow-provider-continuous[prometheus]'",
        ) from exc
    return prometheus_client


class _Endpoint:
    """See the module."""

    def __init__(self, host: str, ports: PortRange) -> None:
        client = _import_client()
        self.meters: list[QueryMeter] = []
        registry = client.CollectorRegistry()
        client.ProcessCollector(registry=registry)
        client.PlatformCollector(registry=registry)
        registry.register(self)
        for port in range(ports.first, ports.last + 1):
            try:
                self._server, self._thread = client.start_http_server(port, host, registry)
            except OSError as exc:
                if exc.errno == errno.EADDRINUSE and port < ports.last:
                    continue
                raise ConfigError(
                    f"Metrics cannot be served at {host_and_port(host, port)}: {exc.strerror}.",
                    hint="Set option metricsPort to another port, to a range of which the first "
                    'free one is taken ("9464-9499"), or to "0" for any; metricsHost to an address '
                    "of this machine.",
                ) from exc
            break
        self.address: tuple[str, int] = host, self._server.server_port

    def describe(self) -> Iterable[Family]:
        """Nothing is to be collected when this is registered."""
        return []

    def collect(self) -> Iterator[Family]:
        """Called by the client for each scrape."""
        seen = [(meter, meter.look()) for meter in list(self.meters)]
        for metric in METRICS:
            family = _family(metric)
            for meter, look in seen:
                for labels, value in metric.read(meter, look):
                    _add(family, [meter.name, *labels], value)
            yield family

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _family(metric: Metric) -> Any:
    from prometheus_client import core

    kinds: dict[Kind, Any] = {
        Kind.GAUGE: core.GaugeMetricFamily,
        Kind.COUNTER: core.CounterMetricFamily,
        Kind.HISTOGRAM: core.HistogramMetricFamily,
    }
    return kinds[metric.kind](metric.name, metric.text, labels=["query", *metric.labels])


def _add(family: Any, labels: list[str], value: float | LatencyHistogram) -> None:
    if isinstance(value, LatencyHistogram):
        counts = value.at_most(BOUNDS_US)
        buckets = [(str(bound), count) for bound, count in zip(BOUNDS_S, counts, strict=True)]
        family.add_metric(labels, [*buckets, ("+Inf", value.total)], value.sum_us / 1_000_000)
    else:
        family.add_metric(labels, value)

"""The same metrics by OpenTelemetry's own SDK, sent by OTLP over HTTP.

Where to, how often and as whose is told by the SDK's environment variables:
``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_METRIC_EXPORT_INTERVAL`` (60 s without it),
``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES`` and others. Names lose the unit and ``_total``,
as is the custom there; what translates them to Prometheus makes the same names of them.

The SDK has no histogram that is read when it is sent, as ours are, so these are added to what it
sends: always cumulative.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from engine.errors import ConfigError
from engine.metrics.meter import QueryMeter
from engine.metrics.outage import Outage
from engine.metrics.table import BOUNDS_S, BOUNDS_US, METRICS, Kind, Metric
from engine.progress.histogram import LatencyHistogram

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricsData

logger = logging.getLogger(__name__)
LAST_S: Final = 2.0
"""So long the end of a query waits for its last values to be sent."""
SCOPE: Final = "continuous"
_PROTOCOL: Final = "http/protobuf"
_UNITS: Final = {"seconds": "s", "bytes": "By"}


def send(meter: QueryMeter) -> None:
    """Let the metrics of a query be sent until it closes its meter.

    :raises ConfigError: the SDK is not installed, refuses its settings, or is told another
        protocol.
    """
    meter.on_close(_Sender(meter).close)


def instrument_name(metric: Metric) -> str:
    """``continuous.rows_read`` of ``continuous_rows_read_total``."""
    name = metric.name.removesuffix("_total")
    if metric.unit in _UNITS:
        name = name.removesuffix(f"_{metric.unit}")
    return name.replace("continuous_", "continuous.", 1)


def _unit(metric: Metric) -> str:
    """A count of things has their name in braces; a number of nothing has none, for ``1`` would be
    that of a ratio."""
    return _UNITS.get(metric.unit) or (f"{{{metric.unit}}}" if metric.unit else "")


class _Sender:
    """One for each query: of a counter that begins anew, while others of the process go on, the SDK
    would tell a decrease."""

    def __init__(self, meter: QueryMeter) -> None:
        self._meter = meter
        self._since_ns = time.time_ns()
        self._provider = _provider(meter.name, self._histograms)
        instruments = self._provider.get_meter(SCOPE)
        for metric in METRICS:
            if metric.kind is not Kind.HISTOGRAM:
                make = (
                    instruments.create_observable_counter
                    if metric.kind is Kind.COUNTER
                    else instruments.create_observable_gauge
                )
                make(
                    instrument_name(metric),
                    [self._observer(metric)],
                    _unit(metric),
                    metric.text,
                )

    def close(self) -> None:
        """Send the last values; a collector that is away is not waited for."""
        last = threading.Thread(target=self._provider.shutdown, name="last-metrics", daemon=True)
        last.start()
        last.join(LAST_S)
        if last.is_alive():
            logger.warning("the last metrics of %s are not sent yet", self._meter.name)

    def _read(self, metric: Metric) -> Iterator[tuple[dict[str, str], float | LatencyHistogram]]:
        for values, value in metric.read(self._meter, self._meter.look()):
            labels = zip(("query", *metric.labels), (self._meter.name, *values), strict=True)
            yield dict(labels), value

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], list[Observation]]:
        from opentelemetry.metrics import Observation

        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(value, labels)
                for labels, value in self._read(metric)
                if not isinstance(value, LatencyHistogram) and math.isfinite(value)
            ]

        return observe

    def _histograms(self) -> list[Any]:
        from opentelemetry.sdk.metrics import export

        made, now_ns = [], time.time_ns()
        for metric in METRICS:
            points = [
                export.HistogramDataPoint(
                    attributes=labels,
                    start_time_unix_nano=self._since_ns,
                    time_unix_nano=now_ns,
                    count=value.total,
                    sum=value.sum_us / 1_000_000,
                    bucket_counts=_apart([*value.at_most(BOUNDS_US), value.total]),
                    explicit_bounds=BOUNDS_S,
                    min=(value.percentile_ms(0) or 0) / 1000,
                    max=value.max_us / 1_000_000,
                )
                for labels, value in (self._read(metric) if metric.kind is Kind.HISTOGRAM else ())
                if isinstance(value, LatencyHistogram)
            ]
            if points:
                data = export.Histogram(points, export.AggregationTemporality.CUMULATIVE)
                name, unit = instrument_name(metric), _unit(metric)
                made.append(export.Metric(name, metric.text, unit, data))
        return made


def _apart(cumulative: list[int]) -> list[int]:
    """How many are in each bucket."""
    return [here - below for here, below in zip(cumulative, [0, *cumulative], strict=False)]


def _provider(query: str, histograms: Callable[[], list[Any]]) -> Any:
    """:param query: its name.
    :param histograms: makes those of now."""
    try:
        from opentelemetry.exporter.otlp.proto.http import metric_exporter
        from opentelemetry.sdk import metrics
        from opentelemetry.sdk.metrics import export
    except ImportError as exc:
        raise ConfigError(
            "Option openTelemetry needs the packages opentelemetry-sdk and "
            f"opentelemetry-exporter-otlp-proto-http, which are not installed: {exc}.",
            hint="pip install 'airflow-provider-continuous[opentelemetry]'",
        ) from exc
    for variable in ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(variable, _PROTOCOL) != _PROTOCOL:
            raise ConfigError(
                f"Option openTelemetry sends by {_PROTOCOL}, and {variable} is "
                f"{os.environ[variable]!r}.",
                hint="Set it to http/protobuf, and the endpoint to where the collector takes that: "
                "http://collector:4318.",
            )

    outage = Outage(query, logging.getLogger(metric_exporter.__name__))

    class Exporter(metric_exporter.OTLPMetricExporter):
        """Sends the histograms as well."""

        def export(
            self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: Any
        ) -> Any:
            data = _with(metrics_data, histograms())
            with outage.listening() as said:
                try:
                    result = super().export(data, timeout_millis, **kwargs)
                except Exception as exc:  # of earlier releases
                    said.append(f"{type(exc).__name__}: {exc}")
                    result = export.MetricExportResult.FAILURE
            if result is export.MetricExportResult.SUCCESS:
                outage.sent()
            else:
                outage.failed(said[0] if said else "no reason is told")
            return result

    # At the end of the process nobody is left to tell of, and a collector that is away would delay
    # it.
    try:
        return metrics.MeterProvider(
            [export.PeriodicExportingMetricReader(Exporter())], shutdown_on_exit=False
        )
    except ValueError as exc:  # of OTEL_METRIC_EXPORT_INTERVAL=0 for example
        raise ConfigError(
            f"Option openTelemetry: OpenTelemetry's SDK refuses: {' '.join(str(exc).split())}",
            hint="Its settings are environment variables of the driver that begin with OTEL_.",
        ) from exc


def _with(data: MetricsData, more: list[Any]) -> MetricsData:
    """The metrics of our own scope, and more of them; others are the SDK's, of itself."""

    def added(scope: Any) -> Any:
        if scope.scope.name != SCOPE:
            return scope
        return replace(scope, metrics=[*scope.metrics, *more])

    return replace(
        data,
        resource_metrics=[
            replace(each, scope_metrics=[added(scope) for scope in each.scope_metrics])
            for each in data.resource_metrics
        ],
    )

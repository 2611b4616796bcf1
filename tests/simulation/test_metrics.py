"""The metrics of a query on threads, as Prometheus scrapes them and as OpenTelemetry sends them."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from engine.base.options import ANY_PORT, EngineOptions, PortRange
from engine.errors import ConfigError, SinkUnavailableError
from engine.execution.epoch_report import count_epoch
from engine.metrics import open_telemetry, prometheus
from engine.metrics.meter import Look, QueryMeter
from engine.metrics.publishing import LOOPBACK, metered
from engine.metrics.table import METRICS, Kind, Metric
from engine.metrics.values import PARTITIONS_MAX, STATES
from engine.progress.counters import EpochCounters
from engine.progress.histogram import LatencyHistogram
from engine.progress.report import EpochTimes, QueryIdentity, Restarts, epoch_progress
from tests.model import ModelReader
from tests.scraping import Scrape
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until


@pytest.fixture
def meter() -> Iterator[QueryMeter]:
    made = QueryMeter("model", "STARTING")
    yield made
    made.close()


def port_of(meter: QueryMeter, **options: Any) -> tuple[str, int]:
    return prometheus.serve(meter, LOOPBACK, ANY_PORT)


def test_what_a_query_does_is_scraped(story: Story, meter: QueryMeter) -> None:
    address = port_of(meter)
    before = Scrape(address)
    assert before.value("continuous_query_state", "model", state="STARTING") == 1
    assert before.value("continuous_committed_epoch", "model") is None

    query = story.start(meter=meter)
    story.feed.add(5)
    query.processAllAvailable()
    seen = Scrape(address)

    assert seen.value("continuous_rows_read_total", "model", stream=0) == 10
    for task in (0, 1):
        rows = seen.value("continuous_task_rows_read_total", "model", stream=0, task=task)
        assert rows == 5
    assert seen.value("continuous_rows_written_total", "model") == 10
    assert seen.value("continuous_query_state", "model", state="RUNNING") == 1
    assert seen.value("continuous_stream_info", "model", stream=0, source="model") == 1
    assert seen.value("continuous_partitions", "model") == 2
    epochs = seen.value("continuous_epochs_committed_total", "model")
    assert epochs is not None
    assert epochs >= 1
    assert seen.value("continuous_epoch_commit_seconds_count", "model") == epochs
    assert seen.value("continuous_record_latency_seconds_count", "model") == 10
    latency = seen.value("continuous_record_latency_seconds_bucket", "model", le="+Inf")
    assert latency == 10
    for step in ("prepare", "walCommit", "commitSink", "commitOffsets"):
        assert seen.value("continuous_commit_step_seconds_total", "model", step=step) is not None
    spent = {
        activity: seen.value(
            "continuous_task_seconds_total", "model", stage="source 0", activity=activity
        )
        for activity in ("reading", "transforming", "writing")
    }
    assert all(value is not None and value > 0 for value in spent.values()), spent
    assert query.drain(WAIT_S)


def test_a_commit_is_counted_before_those_who_wait_hear_of_it(
    story: Story, meter: QueryMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> None:
        begun.set()
        assert goes_on.wait(WAIT_S)
        count_epoch(*given)

    monkeypatch.setattr("engine.execution.execution.count_epoch", slow)
    query = story.start(meter=meter)
    assert begun.wait(WAIT_S)
    assert not query.awaitEpoch(0, 0.2)
    goes_on.set()
    assert query.awaitEpoch(0, WAIT_S)
    assert query.drain(WAIT_S)


def test_every_metric_has_the_type_and_the_text_of_the_table(meter: QueryMeter) -> None:
    seen = Scrape(port_of(meter))
    for metric in METRICS:
        assert seen.kinds[metric.name.removesuffix("_total")] == metric.kind.value
        assert f"# HELP {metric.name} {metric.text}" in seen.text


def test_states_are_all_there_and_one_holds(meter: QueryMeter) -> None:
    seen = Scrape(port_of(meter))
    told = {s: seen.value("continuous_query_state", "model", state=s) for s in STATES}
    assert {state for state, value in told.items() if value == 1} == {"STARTING"}
    assert {state for state, value in told.items() if value == 0} == set(STATES) - {"STARTING"}


def test_a_failure_is_told_until_a_commit(story: Story, meter: QueryMeter) -> None:
    address = port_of(meter)
    failing, mended = threading.Event(), threading.Event()
    commit = story.sink.commit

    def fail(messages: list[Any], epoch: int) -> None:
        if not mended.is_set():
            failing.set()
            raise SinkUnavailableError("away")
        commit(messages, epoch)

    story.sink.commit = fail  # type: ignore[method-assign]
    query = story.start(meter=meter, retry_sink_for_ms=60_000)
    assert failing.wait(WAIT_S)
    wait_until(
        lambda: Scrape(address).value("continuous_failing_since_timestamp_seconds", "model"),
        "the failure",
    )
    mended.set()
    assert query.awaitEpoch(0, WAIT_S)
    seen = Scrape(address)
    assert seen.value("continuous_failing_since_timestamp_seconds", "model") is None
    restarts = seen.value("continuous_restarts_total", "model")
    assert restarts is not None
    assert restarts >= 1
    query.drain(WAIT_S)


def test_a_source_that_cannot_tell_its_end_takes_no_other_metric_away(
    story: Story, meter: QueryMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(reader: ModelReader) -> Any:
        if "request" in threading.current_thread().name:  # of the endpoint
            raise ValueError("the connection is closed")
        return reader.latestOffset({})

    monkeypatch.setattr(ModelReader, "knownEnd", end)
    query = story.start(meter=meter)
    query.awaitEpoch(0, WAIT_S)
    seen = Scrape(port_of(meter))
    assert seen.value("continuous_query_state", "model", state="RUNNING") == 1
    assert "continuous_source_lag_offsets" not in seen.names
    assert query.drain(WAIT_S)


def test_the_endpoint_goes_with_its_last_query(story: Story, meter: QueryMeter) -> None:
    address = port_of(meter)
    other = QueryMeter("other", "STARTING")
    assert port_of(other) == address  # one for all of a process
    query = story.start(meter=meter)
    query.awaitEpoch(0, WAIT_S)
    assert query.drain(WAIT_S)
    seen = Scrape(address)
    assert seen.value("continuous_query_state", "model", state="RUNNING") is None
    assert seen.value("continuous_query_state", "other", state="STARTING") == 1
    other.close()
    with pytest.raises(OSError, match=r"refused|reset"):
        Scrape(address)


def test_two_queries_of_one_name_are_refused(meter: QueryMeter) -> None:
    port_of(meter)
    with pytest.raises(ConfigError, match="both are model"):
        port_of(QueryMeter("model", "STARTING"))


def test_a_port_in_use_is_told_at_start() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        options = EngineOptions(metrics_port=str(port))
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: Address already in use") as error:
            metered(options, "model", stands_by=False)
        assert "metricsPort" in str(error.value.hint)
        assert not prometheus._served
        wide = PortRange(port, min(port + 50, 65_535))
        meter = QueryMeter("model", "STARTING")
        assert prometheus.serve(meter, LOOPBACK, wide)[1] > port
        meter.close()


def test_an_address_of_another_machine_is_told() -> None:
    options = EngineOptions(metrics_port="0", metrics_host="192.0.2.1")
    with pytest.raises(ConfigError, match=r"Metrics cannot be served at 192\.0\.2\.1"):
        metered(options, "model", stands_by=False)


@pytest.mark.parametrize(
    ("options", "missing", "extra"),
    [
        (EngineOptions(metrics_port="0"), "prometheus_client", "prometheus"),
        (
            EngineOptions(open_telemetry=True),
            "opentelemetry.exporter.otlp.proto.http",
            "opentelemetry",
        ),
    ],
)
def test_a_missing_package_is_named(
    options: EngineOptions, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError) as error:
        metered(options, "model", stands_by=False)
    assert f"[{extra}]" in str(error.value.hint)


def test_a_standby_says_so() -> None:
    meter = metered(EngineOptions(metrics_port="0"), "orders", stands_by=True)
    assert meter is not None
    endpoint = next(iter(prometheus._served.values()))
    seen = Scrape(endpoint.address)
    meter.close()
    assert seen.value("continuous_query_state", "orders", state="STANDBY") == 1
    assert seen.value("continuous_open_epoch", "orders") is None


def test_series_are_bounded_and_names_have_no_secrets() -> None:
    many = {"orders": {str(n): n for n in range(10_000)}}
    meter = QueryMeter("password=secret1", "RUNNING")
    sink = "http[http://me:secret2@host]"
    meter.look = lambda: Look("RUNNING", "q", "r", lags=[many, None], sources=["a", "b"], sink=sink)
    counters = [EpochCounters(rows_read=1) for _ in range(10_000)]
    report = epoch_progress(
        QueryIdentity("q", "r", None, "sink"), 3, [], EpochTimes(0, 1, 2), {}, Restarts()
    )
    meter.committed(report, EpochTimes(0, 1, 2), [counters], counters)
    seen = Scrape(port_of(meter))
    meter.close()
    assert "secret" not in seen.text
    assert len(seen.samples) < 2 * PARTITIONS_MAX + 150
    name = meter.name
    partition = {"stream": 0, "partition": "orders/99"}
    assert seen.value("continuous_partition_lag_offsets", name, **partition) == 99
    assert seen.value("continuous_source_lag_offsets", name, stream=0) == 10_000 * 9_999 / 2
    assert seen.value("continuous_source_lag_offsets_max", name, stream=0) == 9_999
    assert seen.value("continuous_rows_read_total", name, stream=0) == 10_000


def test_no_label_has_a_secret_and_no_series_is_there_twice(meter: QueryMeter) -> None:
    feeds = {"https://me:secret1@host/a": 1, "token=secret2": 2, "token=secret3": 4}
    meter.look = lambda: Look("RUNNING", lags=[feeds])
    report = epoch_progress(
        QueryIdentity("q", "r", None, "sink"), 3, [], EpochTimes(0, 1, 2), {}, Restarts()
    )
    rows = {"password=secret4": 1, "password=secret5": 2}
    report = {**report, "observedMetrics": {"token=secret6": rows}}
    meter.committed(report, EpochTimes(0, 1, 2), [], [])
    seen = Scrape(port_of(meter))
    assert "secret" not in seen.text
    lag = {"stream": 0, "partition": "token=***"}
    assert seen.value("continuous_partition_lag_offsets", "model", **lag) == 6
    lag["partition"] = "https://me:***@host/a"
    assert seen.value("continuous_partition_lag_offsets", "model", **lag) == 1


def test_a_report_that_cannot_be_added_fails_no_commit(
    meter: QueryMeter, caplog: pytest.LogCaptureFixture
) -> None:
    meter.committed({"batchId": 7}, EpochTimes(0, 1, 2), [], [])
    assert "epoch 7 is not in the metrics" in caplog.text


class Collector:
    """Takes OTLP over HTTP, on loopback.

    :ivar metrics: the last ones by their names; ``told`` has those of each time.
    """

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}
        self.told: list[dict[str, Any]] = []
        self.services: set[str] = set()
        self.answer = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(ExportMetricsServiceRequest.FromString(body))
                self.send_response(outer.answer)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return None

        self.server = HTTPServer((LOOPBACK, 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def take(self, request: Any) -> None:
        for resource in request.resource_metrics:
            self.services |= {
                each.value.string_value
                for each in resource.resource.attributes
                if each.key == "service.name"
            }
            for scope in resource.scope_metrics:
                told = {metric.name: metric for metric in scope.metrics}
                self.metrics |= told
                if scope.scope.name == open_telemetry.SCOPE:
                    self.told.append(told)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    address = f"http://{LOOPBACK}:{made.server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    yield made
    made.close()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_what_a_collector_makes_of_it_for_prometheus_is_the_same_name(metric: Metric) -> None:
    """By the rules of OpenTelemetry's compatibility with Prometheus."""
    unit = open_telemetry._unit(metric)
    name = open_telemetry.instrument_name(metric).replace(".", "_")
    suffix = {"s": "_seconds", "By": "_bytes", "1": "_ratio"}.get(unit, "")
    assert suffix or not unit or unit.startswith("{")
    name += suffix if not name.endswith(suffix) else ""
    name += "_total" if metric.kind is Kind.COUNTER else ""
    assert name == metric.name


def test_open_telemetry_gets_the_same(
    story: Story, meter: QueryMeter, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_telemetry, "LAST_S", WAIT_S)
    address = port_of(meter)
    open_telemetry.send(meter)
    query = story.start(meter=meter)
    story.feed.add(5)
    query.processAllAvailable()
    seen = Scrape(address)
    assert query.drain(WAIT_S)  # the last values come with the end

    (rows,) = collector.metrics["continuous.rows_read"].sum.data_points
    assert rows.as_int == seen.value("continuous_rows_read_total", "model", stream=0) == 10
    assert {each.key: each.value.string_value for each in rows.attributes} == {
        "query": "model",
        "stream": "0",
    }
    assert collector.metrics["continuous.rows_read"].unit == "{rows}"
    latency = collector.metrics["continuous.record_latency"]
    assert latency.unit == "s"
    (point,) = latency.histogram.data_points
    assert point.count == sum(point.bucket_counts) == 10
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert collector.services == {"orders"}
    told = {name for name in collector.metrics if name.startswith("continuous.")}
    known = {open_telemetry.instrument_name(metric) for metric in METRICS}
    assert told <= known
    families = {metric.name for metric in METRICS if seen.names & _series(metric.name)}
    assert {open_telemetry.instrument_name(m) for m in METRICS if m.name in families} <= told


def test_what_is_sent_of_a_query_that_begins_anew_never_falls(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another one of its process goes on."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    monkeypatch.setattr(open_telemetry, "LAST_S", WAIT_S)
    other, told = QueryMeter("other", "RUNNING"), collector.told
    open_telemetry.send(other)
    for run in range(2):
        meter = QueryMeter("model", "RUNNING")
        meter.look = lambda run=run: Look("RUNNING", restarts=5 - run)
        open_telemetry.send(meter)
        want = len(told) + 3
        wait_until(lambda want=want: len(told) >= want, "some exports")
        meter.close()
    other.close()
    sent = [
        point.as_int
        for metrics in told
        for point in metrics["continuous.restarts"].sum.data_points
        if point.attributes[0].value.string_value == "model"
    ]
    assert sum(sent) == 9
    assert min(sent) == 0


def test_what_is_no_number_is_not_sent_and_the_least_latency_is_told(
    meter: QueryMeter, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    latency = LatencyHistogram()
    latency.record(1_000_000)
    latency.record(3_000_000)
    report = epoch_progress(
        QueryIdentity("q", "r", None, "sink"), 3, [], EpochTimes(0, 1, 2), {}, Restarts()
    )
    report = {**report, "observedMetrics": {"checks": {"mean": "NaN", "rows": 2}}}
    meter.committed(report, EpochTimes(0, 1, 2), [], [EpochCounters(read_to_written=latency)])
    open_telemetry.send(meter)
    wait_until(lambda: collector.metrics.get("continuous.record_latency"), "an export", WAIT_S)
    (point,) = collector.metrics["continuous.record_latency"].histogram.data_points
    assert 1 <= point.min < 1.07
    assert point.max == 3
    (observed,) = collector.metrics["continuous.observed"].gauge.data_points
    assert observed.as_int == 2
    assert caplog.messages == []


def _series(name: str) -> set[str]:
    return {name, f"{name}_count"}


def test_a_collector_that_is_away_holds_up_nobody(
    story: Story, meter: QueryMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_telemetry, "LAST_S", 0.0)
    with socket.create_server((LOOPBACK, 0)) as silent:  # it takes connections, and says nothing
        address = f"http://{LOOPBACK}:{silent.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
        open_telemetry.send(meter)
        query = story.start(meter=meter)
        story.feed.add(5)
        story.await_rows(query, 10)
        assert query.drain(WAIT_S)


def test_of_a_collector_that_is_away_one_line_tells(
    meter: QueryMeter, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    """However long that lasts, and one that it is back."""
    collector.answer = 400
    open_telemetry.send(meter)
    wait_until(lambda: len(collector.told) > 4, "exports that fail", WAIT_S)
    collector.answer = 200
    wait_until(lambda: "sent again" in caplog.text, "an export", WAIT_S)

    failed, again = (record.getMessage() for record in caplog.records)

    assert failed.startswith("the metrics of model are not sent, and tried again")
    assert "400" in failed
    assert again == "the metrics of model are sent again"


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"):
        metered(EngineOptions(open_telemetry=True), "model", stands_by=False)


def test_what_the_sdk_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "0")
    with pytest.raises(
        ConfigError, match=r"OpenTelemetry's SDK refuses: interval value 0"
    ) as error:
        metered(EngineOptions(open_telemetry=True), "model", stands_by=False)
    assert "OTEL_" in str(error.value.hint)

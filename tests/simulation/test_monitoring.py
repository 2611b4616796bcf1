"""The dashboard and the alert rules in docs/monitoring/ against what a query really tells."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from engine.base.options import ANY_PORT
from engine.metrics import prometheus
from engine.metrics.meter import Look, QueryMeter
from engine.metrics.publishing import LOOPBACK
from engine.metrics.table import METRICS, Kind
from engine.metrics.values import STATES
from engine.progress.counters import EpochCounters
from engine.progress.histogram import LatencyHistogram
from engine.progress.report import EpochTimes
from tests.scraping import Scrape
from tests.servers.process import free_ports
from tests.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
OF_PROMETHEUS = {"up"}
OF_TARGETS = {"instance", "job", "le"}
WAIT_S = 60
UNAVAILABLE = 503
SERVER, TOOL = shutil.which("prometheus"), shutil.which("promtool")
NOT_THERE = "there is no Prometheus: Debian's package prometheus has it"


def dashboard() -> Any:
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def expressions() -> Iterator[tuple[str, str]]:
    """What each panel and each rule asks, without Grafana's variables."""
    board = dashboard()
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], _filled(target["expr"])
    for each in board["annotations"]["list"]:
        yield each["name"], _filled(each["expr"])
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def _filled(expression: str) -> str:
    return expression.replace("$__rate_interval", "5s").replace("$query", ".*")


def selectors(expression: Any) -> Iterator[Any]:
    """All places where a metric is named."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("lhs", "rhs", "expr", "vector_selector", "args", "param"):
        found = getattr(expression, name, None)
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, promql_parser.Expr):
                yield from selectors(each)


@pytest.fixture
def everything() -> Iterator[tuple[QueryMeter, tuple[str, int]]]:
    """A query that has each metric, and where it is served."""
    meter = QueryMeter("orders", "STARTING")
    meter.look = lambda: Look(
        "RUNNING",
        "q",
        "r",
        3,
        17,
        18,
        1,
        1_000,
        2_000,
        2,
        2,
        [{"0": 5, "1": 7}],
        ["kafka"],
        "delta",
        started_ms=1_000,
        commit_interval_ms=1_000,
    )
    address = prometheus.serve(meter, LOOPBACK, ANY_PORT)
    commit(meter, 1_000)
    yield meter, address
    meter.close()


def commit(meter: QueryMeter, now_ms: int) -> None:
    """One more epoch."""
    latency = LatencyHistogram()
    latency.record(900, 10)
    counters = EpochCounters(rows_read=10, read_to_written=latency)
    state = {"operatorName": "counts", "numRowsTotal": 5}
    state |= {"numRowsDroppedByWatermark": 1, "snapshotBytes": 7}  # type: ignore[dict-item]
    report = {
        "sink": {"numOutputRows": 10},
        "numBadRecords": 1,
        "stateOperators": [state],
        "stages": [{"name": "source 0", "readingMs": 1, "transformingMs": 2, "writingMs": 3}],
        "durationMs": {"commitSink": 3, "triggerExecution": 9},
        "watermarkLagMs": 500,
        "eventTime": {"max": "2026-01-31T23:59:59.123Z"},
        "observedMetrics": {"checks": {"rows": 10, "newest": "2026-01-31", "mean": "NaN"}},
    }
    meter.committed(
        report, EpochTimes(now_ms - 200, now_ms - 100, now_ms), [[counters]], [counters]
    )


def test_each_metric_can_be_there(everything: tuple[QueryMeter, tuple[str, int]]) -> None:
    seen = Scrape(everything[1])
    for metric in METRICS:
        suffix = "_count" if metric.kind is Kind.HISTOGRAM else ""
        assert f"{metric.name}{suffix}" in seen.names
    assert seen.value("continuous_event_time_max_timestamp_seconds", "orders") == 1769903999.123
    assert seen.value("continuous_watermark_timestamp_seconds", "orders") == 0.5
    labels = {"stage": "source 0", "activity": "writing"}
    assert seen.value("continuous_task_seconds_total", "orders", **labels) == 0.003
    observed = seen.value("continuous_observed", "orders", observation="checks", metric="rows")
    assert observed == 10
    mean = seen.value("continuous_observed", "orders", observation="checks", metric="mean")
    assert mean != mean, "a report has NaN as a text"
    assert seen.value("continuous_partition_lag_offsets", "orders", stream=0, partition="1") == 7


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_what_is_asked_for_is_there(
    where: str, expression: str, everything: tuple[QueryMeter, tuple[str, int]]
) -> None:
    seen = Scrape(everything[1])
    labels: dict[str, set[str]] = {}
    for name, pairs in seen.samples:
        labels.setdefault(name, set()).update(label for label, _ in pairs)
    found = list(selectors(promql_parser.parse(expression)))
    assert found
    known = set(OF_TARGETS)
    for each in found:
        if each.name not in OF_PROMETHEUS:
            assert each.name in labels
            known |= labels[each.name]
        for matcher in each.matchers.matchers:
            assert matcher.name in known
            if matcher.name == "state":
                assert set(matcher.value.split("|")) <= set(STATES)
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    assert {label.strip() for text in grouped for label in text.split(",")} <= known


def test_legends_name_labels_that_there_are() -> None:
    labels = {label for metric in METRICS for label in metric.labels} | {"query", "instance"}
    used = re.findall(r"\{\{(\w+)\}\}", (FOLDER / "grafana-dashboard.json").read_text())
    assert set(used) <= labels
    rules = (FOLDER / "alerts.yaml").read_text()
    assert set(re.findall(r"\$labels\.(\w+)", rules)) <= labels


def test_the_page_has_the_table() -> None:
    page = (FOLDER.parent / "metrics.md").read_text()
    _, text = page.split("<!-- the table of engine/metrics/table.py -->")
    rows = [line for line in text.split("<!-- end of the table -->")[0].splitlines() if line][2:]
    assert rows == [
        f"| `{metric.name}` | {metric.kind.value} | {metric.unit} | "
        f"{', '.join(f'`{label}`' for label in metric.labels)} | {metric.text} |"
        for metric in METRICS
    ]


@pytest.mark.skipif(TOOL is None, reason=NOT_THERE)
def test_promtool_finds_nothing(everything: tuple[QueryMeter, tuple[str, int]]) -> None:
    assert TOOL is not None
    checks: list[tuple[list[str], str | None]] = [
        (["check", "config", str(FOLDER / "prometheus.yaml")], None),
        (["check", "rules", str(FOLDER / "alerts.yaml")], None),
        (["check", "metrics"], Scrape(everything[1]).text),
    ]
    for arguments, given in checks:
        ran = subprocess.run([TOOL, *arguments], input=given, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, ""), f"{arguments}: {ran.stdout} {ran.stderr}"


@pytest.mark.skipif(TOOL is None, reason=NOT_THERE)
@pytest.mark.parametrize(
    ("series", "fires"),
    [
        # Each process is there for two minutes, and runs for one of them: none of them counts a
        # restart, none fails for long, none is away for long.
        ({"generation": "0x7 1x7 2x7 3x7 4x7 5x7", "restarts_total": "0x47"}, True),
        ({"generation": "0x7 1x7 2x7 3x7 4x7 5x7", "restarts_total": "0x7 1+1x39"}, True),
        ({"generation": "3x47", "restarts_total": "0x20 6x26"}, True),  # between two scrapes
        ({"generation": "3x47", "restarts_total": "2x47"}, False),
        ({"generation": "0x20 1x26", "restarts_total": "0x20 1x26"}, False),
    ],
)
def test_a_query_that_is_restarted_again_and_again_is_told(
    series: dict[str, str], fires: bool, tmp_path: Path
) -> None:
    assert TOOL is not None
    alerts(tmp_path, "ContinuousQueryRestarts", series, "11m", fires)


@pytest.mark.skipif(TOOL is None, reason=NOT_THERE)
@pytest.mark.parametrize(
    ("committed", "interval_s", "fires"),
    [
        ("0+15x47", 1, False),
        ("0x47", 1, True),  # whatever its state is: one that does not get on is STALLED at last
        ("0x47", 300, False),
        ("_x47", 1, True),  # never
        ("_x20 315x27", 1, False),
        ("_x47", 300, False),
    ],
)
def test_a_query_that_commits_nothing_is_told(
    committed: str, interval_s: int, fires: bool, tmp_path: Path
) -> None:
    series = {
        "started_timestamp_seconds": "0x47",
        "last_commit_timestamp_seconds": committed,
        "commit_interval_seconds": f"{interval_s}x47",
    }
    alerts(tmp_path, "ContinuousQueryCommitsNothing", series, "11m", fires)


@pytest.mark.skipif(TOOL is None, reason=NOT_THERE)
@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("ContinuousQueryBadRecords", "bad_records_total"),
        ("ContinuousQueryLateRows", "late_rows_total"),
    ],
)
@pytest.mark.parametrize(
    ("values", "at", "fires"),
    [
        ("0x47", "11m", False),
        ("0x20 5x26", "11m", True),
        ("5x47", "11m", True),  # in its first seconds: no scrape has seen it without them
        ("_x10 5x37", "11m", True),
        ("5x10 0x37", "11m", False),  # begun again at the same port; the five were told before
        ("5x100", "24m", False),  # long ago
        ("_x90 5x10", "24m", False),  # as long, and this Prometheus was away
    ],
)
def test_rows_that_are_left_out_are_told(
    name: str, metric: str, values: str, at: str, fires: bool, tmp_path: Path
) -> None:
    series = {metric: values, "started_timestamp_seconds": "0x100"}
    alerts(tmp_path, name, series, at, fires)


def lags(level: int, growth: int, noise: int) -> str:
    """Of an hour, the growth being that of each 15 seconds; with the seed's noise."""
    drawn = random.Random(7)
    values = [max(0, level + growth * n + drawn.randint(-noise, noise)) for n in range(240)]
    return " ".join(map(str, values))


@pytest.mark.skipif(TOOL is None, reason=NOT_THERE)
@pytest.mark.parametrize(
    ("lag", "fires"),
    [
        (lags(0, 500, 2_000), True),
        (lags(50_000, 0, 20_000), False),  # as much as an epoch brings: it is never less
        ("20000x100 40000x140", False),  # more comes from now on, and it keeps up
        (lags(200_000, -500, 2_000), False),
        (lags(0, 20, 0), False),  # too little to tell of
    ],
)
def test_a_query_that_falls_behind_is_told(lag: str, fires: bool, tmp_path: Path) -> None:
    series = {"source_lag_offsets": lag}
    alerts(tmp_path, "ContinuousQueryFallsBehind", series, "1h", fires, within="1h")


def alerts(
    folder: Path, name: str, series: dict[str, str], at: str, fires: bool, *, within: str = "1s"
) -> None:
    """Ask promtool whether a rule fires.

    :param series: metric without ``continuous_``, and its values each 15 seconds.
    :param within: so long before it may have fired.
    """
    assert TOOL is not None
    given = [
        {
            "series": f'continuous_{metric}{{query="orders"}}',
            "values": values,
        }
        for metric, values in series.items()
    ]
    story = {
        "rule_files": [str(FOLDER / "alerts.yaml")],
        "tests": [
            {
                "interval": "15s",
                "input_series": given,
                "promql_expr_test": [
                    {
                        "expr": "count(last_over_time("
                        f'ALERTS{{alertname="{name}",alertstate="firing"}}[{within}])) '
                        "or vector(0)",
                        "eval_time": at,
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                ],
            }
        ],
    }
    (folder / "story.yaml").write_text(yaml.safe_dump(story))
    ran = subprocess.run(
        [TOOL, "test", "rules", str(folder / "story.yaml")], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


class Server:
    """A real Prometheus that scrapes one endpoint every 200 ms."""

    def __init__(self, folder: Path, target: tuple[str, int]) -> None:
        config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
        config["global"] = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
        config["rule_files"] = [str(FOLDER / "alerts.yaml")]
        (job,) = config["scrape_configs"]
        job["static_configs"] = [{"targets": ["{}:{}".format(*target)]}]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self.url = f"http://{LOOPBACK}:{free_ports(1)[0]}"
        assert SERVER is not None
        self.log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            [
                *(SERVER, f"--config.file={folder}/prometheus.yaml"),
                *(f"--storage.tsdb.path={folder}/data", f"--web.listen-address={self.url[7:]}"),
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def ask(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def rows(self, expression: str) -> list[Any] | None:
        """None while it does not answer."""
        try:
            found: list[Any] = self.ask("query", query=expression)["result"]
        except OSError as exc:
            if isinstance(exc, urllib.error.HTTPError) and exc.code != UNAVAILABLE:
                raise
            return None
        return found

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)
        self.log.close()


@pytest.mark.skipif(SERVER is None, reason=NOT_THERE)
def test_a_real_prometheus_answers_all_of_it(
    tmp_path: Path, everything: tuple[QueryMeter, tuple[str, int]]
) -> None:
    meter, address = everything
    server = Server(tmp_path, address)
    try:
        wait_until(lambda: server.rows("continuous_open_epoch"), "the first scrape", WAIT_S)
        panels = {title for title, _ in expressions()} & {p["title"] for p in dashboard()["panels"]}
        for title, expression in expressions():

            def asked(expression: str = expression) -> bool:
                commit(meter, 2_000)
                return bool(server.rows(expression))

            if title in panels:  # rules and marks are to find nothing most of the time
                wait_until(asked, title, WAIT_S)
            else:
                assert server.rows(expression) is not None

        def is_told() -> bool:
            groups = server.ask("rules")["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
            return "ContinuousQueryFailing" in {r["name"] for r in rules if r["state"] == "firing"}

        wait_until(is_told, "the rule of a failing query", WAIT_S)
    finally:
        server.close()

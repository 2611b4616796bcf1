"""Gauges of a query, as Airflow's metrics get them from whoever polls its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import RELEASE, AirflowException, AirflowSkipException
from airflow_provider_continuous.observing import metrics, publishing
from airflow_provider_continuous.observing.metrics import stats
from airflow_provider_continuous.operators.checkpoint import PublishMetricsOperator
from airflow_provider_continuous.triggers import base
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from airflow_provider_continuous.view.overview import look_at
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint


class Gauges(dict[str, float]):
    """A backend of Airflow's metrics that keeps the last value of each gauge."""

    def gauge(self, stat: str, value: float, **_: Any) -> None:
        self[stat] = value


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gauges]:
    """Metrics are switched on, and nobody has been looked at yet. Who looks waits until they are
    told, and nobody is told of twice."""
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    monkeypatch.setattr(publishing, "_last_s", {})
    monkeypatch.setattr(publishing, "EVERY_S", 3600.0)
    monkeypatch.setattr(base, "TELLING_MAX_S", 120.0)
    kept = Gauges()
    if RELEASE < (3, 3):
        monkeypatch.setattr(metrics, "stats", kept)
        yield kept
        return
    stats.initialize(factory=lambda: kept, export_legacy_names=False)  # type: ignore[arg-type,return-value]
    yield kept
    stats.initialize(factory=stats_off, export_legacy_names=False)


def stats_off() -> Any:
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    return NoStatsLogger()


def test_who_waits_for_a_query_sets_its_gauges(live: LiveCheckpoint, gauges: Gauges) -> None:
    live.hold()
    live.commit(0, 1)
    report = {
        "batchId": 1,
        "name": "orders to lake",
        "numInputRows": 50,
        "inputRowsPerSecond": 25.0,
        "latencyMs": {"readToWritten": {"p50": 2.5, "p99": 4.5, "max": 9.0}},
    }
    live.checkpoint.progress.write([report])

    assert EpochCommittedTrigger(live.location, epoch=5).look_in_time() is None

    assert gauges.pop("continuous.orders_to_lake.lag_seconds") >= 0
    assert gauges.pop("continuous.looks_hanging") == 0
    assert gauges == {
        "continuous.orders_to_lake.epoch": 1,
        "continuous.orders_to_lake.rows": 50,
        "continuous.orders_to_lake.rows_rate": 25.0,
        "continuous.orders_to_lake.latency_p99": 4.5,
        "continuous.orders_to_lake.restarts": 0,
        "continuous.orders_to_lake.active": 1,
    }


def test_names_that_metrics_cannot_have_stay_apart_and_short(
    tmp_path: Path, gauges: Gauges
) -> None:
    """Airflow sends no gauge whose name, with the tags of InfluxDB, is longer than 250."""
    names = ("заказы", "товары", "orders" * 50 + "1", "orders" * 50 + "2", "orders.to-lake")
    for number, name in enumerate(names):
        query = LiveCheckpoint(tmp_path / str(number))
        query.hold()
        query.commit(0)
        query.checkpoint.progress.write([{"batchId": 0, "name": name, "numInputRows": 1}])
        publishing.publish(query.checkpoint, query.location)
    told = {
        name.split(".", 1)[1].removesuffix(".rows") for name in gauges if name.endswith(".rows")
    }
    assert len(told) == len(names)
    assert "orders.to-lake" in told
    assert all(each.isascii() for each in told)
    assert max(len(f"continuous.{each}.watermark_lag,query={each}") for each in told) <= 250


def test_the_watermark_has_a_gauge(live: LiveCheckpoint, gauges: Gauges) -> None:
    live.hold()
    assert live.checkpoint.offsets.add(0, OffsetEntry((1,)))
    assert live.checkpoint.commits.add(0, CommitEntry(round(time.time() * 1000) - 90_000))
    assert EpochCommittedTrigger(live.location, epoch=5).look_in_time() is None
    (lag_s,) = [value for name, value in gauges.items() if name.endswith(".watermark_lag")]
    assert lag_s >= 90
    told = look_at(live.checkpoint, live.location).to_dict()
    assert told["watermark_lag_s"] >= 90


def test_many_who_wait_set_them_once_in_a_while(
    live: LiveCheckpoint, gauges: Gauges, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold()
    live.commit(0)
    publishing.publish(live.checkpoint, live.location)
    live.commit(1)

    publishing.publish(live.checkpoint, live.location)

    assert gauges["continuous.checkpoint.epoch"] == 0
    monkeypatch.setattr(publishing, "EVERY_S", 0.0)
    publishing.publish(live.checkpoint, live.location)
    assert gauges["continuous.checkpoint.epoch"] == 1


def test_a_query_that_has_ended_is_not_active(live: LiveCheckpoint, gauges: Gauges) -> None:
    live.hold()
    live.end(QueryState.STOPPED)

    publishing.publish(live.checkpoint, live.location)

    assert gauges["continuous.checkpoint.active"] == 0
    assert "continuous.checkpoint.rows_rate" not in gauges


def test_without_metrics_nothing_is_read(
    live: LiveCheckpoint, gauges: Gauges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "False")

    publishing.publish(live.checkpoint, live.location)

    assert gauges == {}


def publish_all(folder: Path) -> Any:
    """One look at all queries below a folder, by a task."""
    operator = PublishMetricsOperator(task_id="publish", checkpoint_location=f"{folder}/*")
    return operator.execute({})  # type: ignore[typeddict-item]


def test_queries_that_nobody_waits_for_have_gauges(tmp_path: Path, gauges: Gauges) -> None:
    for name, epoch in (("orders", 4), ("returns", 7)):
        query = LiveCheckpoint(tmp_path / name)
        query.hold()
        query.commit(*range(epoch + 1))

    told = publish_all(tmp_path)

    assert sorted(told["published"]) == [f"{tmp_path}/orders", f"{tmp_path}/returns"]
    assert (gauges["continuous.orders.epoch"], gauges["continuous.returns.epoch"]) == (4, 7)
    assert gauges["continuous.orders.active"] == 1


def test_one_that_cannot_be_read_does_not_darken_the_others(tmp_path: Path, gauges: Gauges) -> None:
    for name in ("broken", "good"):
        query = LiveCheckpoint(tmp_path / name)
        query.hold()
        query.commit(0)
    (tmp_path / "broken" / "control" / "lease").write_text("{")
    (tmp_path / "broken" / "metadata").write_text("{")

    with pytest.raises(AirflowException, match=f"1 of 2 .*\n{tmp_path}/broken: "):
        publish_all(tmp_path)

    assert gauges["continuous.good.epoch"] == 0


def test_while_nobody_listens_the_task_is_skipped(
    tmp_path: Path, gauges: Gauges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "False")
    with pytest.raises(AirflowSkipException, match="statsd_on"):
        publish_all(tmp_path)
    assert gauges == {}

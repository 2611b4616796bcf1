"""What OpenLineage is told about a query. Its events need the OpenLineage provider."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.observing import publishing
from airflow_provider_continuous.openlineage.datasets import (
    DataSet,
    Lineage,
    lineage_of,
    recorded,
)
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.triggers import base
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from airflow_provider_continuous.view.overview import look_at
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

PARTS = {
    "sources": [
        {
            "format": "kafka",
            "options": {
                "kafka.bootstrap.servers": "k1:9092,k2:9092",
                "subscribe": "orders, refunds",
            },
            "schema": {"value": "binary"},
        },
        {"format": "rate", "options": {"rowspersecond": "10"}, "schema": {}},
    ],
    "schema": {"id": "bigint", "total": "double"},
    "sink": {"format": "parquet", "options": {"path": "s3://lake/orders"}},
}
ORDERS = DataSet("s3://lake", "orders", (("id", "bigint"), ("total", "double")))


def test_datasets_have_the_names_of_openlineage() -> None:
    lineage = lineage_of(PARTS)

    assert [(each.namespace, each.name) for each in lineage.inputs] == [
        ("kafka://k1:9092", "orders"),
        ("kafka://k1:9092", "refunds"),
    ]
    assert lineage.outputs == (ORDERS,)


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/data/out", "file", "/data/out"),
        ("file:///data/out", "file", "/data/out"),
        ("s3://lake/a/b", "s3://lake", "a/b"),
        ("hdfs://user:secret@nn:8020/x", "hdfs://nn:8020", "x"),
    ],
)
def test_files_are_named_by_where_they_are(path: str, namespace: str, name: str) -> None:
    parts = {"source": {"format": "tail", "options": {"path": path}}}

    assert lineage_of(parts).inputs == (DataSet(namespace, name),)


@pytest.mark.parametrize(
    ("url", "table", "namespace", "name"),
    [
        ("postgresql://db/shop", "orders", "postgres://db:5432", "shop.public.orders"),
        ("postgresql://me@a:1,b:2/d?sslmode=require", 's."T"', "postgres://a:1", "d.s.T"),
    ],
)
def test_tables_are_named_by_their_database(
    url: str, table: str, namespace: str, name: str
) -> None:
    parts = {"sink": {"format": "postgres", "options": {"url": url, "table": table}}}

    assert lineage_of(parts).outputs == (DataSet(namespace, name),)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"url": "mysql+pymysql://me:x@db/shop"}, ("mysql://db:3306", "shop.orders")),
        ({"path": "postgresql://db:1/shop"}, ("postgres://db:1", "shop.public.orders")),
        ({"path": "sqlite:////data/shop.db"}, None),
    ],
)
def test_tables_of_any_database_are_named_likewise(
    options: dict[str, str], found: tuple[str, str] | None
) -> None:
    parts = {"sink": {"format": "sqlalchemy", "options": {**options, "table": "orders"}}}

    assert lineage_of(parts).outputs == (() if found is None else (DataSet(*found),))


def test_a_query_that_has_run_tells_itself(live: LiveCheckpoint, spec: dict[str, Any]) -> None:
    task = StartContinuousQueryOperator(
        task_id="t", spec={**spec, "checkpoint_location": live.location}
    )
    assert task.lineage() == Lineage()
    write_fingerprint(live.checkpoint.storage, PARTS)

    assert task.lineage() == recorded(live.checkpoint) == lineage_of(PARTS)


def test_before_that_the_specification_does(spec: dict[str, Any]) -> None:
    sink = {"format": "parquet", "options": {"path": "/data/out"}}

    lineage = StartContinuousQueryOperator(task_id="t", spec={**spec, "sink": sink}).lineage()

    assert lineage == Lineage(outputs=(DataSet("file", "/data/out"),))


def test_an_operator_tells_openlineage(live: LiveCheckpoint) -> None:
    pytest.importorskip("airflow.providers.openlineage")
    write_fingerprint(live.checkpoint.storage, PARTS)
    task = DrainContinuousQueryOperator(task_id="t", checkpoint_location=live.location)

    for told in (
        task.get_openlineage_facets_on_start(),
        task.get_openlineage_facets_on_complete(None),
    ):
        assert [each.name for each in told.inputs] == ["orders", "refunds"]
        (output,) = told.outputs
        assert [column.name for column in output.facets["schema"].fields] == ["id", "total"]
        assert told.job_facets["jobType"].processingType == "STREAMING"


def test_a_query_is_a_run_of_its_own(
    live: LiveCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("airflow.providers.openlineage")
    written = tmp_path / "events"
    transport = {"type": "file", "log_file_path": str(written), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__NAMESPACE", "team")
    monkeypatch.setattr(publishing, "EVERY_S", 0.0)
    # What is told is awaited: its first time imports OpenLineage, and takes as long as it takes.
    monkeypatch.setattr(base, "TELLING_MAX_S", 120.0)
    run_id = str(uuid.uuid4())
    live.hold(run_id)
    live.commit(0)
    write_fingerprint(live.checkpoint.storage, PARTS)
    live.checkpoint.progress.write([{"name": "orders", "sink": {"numOutputRows": 7}}])
    trigger = QueryEndedTrigger(live.location, run_id)

    assert trigger.look_in_time() is None
    live.end(QueryState.FAILED, "token=hunter2 is too old")
    for _ in range(3):
        assert trigger.look_in_time() is not None

    text = written.read_text()
    running, failed = (json.loads(line) for line in text.splitlines())
    assert (running["eventType"], failed["eventType"]) == ("RUNNING", "FAIL")
    assert running["run"]["runId"] == failed["run"]["runId"] == run_id
    assert running["job"]["namespace"] == "team"
    assert running["job"]["name"] == "continuous.orders"
    assert running["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert "is too old" in failed["run"]["facets"]["errorMessage"]["message"]
    assert "hunter2" not in text


def test_a_query_that_never_ran_has_no_run(live: LiveCheckpoint) -> None:
    pytest.importorskip("airflow.providers.openlineage")
    from airflow_provider_continuous.openlineage.events import run_event

    assert run_event(look_at(live.checkpoint, live.location), Lineage()) is None

"""The buttons that lead from a task to its query."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.xcom import XCom

from airflow_provider_continuous.assets.uris import asset_uri
from airflow_provider_continuous.deploy.contract import label_of
from airflow_provider_continuous.links.query import (
    QUERY_LINKS,
    CheckpointLink,
    QueryPageLink,
    SparkUiLink,
    query_page,
)
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.tasks.query_note import location_of
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

KEY: Any = SimpleNamespace(
    dag_id="a_dag", task_id="a_task", run_id="a_run", map_index=-1, try_number=1
)


def test_the_query_page_is_found_by_the_checkpoint(live: LiveCheckpoint) -> None:
    task = DrainContinuousQueryOperator(task_id="t", checkpoint_location=live.location)

    page = QueryPageLink().get_link(task, ti_key=KEY)

    assert page.endswith(f"/continuous/query?at={live.location.replace('/', '%2F')}")
    assert CheckpointLink().get_link(task, ti_key=KEY) == f"{page}#epochs"


def test_a_location_may_be_no_text() -> None:
    assert query_page("/data/b\udcff").endswith("/query?at=%2Fdata%2Fb%FF")
    assert query_page("/data/\ud800").endswith("/query?at=%2Fdata%2F%5Cud800")
    assert label_of("/data/b\udcff") != label_of("/data/b")
    assert asset_uri("/data/b\udcff") == "continuous://file/data/b%FF"


def test_sparks_own_pages_are_linked_while_the_query_runs(live: LiveCheckpoint) -> None:
    task = DrainContinuousQueryOperator(task_id="t", checkpoint_location=live.location)
    assert SparkUiLink().get_link(task, ti_key=KEY) == ""
    live.hold()
    assert live.lease is not None
    assert SparkUiLink().get_link(task, ti_key=KEY) == ""
    live.lease.heartbeat(application_url="javascript:alert(1)")
    assert SparkUiLink().get_link(task, ti_key=KEY) == ""

    live.lease.heartbeat(application_url="http://driver:4040")

    assert SparkUiLink().get_link(task, ti_key=KEY) == "http://driver:4040"
    live.end(QueryState.STOPPED)
    assert SparkUiLink().get_link(task, ti_key=KEY) == ""


def test_the_specification_may_have_the_location(spec: dict[str, Any]) -> None:
    task = StartContinuousQueryOperator(task_id="t", spec=spec)

    assert location_of(task) == spec["checkpoint_location"]


@pytest.mark.parametrize("told_as", ["continuous_query", "return_value"])
def test_else_the_task_has_told_it_as_it_began_or_has_returned_it(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, told_as: str
) -> None:
    del spec["checkpoint_location"]
    task = StartContinuousQueryOperator(task_id="t", spec=spec)
    told: dict[str, Any] = {}
    monkeypatch.setattr(XCom, "get_value", lambda *, ti_key, key: told.get(key))

    assert QueryPageLink().get_link(task, ti_key=KEY) == ""
    told[told_as] = {"checkpoint_location": "/below/the/root"}
    assert QueryPageLink().get_link(task, ti_key=KEY).endswith("%2Fbelow%2Fthe%2Froot")


@pytest.mark.parametrize(
    "operator",
    [StartContinuousQueryOperator, DrainContinuousQueryOperator, StopContinuousQueryOperator],
)
def test_the_operators_have_the_buttons(operator: type) -> None:
    assert operator.operator_extra_links == QUERY_LINKS  # type: ignore[attr-defined]

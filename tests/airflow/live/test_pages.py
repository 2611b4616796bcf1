"""The pages about queries, through a real api-server: who gets them, and what they show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.processes import AirflowProcesses
from scripts.local_airflow.rest import AirflowClient
from tests.airflow.live.dag_run import DagRun
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

pytestmark = pytest.mark.airflow
ANSWER_S = 120.0
"""The first page of an api-server imports the engine, and a busy machine takes long for it."""
NASTY = "<script>alert('orders')</script>"


@pytest.fixture
def root(airflow: AirflowClient, tmp_path: Path) -> Iterator[Path]:
    """A folder of checkpoints, the root of a connection."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    connection = {
        "connection_id": "pages",
        "conn_type": "continuous",
        "extra": json.dumps({"checkpoint-root": str(folder)}),
    }
    airflow._call("POST", "/connections", json=connection)
    yield folder
    airflow._call("DELETE", "/connections/pages", accept=(204,))


@pytest.fixture
def orders(root: Path) -> LiveCheckpoint:
    """A query that runs, with a report, a pin and a Spark UI."""
    query = LiveCheckpoint(root / "orders")
    query.hold()
    query.commit(0, 1)
    query.checkpoint.pin("before-the-fix", 0)
    query.checkpoint.progress.write([_report("orders-to-lake", 1)])
    assert query.lease is not None
    query.lease.heartbeat(application="app-7", application_url="http://driver:4040")
    return query


@pytest.fixture
def user(airflow: AirflowClient) -> Iterator[httpx.Client]:
    """Somebody who has logged in."""
    airflow.dag_known("any")
    headers = {"Authorization": f"Bearer {airflow.token}"}
    with httpx.Client(
        base_url=airflow.address, headers=headers, trust_env=False, timeout=ANSWER_S
    ) as client:
        yield client


def test_everybody_else_is_refused(airflow: AirflowClient, orders: LiveCheckpoint) -> None:
    with httpx.Client(base_url=airflow.address, trust_env=False, timeout=ANSWER_S) as stranger:
        for page in ("/", "/queries.json", "/query", "/query.json", "/docs", "/openapi.json"):
            answer = stranger.get(f"/continuous{page}", params={"at": orders.location})
            assert answer.status_code in (401, 403, 404), page
            assert "orders" not in answer.text
        forged = {"Authorization": "Bearer of.bad.news"}
        assert stranger.get("/continuous/", headers=forged).status_code in (401, 403)


def test_the_list_shows_the_query(user: httpx.Client, orders: LiveCheckpoint) -> None:
    page = user.get("/continuous/")

    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for shown in ("orders-to-lake", "RUNNING", "1,234", "4.5"):
        assert shown in page.text


def test_the_list_is_json_too(user: httpx.Client, orders: LiveCheckpoint) -> None:
    listing = user.get("/continuous/queries.json").json()

    (query,) = [each for each in listing["queries"] if each["name"] == "orders-to-lake"]
    assert query["state"] == "RUNNING"
    assert query["latency_p99_ms"] == 4.5
    assert listing["problems"] == []


def test_a_query_of_a_task_is_there_by_itself(
    airflow: AirflowClient, user: httpx.Client, tmp_path: Path
) -> None:
    location = str(tmp_path / "below-no-root" / "checkpoint")
    run = DagRun(airflow, "start_stand_in", checkpoint=location, epoch="1").succeeds()

    (query,) = [
        each
        for each in user.get("/continuous/queries.json").json()["queries"]
        if each["checkpoint_location"] == location
    ]
    (owner,) = query["owners"]
    assert (owner["dag_id"], owner["task_id"], owner["run_id"]) == (
        "start_stand_in",
        "start",
        run.run_id,
    )
    page = user.get("/continuous/query", params={"at": location})
    assert f"/dags/start_stand_in/runs/{quote(run.run_id, safe='')}/tasks/start" in page.text
    stopped = act(user, "stop", location)
    assert stopped.status_code == 200, stopped.text
    wait_until(lambda: Checkpoint(location).status().state is QueryState.STOPPED, "the stop", 120)


def test_who_may_not_edit_the_dag_does_not_act(
    airflow_processes: AirflowProcesses, orders: LiveCheckpoint
) -> None:
    passwords = json.loads((airflow_processes.home / "passwords.json").read_text())
    with httpx.Client(
        base_url=airflow_processes.address, trust_env=False, timeout=ANSWER_S
    ) as viewer:
        login = {"username": "viewer", "password": passwords["viewer"]}
        token = viewer.post("/auth/token", json=login).json()["access_token"]
        viewer.headers["Authorization"] = f"Bearer {token}"

        page = viewer.get("/continuous/query", params={"at": orders.location})
        refused = act(viewer, "drain", orders.location)

    assert page.status_code == 200
    assert 'id="actions"' not in page.text
    assert refused.status_code == 403
    assert orders.checkpoint.requests.pending("run-1") is None


def test_a_stranger_with_a_browser_gets_to_the_login(
    airflow: AirflowClient, orders: LiveCheckpoint
) -> None:
    with httpx.Client(base_url=airflow.address, trust_env=False, timeout=ANSWER_S) as stranger:
        for page in ("/", "/query"):
            answer = stranger.get(
                f"/continuous{page}",
                params={"at": orders.location},
                headers={"Accept": "text/html"},
            )
            assert answer.status_code == 303
            assert answer.headers["Location"].startswith("/auth/login?next=")


def test_a_query_has_a_page_of_its_own(user: httpx.Client, orders: LiveCheckpoint) -> None:
    page = user.get("/continuous/query", params={"at": orders.location})
    data = user.get("/continuous/query.json", params={"at": orders.location}).json()

    assert page.status_code == 200
    assert "before-the-fix" in page.text
    assert "http://driver:4040" in page.text
    assert [epoch["epoch"] for epoch in data["epochs"]] == [1, 0]
    assert data["pins"][0]["name"] == "before-the-fix"


def test_what_lies_elsewhere_is_not_shown(
    user: httpx.Client, root: Path, orders: LiveCheckpoint, tmp_path: Path
) -> None:
    secret = LiveCheckpoint(tmp_path / "elsewhere" / "secret")
    secret.commit(0)
    (root / "link").symlink_to(tmp_path / "elsewhere")

    for location in (
        secret.location,
        f"{root}/../elsewhere/secret",
        f"{root}/link/secret",
        f"file://{root}/../elsewhere/secret",
        f"{root}-elsewhere",
        f"{root}/nothing",
        "relative",
        "",
    ):
        answer = user.get("/continuous/query.json", params={"at": location})
        assert answer.status_code == 404, location
        assert "secret" not in answer.text
    assert "secret" not in user.get("/continuous/queries.json").text


def test_names_and_errors_are_text(user: httpx.Client, orders: LiveCheckpoint) -> None:
    orders.checkpoint.progress.write([_report(NASTY, 1)])
    orders.end(QueryState.FAILED, f"password=hunter2 {NASTY}")

    for page in (
        user.get("/continuous/"),
        user.get("/continuous/query", params={"at": orders.location}),
    ):
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert" in page.text
        assert "hunter2" not in page.text


def test_airflow_has_it_in_its_navigation(airflow: AirflowClient) -> None:
    plugins = airflow._call("GET", "/plugins").json()["plugins"]

    (plugin,) = [plugin for plugin in plugins if plugin["name"] == "continuous"]

    assert [view["url_route"] for view in plugin["external_views"]] == ["continuous"]


def act(user: httpx.Client, action: str, location: str, **asked: object) -> httpx.Response:
    return user.post(
        f"/continuous/act/{action}",
        params={"at": location},
        json=asked,
        headers={"X-Continuous-Action": "1"},
    )


def _report(name: str, epoch: int) -> dict[str, object]:
    return {
        "batchId": epoch,
        "name": name,
        "numInputRows": 1234,
        "inputRowsPerSecond": 1234.0,
        "numBadRecords": 0,
        "latencyMs": {"readToWritten": {"p50": 2.5, "p99": 4.5, "max": 9.0}},
    }

"""The example DAGs, through real processes; flights_demo has ``make demo`` for itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from scripts.local_airflow.rest import AirflowClient, wait_for
from tests.airflow.live.dag_run import RUN_S, DagRun
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.spark_cluster import SparkCluster

pytestmark = [pytest.mark.airflow, pytest.mark.sampled(1 / 3)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    """The checkpoint of a query that an example will start; nothing of it is left running."""
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    yield checkpoint
    end(checkpoint)


def end(checkpoint: Checkpoint) -> None:
    """Kill its query, which may not have come as far as to take the lease."""
    specification = f"{checkpoint.url}.logs/"
    for process in psutil.process_iter(["cmdline"]):
        if any(word.startswith(specification) for word in process.info["cmdline"] or []):
            with suppress(psutil.NoSuchProcess):
                for member in (*process.children(recursive=True), process):
                    member.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark") / "cluster") as cluster:
        yield cluster


def runs(checkpoint: Checkpoint) -> None:
    """On a busy machine it may be STALLED for a moment."""
    wait_for(lambda: checkpoint.status().state is QueryState.RUNNING, RUN_S, "the query to run")


def folders(checkpoint: Checkpoint) -> dict[str, str]:
    return {"checkpoint": checkpoint.url, "output": f"{checkpoint.url}-output"}


def test_a_complete_day_and_the_batch_that_agrees_with_it(
    airflow: AirflowClient, checkpoint: Checkpoint
) -> None:
    """The sensor waits for the first reading of the day after, and for its ten minutes."""
    readings = Path(f"{checkpoint.url}-input")
    readings.mkdir()
    arrive(readings, "yesterday", ["2026-11-22T23:59:59Z"])
    arrive(readings, "morning", [f"2026-11-23T0{n % 10}:{n}:00Z" for n in range(10, 60)])
    run = DagRun(
        airflow,
        "complete_day",
        **folders(checkpoint),
        input=str(readings),
        until="2026-11-24T00:00:00Z",
    )
    run.wait_for_task("complete", "deferred")
    arrive(readings, "evening", [f"2026-11-23T23:{n}:00Z" for n in range(10, 60)])
    arrive(readings, "next-day", ["2026-11-24T00:00:00Z", "2026-11-24T00:10:01Z"])

    compared = run.succeeds().result("compare")

    assert compared["equal"]
    assert (compared["readings"], compared["start"]) == (100, "2026-11-23T00:00:00+00:00")
    assert run.result("complete")["watermark"] == "2026-11-24T00:00:01+00:00"
    assert checkpoint.status().state is QueryState.STOPPED


def arrive(folder: Path, name: str, times: list[str]) -> None:
    """A file of readings, there as a whole."""
    lines = [
        json.dumps({"at": at, "sensor": f"s{n % 3}", "value": n}) for n, at in enumerate(times)
    ]
    (folder / f".{name}").write_text("\n".join(lines))
    (folder / f".{name}").rename(folder / f"{name}.json")


def test_always_on_and_the_batches_behind_it(airflow: AirflowClient) -> None:
    """Killed, the query is back; its epochs start batch runs; marked as done, it is drained."""
    query = Checkpoint(f"{os.environ['CONTINUOUS_DEMO_DIR']}/checkpoints/always-on")
    for name in ("asset_triggered", "always_on"):
        wait_for(lambda dag=name: airflow.dag_known(dag), RUN_S, f"the DAG {name}")
    try:
        airflow.watch_assets("asset_triggered")
        run = DagRun(airflow, "always_on", scheduled=True)
        wait_for(lambda: query.committed_epoch() >= 1, RUN_S, "the query to commit")
        killed = query.status()
        assert killed.pid is not None

        os.kill(killed.pid, signal.SIGKILL)

        wait_for(lambda: query.status().run_id != killed.run_id, RUN_S, "the query to be back")
        wait_for(lambda: query.committed_epoch() >= killed.epoch + 5, RUN_S, "it to commit")
        wait_for(lambda: airflow.runs("asset_triggered", "success"), RUN_S, "a batch run")
        first = airflow.xcom(
            "asset_triggered", airflow.runs("asset_triggered", "success")[0], "batch"
        )
        assert first["first_epoch"] == 0
        assert first["epoch"] >= 4
        run.wait_for_task("run", "deferred")
        run.wait_for_trigger("run")

        airflow.pause("always_on")
        airflow.set_task_state(run.dag_id, run.run_id, "run", "success")
        wait_for(lambda: query.status().state is QueryState.STOPPED, RUN_S, "the drain")
    finally:
        airflow.pause("always_on")
        airflow.pause("asset_triggered")
        end(query)


def test_rewind_and_replay_on_a_cluster(
    airflow: AirflowClient, checkpoint: Checkpoint, cluster: SparkCluster
) -> None:
    before = cluster.applications()
    run = DagRun(
        airflow, "rewind_and_replay", **folders(checkpoint), epoch=1, master=cluster.master
    ).succeeds()

    assert cluster.applications() == before + 2
    halted, rewound = run.result("halt"), run.result("rewind")
    assert (rewound["from_epoch"], rewound["to_epoch"]) == (halted["epoch"], 1)
    assert rewound["taken_back"]
    assert run.result("replay")["run_id"] != halted["run_id"]
    assert run.result("end")["epoch"] >= halted["epoch"] >= 3


def test_the_health_watch_tells_of_a_query_that_fails(
    airflow: AirflowClient, live: LiveCheckpoint
) -> None:
    live.hold()
    live.commit(0)
    run = DagRun(airflow, "health_watch", checkpoint=live.location)
    run.wait_for_task("healthy", "deferred")

    live.end(QueryState.FAILED, "disk full")

    said = f"{live.location} is FAILED at epoch 0: disk full"
    logs = run.fails()
    assert said in logs
    assert "Somebody should look." in logs, "the notifier"
    assert run.result("alert") == said


def test_an_upgrade_and_one_that_rolls_back(airflow: AirflowClient, checkpoint: Checkpoint) -> None:
    run = DagRun(airflow, "upgrade_with_roll_back", **folders(checkpoint)).succeeds()

    assert run.result("upgrade")["upgraded"]
    assert run.result("upgrade")["run_id"] == checkpoint.status().run_id
    runs(checkpoint)

    wrong = "SELECT value, value DIV (value - value) AS doubled FROM source"
    run = DagRun(airflow, "upgrade_with_roll_back", **folders(checkpoint), sql=wrong).succeeds()

    result = run.result("upgrade")
    assert not result["upgraded"]
    assert "zero" in result["error"].lower()
    assert result["run_id"] == checkpoint.status().run_id
    runs(checkpoint)


def test_a_native_query_on_a_cluster(
    airflow: AirflowClient, checkpoint: Checkpoint, cluster: SparkCluster
) -> None:
    before = cluster.applications()
    run = DagRun(airflow, "native_query", **folders(checkpoint), master=cluster.master).succeeds()

    assert cluster.applications() == before + 1
    assert run.result("drain")["epoch"] >= run.result("wait")["epoch"] >= 2
    assert checkpoint.status().state is QueryState.STOPPED

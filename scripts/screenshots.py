"""``make screenshots``: the pictures of the page in the documentation, taken of queries that run.

Starts Kafka, Airflow and two example DAGs, kills a query's process once, waits until the page has
something to show, takes the pictures with Chromium, and ends everything.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from demo_kafka import demo
from play import ROOT, Demo, Feeder, fresh, say

from engine.checkpoint.checkpoint import Checkpoint
from scripts.local_airflow.processes import AirflowProcesses
from scripts.local_airflow.rest import AirflowClient, wait_for
from tests.servers.kafka import Kafka, running_kafka

FOLDER = Path("/tmp/continuous-demo")  # noqa: S108 - it must not be there before
"""Where the example DAGs have their files: the pictures show it."""
IMAGES = ROOT / "docs" / "images"
CHECKPOINTS = {name: FOLDER / "checkpoints" / name for name in ("always-on", "delays", "table")}
ROWS_PER_SECOND = 1_000
EPOCHS_BEFORE, EPOCHS_BEHIND = 60, 60
PATIENCE_S = 300.0


def main() -> int:
    """Take the pictures and return the exit code."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("There is no Chromium: apt install chromium, or name one in CHROMIUM.")
        return 1
    if FOLDER.exists():
        print(f"{FOLDER} is there already: end the queries that write into it, and remove it.")
        return 1
    fresh(FOLDER)
    try:
        with running_kafka(FOLDER / "broker") as kafka:
            for topic in ("departures", "delays"):
                kafka.create_topic(topic, partitions=2)
            _play(kafka, chromium)
    finally:
        shutil.rmtree(FOLDER)
    return 0


def _play(kafka: Kafka, chromium: str) -> None:
    with_kafka = demo(kafka)
    environment = {
        "PYTHONWARNINGS": "ignore",
        **with_kafka.environment,
        "CONTINUOUS_DEMO_DIR": str(FOLDER),
    }
    # Behind the end of its records, the DAG would drain the queries: it is not told of it.
    arguments = ("--servers", kafka.bootstrap, "--topic", "departures", "--done", f"{FOLDER}/sent")
    slowly = Feeder("Departures go to Kafka", "flights.feed_kafka", arguments, ROWS_PER_SECOND)
    played = Demo(FOLDER, "", (), (), tuple(CHECKPOINTS.values()), lambda step, result: "", {})
    airflow = AirflowProcesses(
        FOLDER / "airflow", ROOT / "dags", paused=True, environment=environment
    )
    with airflow as client, played.queries_ended(), slowly.running():
        try:
            for dag in ("always_on", "kafka_to_delta"):
                wait_for(lambda dag=dag: client.dag_known(dag), PATIENCE_S, f"the DAG {dag}")
            client.pause("always_on", paused=False)
            client.trigger("kafka_to_delta")
            _let_something_happen()
            _take(client, chromium)
        finally:
            client.pause("always_on")  # or its next run would start the query again


def _let_something_happen() -> None:
    for name in CHECKPOINTS:
        _wait_for_epoch(name, EPOCHS_BEFORE)
    killed = Checkpoint(str(CHECKPOINTS["always-on"])).status()
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    _wait_for_epoch("always-on", killed.epoch + EPOCHS_BEHIND)


def _wait_for_epoch(name: str, epoch: int) -> None:
    say(f"Waiting for epoch {epoch} of {name}")
    checkpoint = Checkpoint(str(CHECKPOINTS[name]))
    wait_for(lambda: checkpoint.committed_epoch() >= epoch, PATIENCE_S, f"epoch {epoch} of {name}")


def _take(client: AirflowClient, chromium: str) -> None:
    from playwright.sync_api import sync_playwright

    pictures: dict[str, tuple[str, dict[str, Any]]] = {
        "page-list": ("", {"viewport": {"width": 1100, "height": 480}}),
        "page-query": (
            f"query?at={quote(str(CHECKPOINTS['always-on']))}",
            {"viewport": {"width": 1200, "height": 1500}, "color_scheme": "dark"},
        ),
        "page-kafka": (
            f"query?at={quote(str(CHECKPOINTS['table']))}",
            {"viewport": {"width": 1200, "height": 1500}},
        ),
        "page-phone": ("", {"viewport": {"width": 390, "height": 844}}),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (path, options) in pictures.items():
            window = browser.new_context(**options)
            token = {"name": "_token", "value": client.token, "url": client.address}
            window.add_cookies([token])
            shown = window.new_page()
            shown.goto(f"{client.address}/continuous/{path}")
            shown.wait_for_load_state("networkidle")
            shown.screenshot(path=IMAGES / f"{name}.png")
            say(f"{IMAGES / name}.png")
        browser.close()


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())

"""``make demo``: real departures arrive, a continuous query processes them, and the DAG that has
started it waits for its epochs, checks what is committed, prunes, and drains.

Starts and ends everything itself: a feeder, Airflow's four processes, and, through the DAG, the
query. Exits non-zero if anything differs from the same query run in batch, or goes wrong.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_continuous.rest import AirflowApiError, AirflowClient, wait_for
from airflow_provider_continuous.standalone import AirflowProcesses, StandaloneError
from engine.checkpoint.checkpoint import Checkpoint
from engine.commands.result import format_bytes, format_pairs, format_table

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".demo"
DAG = "flights_demo"
STEPS = (
    "start",
    "wait_for_epochs",
    "compare",
    "prune",
    "everything_committed",
    "compare_everything",
    "drain",
)
WITHOUT_RESULT = ("everything_committed",)
ROWS_PER_SECOND = 9_000
RUN_TIMEOUT_S = 600.0
END_TIMEOUT_S = 15.0
SHOWN_EPOCHS_MAX = 12


def main() -> int:
    """Run the demo and return the exit code."""
    began = time.monotonic()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    say(f"Starting Airflow (scheduler, dag-processor, triggerer, api-server); logs in {FOLDER}")
    airflow = AirflowProcesses(FOLDER / "airflow", ROOT / "dags", environment=environment())
    try:
        with airflow as client, query_ended():
            say(f"Airflow is up after {time.monotonic() - began:.0f} s: {client.address}")
            wait_for(lambda: client.dag_known(DAG), 60, f"the DAG {DAG}")
            with departures_arriving():
                failed = follow(client, client.trigger(DAG))
    except (AirflowApiError, StandaloneError) as error:
        failed = str(error)
    if failed:
        print(f"\nThe demo FAILED: {failed}", file=sys.stderr)
        return 1
    say(f"\nAll as it should be, in {time.monotonic() - began:.0f} s. Files are in {FOLDER}.")
    return 0


def environment() -> dict[str, str]:
    """What the DAG, and so the query, needs to know."""
    return {"CONTINUOUS_DEMO_DIR": str(FOLDER), "PYTHONWARNINGS": "ignore"}


@contextmanager
def departures_arriving() -> Iterator[None]:
    """The feeder, a process of its own, from now until the end of the block."""
    say(f"Departures of 2013 arrive in {FOLDER / 'input'}, {ROWS_PER_SECOND:,} per second")
    command = [sys.executable, "-m", "flights.feed", "--output", str(FOLDER / "input")]
    command += ["--rows-per-second", str(ROWS_PER_SECOND)]
    feeder = subprocess.Popen(command, cwd=ROOT / "dags", stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        feeder.terminate()
        feeder.wait()


@contextmanager
def query_ended() -> Iterator[None]:
    """Whatever happens, no query is left behind."""
    try:
        yield
    finally:
        checkpoint = Checkpoint(str(FOLDER / "checkpoint"))
        status = checkpoint.status()
        if status.state.is_active and status.pid is not None:
            checkpoint.requests.ask("stop", by="the demo")
            end_process(status.pid)


def end_process(pid: int) -> None:
    """Wait for a process that was asked to end; kill it and its children if it does not."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for left in psutil.wait_procs(family, timeout=END_TIMEOUT_S)[1]:
        left.kill()


def follow(client: AirflowClient, run_id: str) -> str:
    """Show each step of the DAG run as it ends; why the run failed, or nothing.

    Every step counts: a DAG run is a success when its last steps are, a teardown among them.
    """
    shown: set[str] = set()
    failed: list[str] = []
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while len(shown) < len(STEPS):

        def ended() -> list[dict[str, Any]]:
            tasks = client.tasks(DAG, run_id)
            return [
                task
                for task in tasks
                if task["task_id"] not in shown
                and task["state"] in ("success", "failed", "upstream_failed", "skipped")
            ]

        for task in wait_for(ended, deadline - time.monotonic(), f"the steps of {DAG}"):
            shown.add(task["task_id"])
            say(f"\n{task['task_id']}: {task['state']}, {task['duration'] or 0:.1f} s")
            if task["state"] != "success":
                failed.append(f"{task['task_id']} is {task['state']}")
            elif task["task_id"] not in WITHOUT_RESULT:
                result = client.xcom(DAG, run_id, task["task_id"])
                say(indented(describe(task["task_id"], result)))
    state = client.wait_for_run(DAG, run_id, END_TIMEOUT_S)
    if state == "success" and not failed:
        return ""
    reasons = ", ".join([*failed, f"the DAG run is {state}"])
    return f"{reasons}.\n{client.failures(DAG, run_id)}"


def describe(step: str, result: dict[str, Any]) -> str:
    """What a person wants to see of a step's result."""
    if step == "wait_for_epochs":
        return f"epoch {result['epoch']} committed at {result['committed_at']}\n\n{epochs()}"
    if step == "prune":
        removed = {key: value for key, value in result.items() if key != "removed_bytes"}
        return format_pairs({**removed, "removed": format_bytes(result["removed_bytes"])})
    if step == "drain":
        return f"{format_pairs(result)}\n\n{epochs()}"
    return format_pairs(result)


def epochs() -> str:
    """The last epochs as the checkpoint tells them: rows, rates, latencies."""
    rows = []
    for report in Checkpoint(str(FOLDER / "checkpoint")).progress.read()[-SHOWN_EPOCHS_MAX:]:
        latency = report["latencyMs"]["readToWritten"] or {}
        rows.append(
            [
                report["batchId"],
                report["numInputRows"],
                report["sink"]["numOutputRows"],
                round(report["inputRowsPerSecond"]),
                latency.get("p50"),
                latency.get("p99"),
                report["latencyMs"]["epochEndToCommitted"],
            ]
        )
    headers = ["epoch", "rows in", "rows out", "rows/s", "p50 ms", "p99 ms", "commit ms"]
    return format_table(headers, rows)


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def indented(text: str) -> str:
    """Four blanks before each line."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())

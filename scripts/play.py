"""What the demos have in common: Airflow's processes, one run of a DAG, each step shown as it ends,
and nothing left behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine.checkpoint.checkpoint import Checkpoint
from engine.commands.result import format_pairs, format_table
from scripts.local_airflow.processes import AirflowProcesses, StandaloneError
from scripts.local_airflow.rest import AirflowApiError, AirflowClient, wait_for

ROOT = Path(__file__).parents[1]
ROWS_PER_SECOND = 9_000
RUN_TIMEOUT_S = 1800.0
END_TIMEOUT_S = 60.0
SHOWN_EPOCHS_MAX = 12


@dataclass(frozen=True)
class Demo:
    """One demo.

    :param folder: all that it makes.
    :param steps: the tasks of the DAG; those ``without_result`` are sensors of Airflow's own.
    :param checkpoints: of its queries.
    :param describe: of a step and its result: what a person wants to see.
    :param environment: for Airflow's processes, and so for the DAG.
    """

    folder: Path
    dag: str
    steps: Sequence[str]
    without_result: Sequence[str]
    checkpoints: Sequence[Path]
    describe: Callable[[str, dict[str, Any]], str]
    environment: Mapping[str, str]

    def play(self, feeder: Feeder) -> int:
        """Play it, while a feeder runs; return the exit code."""
        began = time.monotonic()
        say(
            f"Starting Airflow (scheduler, dag-processor, triggerer, api-server); logs in "
            f"{self.folder}"
        )
        environment = {
            "PYTHONWARNINGS": "ignore",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",  # nobody changes the DAGs
            **self.environment,
        }
        # The other DAGs stay paused: while tasks run, a call that writes can be answered by 500, as
        # the api-server blocks itself on SQLite.
        airflow = AirflowProcesses(
            self.folder / "airflow", ROOT / "dags", paused=True, environment=environment
        )
        try:
            with airflow as client, self.queries_ended():
                say(f"Airflow is up after {time.monotonic() - began:.0f} s: {client.address}")
                wait_for(lambda: client.dag_known(self.dag), 60, f"the DAG {self.dag}")
                with feeder.running():
                    failed = self._follow(client, client.trigger(self.dag))
        except (AirflowApiError, StandaloneError) as error:
            failed = str(error)
        if failed:
            print(f"\nThe demo FAILED: {failed}", file=sys.stderr)
            return 1
        took_s = time.monotonic() - began
        say(f"\nAll as it should be, in {took_s:.0f} s. Files are in {self.folder}.")
        return 0

    @contextmanager
    def queries_ended(self) -> Iterator[None]:
        """Whatever happens, no query is left behind."""
        try:
            yield
        finally:
            for path in self.checkpoints:
                checkpoint = Checkpoint(str(path))
                status = checkpoint.status()
                if status.state.is_active and status.pid is not None:
                    checkpoint.requests.ask("stop", by="the demo")
                    _end_process(status.pid)

    def _follow(self, client: AirflowClient, run_id: str) -> str:
        """Show each step of the DAG run as it ends; why the run failed, or nothing.

        Every step counts: a DAG run is a success when its last steps are, a teardown among them.
        """
        shown: set[str] = set()
        failed: list[str] = []
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while len(shown) < len(self.steps):

            def ended() -> list[dict[str, Any]]:
                return [
                    task
                    for task in client.tasks(self.dag, run_id)
                    if task["task_id"] not in shown
                    and task["state"] in ("success", "failed", "upstream_failed", "skipped")
                ]

            left_s = deadline - time.monotonic()
            for task in wait_for(ended, left_s, f"the steps of {self.dag}"):
                name = task["task_id"]
                shown.add(name)
                say(f"\n{name}: {task['state']}, {task['duration'] or 0:.1f} s")
                if task["state"] != "success":
                    failed.append(f"{name} is {task['state']}")
                    continue
                if name not in self.without_result:
                    say(_indented(self.describe(name, client.xcom(self.dag, run_id, name))))
        state = client.wait_for_run(self.dag, run_id, END_TIMEOUT_S)
        if state == "success" and not failed:
            return ""
        reasons = ", ".join([*failed, f"the DAG run is {state}"])
        return f"{reasons}.\n{client.failures(self.dag, run_id)}"


@dataclass(frozen=True)
class Feeder:
    """A process that makes records arrive.

    :param module: of ``dags``, with its ``arguments``.
    """

    text: str
    module: str
    arguments: Sequence[str]
    rows_per_second: int = ROWS_PER_SECOND

    @contextmanager
    def running(self) -> Iterator[None]:
        """From now until the end of the block."""
        say(f"{self.text}, {self.rows_per_second:,} per second")
        command = [sys.executable, "-m", self.module, *self.arguments]
        command += ["--rows-per-second", str(self.rows_per_second)]
        feeder = subprocess.Popen(command, cwd=ROOT / "dags", stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            feeder.terminate()
            feeder.wait()


def fresh(folder: Path) -> None:
    """An empty folder in place of what an earlier demo has left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def epochs(checkpoint: Path) -> str:
    """The last epochs as the checkpoint tells them: rows, rates, latencies."""
    rows = []
    for report in Checkpoint(str(checkpoint)).progress.read()[-SHOWN_EPOCHS_MAX:]:
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


def pairs(result: Mapping[str, Any]) -> str:
    """A result as it is."""
    return format_pairs(dict(result))


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def _end_process(pid: int) -> None:
    """Wait for a process that was asked to end; kill it and its children if it does not."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for left in psutil.wait_procs(family, timeout=END_TIMEOUT_S)[1]:
        left.kill()


def _indented(text: str) -> str:
    """Four blanks before each line."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())

"""1,000 deferred epoch sensors in one event loop, on 1, 10 and 100 checkpoints.

The triggers are the real ones, run by Airflow's own ``TriggerRunner``; another process commits an
epoch per second to each checkpoint. Beside them the same triggers, each with a poller of its own,
as a triggerer runs what does not share.

- CPU: seconds per second of the event loop's process, all threads, while all sensors wait;
- detection: from the commit log entry's own time to the trigger's event, with looks 1 s apart.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.measure import percentile
from bench.size import sized

SENSORS = sized(1_000, 1_000, 100)
ENGINES = tuple(f"{kind}, {n}" for n in (1, 10, 100) for kind in ("shared", "alone"))
FIRST_EPOCH = sized(12, 12, 6)
"""Before this epoch commits nobody goes; so long the CPU is measured, but for the warm-up."""
WARM_UP_EPOCH = 4
EPOCHS = 8


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    kind, checkpoints = engine.split(", ")
    with tempfile.TemporaryDirectory(prefix="bench-airflow-") as home:
        os.environ["AIRFLOW_HOME"] = home
        os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
        os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"
        figures = asyncio.run(_measure(Path(home), kind, int(checkpoints)))
    print(json.dumps(figures))


async def _measure(home: Path, kind: str, checkpoints: int) -> dict[str, float]:
    from airflow.jobs.triggerer_job_runner import TriggerRunner

    folders = [home / f"checkpoint-{number}" for number in range(checkpoints)]
    runner: Any = TriggerRunner()  # type: ignore[no-untyped-call]
    late_ms: list[float] = []
    watching = []
    for number in range(SENSORS):
        folder = folders[number % checkpoints]
        epoch = FIRST_EPOCH + number // checkpoints % EPOCHS
        runner.triggers[number] = {"name": str(number), "events": 0}
        trigger = _trigger(kind, str(folder), epoch, late_ms)
        watching.append(asyncio.create_task(runner.run_trigger(number, trigger)))
    query = subprocess.Popen(
        [sys.executable, "-m", "bench.sensors", *(str(folder) for folder in folders)]
    )
    try:
        await _until(folders[-1] / "commits" / str(WARM_UP_EPOCH))
        cpu, wall = time.process_time(), time.monotonic()
        await _until(folders[0] / "commits" / str(FIRST_EPOCH - 1))
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        await asyncio.wait_for(asyncio.gather(*watching), 120)
    finally:
        query.kill()
        query.wait()
    assert len(late_ms) == SENSORS
    return {
        "cpu": cpu / wall,
        "p50": percentile(late_ms, 50),
        "p99": percentile(late_ms, 99),
        "max": max(late_ms),
    }


def _trigger(kind: str, folder: str, epoch: int, late_ms: list[float]) -> Any:
    from airflow.triggers.base import TriggerEvent

    from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger

    class Timed(EpochCommittedTrigger):
        """Notes how late its event is."""

        async def run(self) -> AsyncIterator[TriggerEvent]:
            async for event in super().run():
                committed_s = (Path(folder) / "commits" / str(epoch)).stat().st_mtime
                late_ms.append((time.time() - committed_s) * 1000)
                yield event

    class Alone(Timed):
        """Reads for itself."""

        async def run(self) -> AsyncIterator[TriggerEvent]:
            while (event := await asyncio.to_thread(self.observe)) is None:
                await asyncio.sleep(self.poll_interval_s)
            committed_s = (Path(folder) / "commits" / str(epoch)).stat().st_mtime
            late_ms.append((time.time() - committed_s) * 1000)
            yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    return (Timed if kind == "shared" else Alone)(folder, epoch, poll_interval_s=1.0)


async def _until(file: Path) -> None:
    while not file.exists():
        await asyncio.sleep(0.05)


def commit_for_ever(folders: list[str]) -> None:
    """Be the query of each checkpoint: an epoch per second."""
    from engine.checkpoint.checkpoint import Checkpoint
    from engine.checkpoint.lease import Lease
    from engine.checkpoint.logs.commit_log import CommitEntry
    from engine.checkpoint.logs.offset_log import OffsetEntry
    from engine.checkpoint.query_state import QueryState

    checkpoints = [Checkpoint(folder) for folder in folders]
    for checkpoint in checkpoints:
        checkpoint.create_or_read_query_id("bench")
        lease = Lease.acquire(checkpoint, run_id="bench", heartbeat_interval_ms=60_000)
        lease.heartbeat(state=QueryState.RUNNING)
    never, began = threading.Event(), time.monotonic()
    for epoch in range(1_000):
        for checkpoint in checkpoints:
            checkpoint.offsets.add(epoch, OffsetEntry(({"0": epoch},)))
            checkpoint.commits.add(epoch, CommitEntry())
        never.wait(max(0.0, began + epoch + 1 - time.monotonic()))


if __name__ == "__main__":
    commit_for_ever(sys.argv[1:])

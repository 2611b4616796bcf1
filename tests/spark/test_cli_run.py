"""``python -m engine run`` as a process of its own: it runs, drains, restarts, fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from tests.sink_files import committed
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 180

FAILING = """
from engine import write_stream

def check(row):
    if row.value == 3:
        raise ValueError("three is too many")

def query(spark):
    df = spark.readStream.format("rate").option("rowsPerSecond", 10).option("numPartitions", 1)
    return write_stream(df.load()).foreach(check).option("retrySinkFor", "1 second")
"""

MULTIPLES = """
from engine import write_stream

def query(spark):
    df = spark.readStream.format("rate").option("rowsPerSecond", 20).option("numPartitions", 2)
    return write_stream(df.load().where("value % {of} = 0"))
"""


def spec(folder: Path, **changes: Any) -> dict[str, Any]:
    """A query that runs until it is asked to end."""
    return {
        "name": "evens",
        "source": {"format": "rate", "options": {"rowsPerSecond": 20, "numPartitions": 2}},
        "sql": "SELECT timestamp, value FROM source WHERE value % 2 = 0",
        "sink": {"format": "noop"},
        "trigger": {"continuous": "200 milliseconds"},
        "checkpoint_location": str(folder / "checkpoint"),
        "conf": {"spark.master": "local[2]"},
        **changes,
    }


class Run:
    """``python -m engine run --json`` on a specification."""

    def __init__(self, folder: Path, document: dict[str, Any], *options: str) -> None:
        path = folder / "query.json"
        written = folder / "written.json"
        written.write_text(json.dumps(document))
        written.replace(path)  # another process may be about to read it
        self._start(folder, "-m", "engine", "run", "--json", str(path), *options)

    def _start(self, folder: Path, *arguments: str) -> None:
        self.log = folder / f"run-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                start_new_session=True,
            )

    def result(self) -> tuple[int, dict[str, Any]]:
        """Exit code and the object on standard output, when it has ended."""
        out, _ = self.process.communicate(timeout=WAIT_S)
        assert out.count(b"\n") == 1, f"{out!r}\n{self.log.read_text()}"
        return self.process.returncode, json.loads(out)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait while the process lives."""

        def holds() -> bool:
            code = self.process.poll()
            assert code is None, f"ended with {code}\n{self.log.read_text()}"
            return condition()

        wait_until(holds, f"what is waited for, log in {self.log}", WAIT_S)


@pytest.fixture
def run() -> Iterator[Callable[[Path, dict[str, Any]], Run]]:
    """Starts processes, and kills those that a failing test left behind."""
    started: list[Run] = []

    def body(folder: Path, document: dict[str, Any], *options: str) -> Run:
        started.append(Run(folder, document, *options))
        return started[-1]

    yield body
    for each in started:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.communicate()


def test_a_signal_drains_and_the_next_run_goes_on(
    tmp_path: Path, run: Callable[[Path, dict[str, Any]], Run]
) -> None:
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    first = run(tmp_path, spec(tmp_path))
    first.wait_for(lambda: checkpoint.committed_epoch() >= 2)
    first.wait_for(lambda: checkpoint.status().state is QueryState.RUNNING)
    status = checkpoint.status()
    assert status.pid == first.process.pid, "the process is found again by the lease"
    first.process.send_signal(signal.SIGTERM)
    code, result = first.result()
    drained = checkpoint.status()
    assert code == 0
    assert drained.state is QueryState.STOPPED
    assert result == {
        "id": drained.id,
        "run_id": drained.run_id,
        "name": "evens",
        "state": "STOPPED",
        "epoch": drained.epoch,
        "error": None,
    }
    second = run(tmp_path, spec(tmp_path))
    second.wait_for(lambda: checkpoint.committed_epoch() >= drained.epoch + 2)
    second.process.send_signal(signal.SIGINT)
    code, result = second.result()
    assert (code, result["state"], result["id"]) == (0, "STOPPED", drained.id)
    assert checkpoint.epochs() == list(range(result["epoch"] + 1)), "no gap, nothing twice"


def test_a_standby_takes_over_and_ends_with_who_it_waits_for(
    tmp_path: Path, run: Callable[..., Run]
) -> None:
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    out = {"format": "parquet", "options": {"path": str(tmp_path / "out")}}
    document = spec(tmp_path, sink=out)
    first = run(tmp_path, document, "--standby")  # the first to come runs the query
    first.wait_for(lambda: checkpoint.committed_epoch() >= 2)
    second = run(tmp_path, document, "--standby")
    second.wait_for(lambda: "standing by: run " in second.log.read_text())
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait(WAIT_S)
    epoch = checkpoint.committed_epoch()  # now it commits no more
    second.wait_for(lambda: checkpoint.committed_epoch() >= epoch + 2)
    assert checkpoint.status().pid == second.process.pid
    other = spec(tmp_path, sink=out, sql="SELECT value FROM source")
    code, result = run(tmp_path, other, "--standby").result()
    assert code == 2, "that it is another query is told at once"
    assert "source.schema" in result["error"] or "Changed: " in result["error"]
    third, unneeded = (run(tmp_path, document, "--standby") for _ in range(2))
    for each in (third, unneeded):
        each.wait_for(lambda: "standing by: run " in each.log.read_text())  # noqa: B023
    unneeded.process.send_signal(signal.SIGTERM)
    code, result = unneeded.result()
    assert (code, result["state"]) == (0, None)
    second.process.send_signal(signal.SIGTERM)
    _, drained = second.result()
    code, result = third.result()
    assert (code, result["state"], result["epoch"]) == (0, "STOPPED", drained["epoch"])
    assert result["run_id"] == drained["run_id"]
    values = sorted(committed(tmp_path / "out", "value"))
    assert values == list(range(0, 2 * len(values), 2)), "nothing is lost, nothing is twice"


def test_a_failure_exits_with_its_reason(
    tmp_path: Path, run: Callable[[Path, dict[str, Any]], Run]
) -> None:
    (tmp_path / "my_failing_query.py").write_text(FAILING)
    document = spec(tmp_path, query="my_failing_query:query", python_path=[str(tmp_path)])
    for key in ("source", "sql", "sink"):
        del document[key]
    failing = run(tmp_path, document)
    code, result = failing.result()
    assert (code, result["state"]) == (1, "FAILED")
    assert "three is too many" in result["error"]
    status = Checkpoint(str(tmp_path / "checkpoint")).status()
    assert status.state is QueryState.FAILED
    assert status.error == result["error"]
    last = [line for line in failing.log.read_text().splitlines() if "continuous run: " in line]
    assert len(last) == 1
    assert "three is too many" in failing.log.read_text().partition(last[0])[2] + last[0]


def test_what_cannot_start_exits_with_2(
    tmp_path: Path, run: Callable[[Path, dict[str, Any]], Run]
) -> None:
    rate = {"format": "rate", "options": {"numPartitions": 5}}
    sink = {"format": "noop", "options": {"partitionsPerTask": 1}}
    code, result = run(tmp_path, spec(tmp_path, source=rate, sink=sink)).result()
    assert code == 2
    assert "5 tasks" in result["error"]
    assert "2 slots are free" in result["error"]


def test_an_epoch_is_replayed_beside_its_query_and_compared(
    tmp_path: Path, run: Callable[[Path, dict[str, Any]], Run]
) -> None:
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    for name, of in (("old", 2), ("new", 4)):  # two versions of a program
        (tmp_path / name).mkdir()
        (tmp_path / name / "multiples.py").write_text(MULTIPLES.format(of=of))
    kept = {"format": "noop", "options": {"minEpochsToRetain": 10_000}}
    old = spec(tmp_path, sink=kept, query="multiples:query", python_path=[str(tmp_path / "old")])
    del old["source"], old["sql"]
    query = run(tmp_path, old)

    def written() -> list[int]:
        """The epochs with more than one even value that the kept reports tell of."""
        reports = checkpoint.progress.read()
        return [each["batchId"] for each in reports if each["sink"]["numOutputRows"] > 1]

    query.wait_for(lambda: bool(written()))
    changed = {**old, "python_path": [str(tmp_path / "new")]}
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    epoch = max(written())
    done = subprocess.run(
        [
            *(sys.executable, "-m", "engine", "replay", str(tmp_path / "checkpoint"), "--json"),
            *("--epoch", str(epoch), "--spec", str(tmp_path / "query.json")),
            *("--with", str(tmp_path / "changed.json"), "--rows", "1000"),
        ],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    values = [value for _, value in found["out"]["shown"]]
    missed = [value for _, value in found["difference"]["only_before"]["shown"]]
    assert values
    assert all(value % 2 == 0 for value in values)
    assert sorted(missed) == sorted(value for value in values if value % 4)
    assert found["difference"]["only_after"]["rows"] == 0
    committed_then = checkpoint.committed_epoch()
    query.wait_for(lambda: checkpoint.committed_epoch() > committed_then)
    query.process.send_signal(signal.SIGTERM)
    code, _ = query.result()
    assert code == 0

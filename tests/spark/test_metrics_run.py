"""``continuous run`` with metrics and logs of JSON: a query, its standby, one that cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError
from tests.scraping import Scrape
from tests.servers.process import free_ports
from tests.spark.test_cli_run import Run, spec
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 180


def measured(folder: Path, port: int, **changes: Any) -> dict[str, Any]:
    """Every other record is a bad one; the logs are JSON."""
    options = {"metricsPort": str(port), "onBadRecord": "skip"}
    return spec(
        folder,
        sql="SELECT timestamp, assert_true(value % 2 = 0, 'password=hunter2') AS even FROM source",
        sink={"format": "noop", "options": options},
        log_format="json",
        **changes,
    )


def scraped(run: Run, port: int) -> Scrape:
    """What the process tells, as soon as it does."""

    def look() -> Scrape | None:
        assert run.process.poll() is None, run.log.read_text()
        try:
            return Scrape(("127.0.0.1", port))
        except OSError:
            return None

    return wait_until(look, "an endpoint", WAIT_S)


def test_a_query_and_its_standby_are_scraped_and_log_json(tmp_path: Path) -> None:
    first_port, second_port = free_ports(2)
    first = Run(tmp_path, measured(tmp_path, first_port))
    second = None
    try:
        checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
        first.wait_for(lambda: checkpoint.committed_epoch() >= 2)
        second = Run(tmp_path, measured(tmp_path, second_port), "--standby")
        standby = scraped(second, second_port)
        assert standby.value("continuous_query_state", "evens", state="STANDBY") == 1
        running = scraped(first, first_port)
        assert running.value("continuous_query_state", "evens", state="RUNNING") == 1
        assert running.value("continuous_partitions", "evens") == 2
        bad, read = (
            running.value("continuous_bad_records_total", "evens"),
            running.value("continuous_rows_read_total", "evens", stream=0),
        )
        assert bad is not None
        assert read is not None
        assert 0 < bad < read

        (tmp_path / "other").mkdir()
        other = Run(tmp_path / "other", measured(tmp_path / "other", first_port))
        code, result = other.result()
        assert code == 2
        assert f"127.0.0.1:{first_port}: Address already in use" in result["error"]

        os.killpg(first.process.pid, signal.SIGKILL)
        first.process.communicate()

        def has_taken_over() -> bool:
            seen = Scrape(("127.0.0.1", second_port))
            standing_by = seen.value("continuous_query_state", "evens", state="STANDBY")
            commits = seen.value("continuous_epochs_committed_total", "evens")
            return standing_by == 0 and bool(commits)

        second.wait_for(has_taken_over)
        second.process.send_signal(signal.SIGTERM)
        code, _ = second.result()
        assert code == 0
    finally:
        for each in (first, second):
            if each is not None and each.process.poll() is None:
                os.killpg(each.process.pid, signal.SIGKILL)
                each.process.communicate()

    text = first.log.read_text()
    assert "hunter2" not in text
    # What is no object is Java's.
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert {line["query"] for line in lines} == {"evens"}
    (running_line,) = [line for line in lines if line["message"].endswith("is running")]
    assert running_line["generation"] == 0
    of_tasks = [line for line in lines if line["logger"] == "engine.task.bad_records"]
    assert {line["run"] for line in of_tasks} == {running_line["run"]}
    assert {line["partition"] for line in of_tasks} <= {0, 1}
    assert {line["generation"] for line in of_tasks} == {0}
    assert all(line["epoch"] >= 0 for line in of_tasks)


def test_a_port_in_use_leaves_no_temporary_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    df = spark.readStream.format("rate").load()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        writer = write_stream(df).format("noop").option("metricsPort", taken.getsockname()[1])
        with pytest.raises(ConfigError, match="Metrics cannot be served"):
            writer.start()
    assert list(tmp_path.glob("continuous-*")) == []

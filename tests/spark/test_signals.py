"""A signal that reaches every process of a query, as from a terminal, systemd or ``timeout``, ends
it as one to the driver does."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from tests.spark.test_cli_run import WAIT_S, Run, run, spec

pytestmark = pytest.mark.spark
_ = run  # a fixture
_CHECKPOINT = Path(__file__).parents[1] / "golden" / "checkpoints" / "spark-4.3-rate-continuous"
_DOCS = Path(__file__).parents[2] / "docs" / "engine.md"


def to_the_group(driver: psutil.Process, number: int) -> None:
    os.killpg(driver.pid, number)


def to_each(driver: psutil.Process, number: int) -> None:
    """The driver comes last: by then everything that the signal could end has got it."""
    for process in [*driver.children(recursive=True), driver]:
        with suppress(psutil.NoSuchProcess):  # a worker that was not needed has ended meanwhile
            process.send_signal(number)


def name_of(process: psutil.Process) -> str:
    """Empty: it has ended meanwhile, as a worker does that was not needed."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


@pytest.mark.sampled(1 / 3)
@pytest.mark.parametrize(
    ("send", "number"),
    [
        (to_the_group, signal.SIGTERM),
        (to_each, signal.SIGTERM),
        (to_each, signal.SIGINT),
    ],
)
def test_a_signal_to_all_processes_drains(
    tmp_path: Path,
    run: Callable[[Path, dict[str, Any]], Run],
    send: Callable[[psutil.Process, int], None],
    number: int,
) -> None:
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    query = run(tmp_path, spec(tmp_path))
    query.wait_for(lambda: checkpoint.committed_epoch() >= 1)
    driver = psutil.Process(query.process.pid)
    others = driver.children(recursive=True)
    names = [name for each in others if (name := name_of(each))]
    assert any("java" in name for name in names)
    assert sum("python" in name for name in names) >= 3, "the daemon and two workers"
    before = checkpoint.committed_epoch()
    send(driver, number)
    code, result = query.result()
    log = query.log.read_text()
    assert (code, result["state"]) == (0, "STOPPED"), log
    assert "restart" not in log, "no task was lost"
    assert result["epoch"] > before, "the open epoch was committed"
    assert checkpoint.status().state is QueryState.STOPPED
    _, alive = psutil.wait_procs(others, timeout=WAIT_S)
    assert not alive


BUSY = """
from pathlib import Path

def query(spark):
    while True:
        spark.range(10).count()
        Path("{}").touch()
"""


class Command(Run):
    """A command on a specification, in place of ``run``."""

    def __init__(self, folder: Path, name: str, document: dict[str, Any], *options: str) -> None:
        path = folder / "query.json"
        path.write_text(json.dumps(document))
        self._start(folder, "-m", "engine", name, *options, str(path))


@pytest.mark.parametrize("arguments", [("explain",), ("replay", "--epoch", "0", "--spec")])
def test_what_only_looks_at_a_query_ends_at_once_and_in_silence(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    busy = tmp_path / "busy"
    (tmp_path / "app.py").write_text(BUSY.format(busy))
    shutil.copytree(_CHECKPOINT, tmp_path / "checkpoint")
    document = {"query": "app:query", "python_path": ["."], "conf": {"spark.master": "local[1]"}}
    name, *options = arguments
    if options:
        options.insert(0, str(tmp_path / "checkpoint"))
    command = Command(tmp_path, name, document, *options)
    driver = psutil.Process(command.process.pid)
    try:
        command.wait_for(busy.exists)
        others = driver.children(recursive=True)
        to_each(driver, signal.SIGINT)
        assert command.process.wait(WAIT_S) == 130
    finally:
        if command.process.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        command.process.communicate()
    log = command.log.read_text()
    assert not any(word in log for word in ("Traceback", "ERROR", "Exception")), log
    _, alive = psutil.wait_procs(others, timeout=WAIT_S)
    assert not alive


class Program(Run):
    """A program with a session of its own."""

    def __init__(self, folder: Path, text: str) -> None:
        path = folder / "program.py"
        path.write_text(text)
        self._start(folder, str(path))


def test_the_program_of_the_docs_drains_too(tmp_path: Path) -> None:
    section = _DOCS.read_text().partition("\n## Signals\n")[2].partition("\n## ")[0]
    program = section.partition("```python\n")[2].partition("```")[0]
    assert "signal" in program
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    query = Program(tmp_path, program.replace("/tmp/checkpoint", checkpoint.url))
    driver = psutil.Process(query.process.pid)
    try:
        query.wait_for(lambda: checkpoint.committed_epoch() >= 1)
        others = driver.children(recursive=True)
        to_each(driver, signal.SIGTERM)
        assert query.process.wait(WAIT_S) == 0, query.log.read_text()
    finally:
        if query.process.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        query.process.communicate()
    assert checkpoint.status().state is QueryState.STOPPED
    assert "Traceback" not in query.log.read_text()
    _, alive = psutil.wait_procs(others, timeout=WAIT_S)
    assert not alive

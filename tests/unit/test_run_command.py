"""``run``: signals, the live line, the result. The query is a stand-in; no Spark."""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.commands.command_line import main
from engine.commands.live import ERASE_LINE, LOG_EVERY_S, ProgressDisplay, describe_progress
from engine.commands.result import WRONG_USE
from engine.commands.run_query import EndSignals, _result, _stay_with
from engine.errors import ContinuousError, SinkError
from engine.query.spec import QuerySpec


def report(epoch: int, **fields: Any) -> dict[str, Any]:
    """A progress report, as far as it is shown."""
    return {"batchId": epoch, "inputRowsPerSecond": 1234.5, **fields}


class Query:
    """Ends when it is drained or stopped, or with an error."""

    id, runId, name = "id-1", "run-1", None

    def __init__(self, error: Exception | None = None, drains: bool = True) -> None:
        self.asked: list[str] = []
        self._error, self._drains = error, drains
        self._ended = threading.Event()
        if error is not None:
            self._ended.set()

    lastProgress = report(4)
    status: dict[str, Any] = {"epoch": 4}  # noqa: RUF012

    def awaitTermination(self, timeout: float) -> bool:
        ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    def drain(self) -> None:
        self.asked.append("drain")
        if self._drains:
            self._ended.set()

    def stop(self) -> None:
        self.asked.append("stop")
        self._ended.set()


def stay(query: Any, signals: EndSignals) -> Exception | None:
    return _stay_with(query, signals)


@pytest.mark.parametrize("forget", [True, False])
def test_a_specification_is_deleted_when_it_was_read(tmp_path: Path, forget: bool) -> None:
    path = tmp_path / "spec.json"
    path.write_text('{"sink": {"options": {"password": "x"}}}')
    assert main(["run", str(path), *["--forget"][:forget]]) == WRONG_USE
    assert path.exists() is not forget


def test_standard_input_is_no_file_that_could_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("somebody's")
    monkeypatch.setattr("sys.stdin", io.StringIO("{}"))
    assert main(["run", "-", "--forget"]) == WRONG_USE
    assert "--forget deletes the file of the specification" in capsys.readouterr().err
    assert Path("-").read_text() == "somebody's"


def test_a_signal_drains() -> None:
    query = Query()
    with EndSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stay(query, signals) is None
    assert query.asked == ["drain"]


def test_a_second_signal_stops() -> None:
    query = Query(drains=False)
    with EndSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stay(query, signals) is None
    assert query.asked[-1] == "stop"


def test_a_third_signal_kills_and_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with EndSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signals.count == 3
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_results() -> None:
    query: Any = Query()
    done = _result(query, QuerySpec(name="delays"), None)
    assert done.exit_code == 0
    assert done.data == {
        "id": "id-1",
        "run_id": "run-1",
        "name": "delays",
        "state": "STOPPED",
        "epoch": 4,
        "error": None,
    }
    error = SinkError("The sink is full.", hint="Empty it.")
    with EndSignals() as signals:
        assert stay(Query(error), signals) is error
    failed = _result(query, QuerySpec(), error)
    assert (failed.exit_code, failed.error) == (1, error)
    assert (failed.data["state"], failed.data["error"]) == (
        "FAILED",
        "The sink is full. Empty it.",
    )
    assert isinstance(error, ContinuousError)


# -- the live line ------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_report_in_one_line() -> None:
    latency = {"readToWritten": {"p50": 0.412, "p99": 1.2, "max": 3}}
    assert (
        describe_progress(report(1234, latencyMs=latency))
        == "epoch 1,234, 1,234 rows/s, latency p50 0.41 ms, p99 1.20 ms"
    )
    empty = report(5, latencyMs={"readToWritten": None})
    assert describe_progress(empty) == describe_progress(report(5)) == "epoch 5, 1,234 rows/s"
    for rate in (None, float("nan")):  # as Spark has it of a trigger that took no time
        assert describe_progress(report(5, inputRowsPerSecond=rate)) == "epoch 5"
    first = report(0, numInputRows=150, inputRowsPerSecond=0.0, processedRowsPerSecond=216.5)
    assert describe_progress(first) == "epoch 0, 216 rows/s"


def test_a_terminal_shows_one_line_that_changes() -> None:
    terminal = Terminal()
    display = ProgressDisplay(terminal)
    display.show(None)
    for epoch in (1, 1, 2):
        display.show(report(epoch))
    display.close()
    lines = terminal.getvalue().split(ERASE_LINE)
    assert lines == ["", "epoch 1, 1,234 rows/s", "epoch 2, 1,234 rows/s\n"]


class GoneTerminal(Terminal):
    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("terminal", [GoneTerminal(), Terminal(), None])
def test_a_query_goes_on_without_its_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal | None
) -> None:
    class Polled(Query):
        polls = 0

        def awaitTermination(self, timeout: float) -> bool:
            self.polls += 1
            if self.polls == 3 and terminal is not None:
                terminal.close()
            self.lastProgress = report(self.polls)
            return self.polls == 5

    query = Polled()
    monkeypatch.setattr("sys.stderr", terminal)
    with EndSignals() as signals:
        assert stay(query, signals) is None
    assert query.polls == 5


def test_elsewhere_a_log_line_comes_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock, stream = ManualClock(), io.StringIO()
    display = ProgressDisplay(stream, clock)
    with caplog.at_level(logging.INFO):
        for epoch in range(30):
            display.show(report(epoch))
            clock.advance(1)
        display.close()
    assert stream.getvalue() == ""
    step = int(LOG_EVERY_S)
    assert [message.split(",")[0] for message in caplog.messages] == [
        f"epoch {epoch}" for epoch in range(0, 30, step)
    ]

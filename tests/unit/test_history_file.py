"""What a progress report is as measures, and how a history is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import ManualClock
from engine.base.moments import iso_timestamp
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_history import history
from engine.execution.history_keeper import WRITE_EVERY_S, HistoryKeeper
from engine.history.measures import committed_at_ms, measured
from engine.progress.counters import EpochCounters
from engine.progress.histogram import LatencyHistogram
from engine.progress.report import (
    EpochTimes,
    QueryIdentity,
    Restarts,
    StreamProgress,
    epoch_progress,
)

NOW_MS = 1_795_174_660_561


def report(epoch: int, at_ms: int, rows: int = 100, run: str = "run") -> dict[str, Any]:
    latency = LatencyHistogram()
    latency.record(400, rows - 1)
    latency.record(9_000)
    counters = EpochCounters(
        rows_read=rows, rows_written=rows - 1, bad_records=1, read_to_written=latency
    )
    return epoch_progress(
        QueryIdentity("id", run, None, "noop"),
        epoch,
        [StreamProgress("orders", {}, {"0": 1}, [counters], {"0": 9}, {"0": 8, "1": 3})],
        EpochTimes(at_ms - 1010, at_ms - 10, at_ms),
        {"prepare": 2, "commitSink": 7},
        Restarts(),
        state_operators=[
            {"numRowsTotal": 5, "numRowsDroppedByWatermark": 2, "snapshotBytes": 70},
            {"numRowsTotal": 6, "numRowsDroppedByWatermark": 0, "snapshotBytes": 0},
        ],
        watermark_ms=at_ms - 30_000,
    )


def test_what_a_report_tells() -> None:
    told = measured(report(3, NOW_MS))
    assert committed_at_ms(report(3, NOW_MS)) == told.at_ms == NOW_MS
    assert (told.epochs, told.open_ms, told.commit_ms) == (1, 1000, 10)
    assert (told.rows_in, told.rows_out, told.bad_records, told.late_records) == (100, 99, 1, 2)
    assert (told.lag, told.watermark_lag_ms) == (11, 30_000)
    assert (told.state_rows, told.state_bytes) == (11, 70)
    assert told.steps_ms == {"prepare": 2, "commitSink": 7, "triggerExecution": 10}
    assert told.latency.total == 100
    assert told.latency.percentile_ms(50) == pytest.approx(0.4, rel=0.25)
    assert told.latency.max_us == 9_000


def test_a_report_of_sparks_own() -> None:
    """Its batches have pauses in between; some numbers it does not tell."""
    told = measured(
        {
            "runId": "r",
            "batchId": 1,
            "timestamp": iso_timestamp(NOW_MS),
            "batchDuration": 300,
            "numInputRows": 50,
            "inputRowsPerSecond": 5.0,
            "durationMs": {"addBatch": 200, "triggerExecution": 300},
            "stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 800}],
            "sources": [{"metrics": {"maxOffsetsBehindLatest": "12"}}, {"metrics": None}],
            "sink": {"numOutputRows": -1},
        }
    )
    assert (told.open_ms, told.rows_out, told.commit_ms, told.lag) == (10_000, None, None, 12)
    assert (told.at_ms, told.state_bytes, told.latency.total) == (NOW_MS + 300, 800, 0)


@pytest.mark.parametrize(
    ("event_time", "lag_ms"),
    [
        ({"watermark": iso_timestamp(NOW_MS - 5_000)}, 5_300),
        ({"watermark": "1970-01-01T00:00:00.000Z"}, None),
        ({}, None),
    ],
)
def test_the_watermark_of_sparks_own_is_told_by_its_time(
    event_time: dict[str, str], lag_ms: int | None
) -> None:
    told = measured(
        {
            "timestamp": iso_timestamp(NOW_MS),
            "batchDuration": 300,
            "numInputRows": 0,
            "eventTime": event_time,
        }
    )
    assert told.watermark_lag_ms == lag_ms


@pytest.mark.parametrize("wrong", [{}, {"numInputRows": 3}, {"numInputRows": None}])
def test_what_is_no_report_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        measured(wrong)


class Case:
    def __init__(self, folder: Path) -> None:
        self.checkpoint = Checkpoint(str(folder))
        self.clock = ManualClock(NOW_MS)
        self.owns = True
        self.reports: list[dict[str, Any]] = []
        self.keeper = HistoryKeeper(self.checkpoint.history, lambda: self.owns, self.clock)

    def commit(self, epoch: int, run: str = "run") -> None:
        self.clock.advance(1)
        self.reports.append(report(epoch, self.clock.now_ms(), run=run))
        self.keeper.add(self.reports[-1])
        self.checkpoint.progress.write(self.reports)

    def epochs(self) -> int:
        return int(sum(each or 0 for each in history(self.checkpoint).series["epochs"].values))


def test_a_reader_sees_the_last_seconds_too(tmp_path: Path) -> None:
    """The history is written every ten seconds, progress every second."""
    case = Case(tmp_path)
    for epoch in range(5):
        case.commit(epoch)
    assert case.epochs() == 5
    case.keeper.close()
    assert case.epochs() == 5
    assert case.checkpoint.history.read().last == ("run", 4)
    case.commit(5)
    assert case.epochs() == 6


def test_reports_that_the_history_does_not_know_are_told_by_their_time(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for epoch in range(5):
        case.commit(epoch)
    case.keeper.close()
    case.clock.advance(1)
    later = report(9, case.clock.now_ms(), run="another")
    case.checkpoint.progress.write([*case.reports[:2], later, {"batchId": 0}])
    assert case.epochs() == 6


def test_since_when(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.keeper.mark("started", "behind epoch -1")
    for epoch in range(5):
        case.commit(epoch)
    case.keeper.close()
    told = history(case.checkpoint, since_ms=case.clock.now_ms() - 2_000)
    assert [start + length for start, length in zip(told.starts_ms, told.lengths_ms, strict=True)]
    assert len(told.starts_ms) == 3
    assert told.marks == ()
    assert len(history(case.checkpoint).marks) == 1
    assert history(case.checkpoint, since_ms=NOW_MS + 10**9).to_dict()["starts_ms"] == []


def test_nothing_yet(tmp_path: Path) -> None:
    told = history(Checkpoint(str(tmp_path)))
    assert (told.starts_ms, told.marks) == ((), ())
    assert told.series["lag"].unit == "offsets"


def test_who_does_not_own_the_checkpoint_writes_nothing(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.owns = False
    case.commit(0)
    case.keeper.close()
    assert case.checkpoint.history.read().last is None


def test_it_is_not_written_more_often_than_said(tmp_path: Path) -> None:
    case, written = Case(tmp_path), []
    write = case.checkpoint.history.write
    case.checkpoint.history.write = lambda data: (written.append(data), write(data))  # type: ignore
    for epoch in range(int(3 * WRITE_EVERY_S)):
        case.commit(epoch)
    case.keeper.close()
    assert 1 <= len(written) <= 4


def test_a_history_of_a_newer_engine_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import gzip

    newer = gzip.compress(b'{"version":2}\n')
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress/history").write_bytes(newer)
    case = Case(tmp_path)
    case.commit(0)
    case.keeper.close()
    assert (tmp_path / "progress/history").read_bytes() == newer
    assert "no history is kept: The history is of version 2" in caplog.text

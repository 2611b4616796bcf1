"""What a progress report tells of an epoch."""

from __future__ import annotations

from typing import Any

from engine.base.json_text import EXCERPT_CHARACTERS
from engine.progress.counters import EpochCounters
from engine.progress.report import (
    EpochTimes,
    QueryIdentity,
    Restarts,
    StreamProgress,
    epoch_progress,
)


def told(start: Any, end: Any, **rest: Any) -> dict[str, Any]:
    """What the report tells of the only source."""
    report = epoch_progress(
        QueryIdentity("id", "run", None, "noop"),
        0,
        [StreamProgress("tail[in]", start, end, (), **rest)],
        EpochTimes(0, 1, 2),
        {},
        Restarts(),
    )
    source: dict[str, Any] = report["sources"][0]
    return source


def test_the_wait_for_a_common_commit_is_no_work() -> None:
    counters = EpochCounters(rows_read=100, rows_written=100)
    steps = {"prepare": 3, "walCommit": 2, "commitSink": 30, "commitOffsets": 1}
    wait_ms = 58_000

    def report(committed_ms: int, duration_ms: dict[str, int]) -> dict[str, Any]:
        return epoch_progress(
            QueryIdentity("id", "run", None, "delta"),
            0,
            [StreamProgress("rate", None, 1, (counters,))],
            EpochTimes(1000, 1050, committed_ms),
            duration_ms,
            Restarts(),
        )

    at_once = report(1100, steps)
    waited = report(1100 + wait_ms, {**steps, "commitWait": wait_ms})
    assert at_once["processedRowsPerSecond"] == 1000
    assert waited["latencyMs"].pop("epochEndToCommitted") == 50 + wait_ms
    assert at_once["latencyMs"].pop("epochEndToCommitted") == 50
    assert waited["durationMs"].pop("commitWait") == wait_ms
    assert waited == at_once


def test_offsets_are_told_as_spark_does() -> None:
    source = told(None, {"0": 3, "caf\u00e9": [None, "x"]})
    assert source["startOffset"] is None
    assert source["endOffset"] == '{"0":3,"caf\\u00e9":[null,"x"]}'


def test_a_long_offset_is_cut() -> None:
    """Reports are kept and written by the hundred, whether or not anything is read."""
    files = {f"f{number:05}.log": number for number in range(10_000)}
    source = told(files, files)
    for offset in (source["startOffset"], source["endOffset"]):
        assert len(offset) == EXCERPT_CHARACTERS + len("...")
        assert offset.startswith('{"f00000.log":0,"f00001.log":1,')
        assert offset.endswith("...")


def test_an_offset_of_the_greatest_length_is_whole() -> None:
    longest = "x" * (EXCERPT_CHARACTERS - 2)
    assert told(longest, f"{longest}x") == {
        **told(None, None),
        "startOffset": f'"{longest}"',
        "endOffset": f'"{longest}x...',
    }


def test_a_source_that_is_not_known_to_end_has_no_lag() -> None:
    source = told(None, {"0": 3})
    assert (source["latestOffset"], source["lag"], source["metrics"]) == (None, None, {})


def test_lag_is_told_by_partition_and_as_spark_does() -> None:
    known_end = {"orders": {"0": 5, "1": 9}}
    source = told(None, {}, known_end=known_end, lag={"orders": {"0": 1, "1": 4}})
    assert source["latestOffset"] == '{"orders":{"0":5,"1":9}}'
    assert source["lag"] == '{"orders":{"0":1,"1":4}}'
    assert source["metrics"] == {
        "avgOffsetsBehindLatest": "2.5",
        "maxOffsetsBehindLatest": "4",
        "minOffsetsBehindLatest": "1",
    }

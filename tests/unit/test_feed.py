"""The demo's feeder: real departures, whole lines, the rate that was asked for."""

from __future__ import annotations

import json
import threading
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.base.clock import ManualClock
from flights.feed import Departure, FeedError, departures, feed, main, paced
from tests.waiting import wait_until

LINES = [Departure("2013-01-01", '{"a":1}'), Departure("2013-01-01", '{"a":2}')]
LINES += [Departure("2013-01-02", '{"a":3}')]


def test_the_departures_are_in_order_of_time() -> None:
    every = list(islice(departures(), 30_000))
    days = [departure.day for departure in every]
    assert days == sorted(days)
    assert days[-1] == "2013-02-04", "January is followed by February, not by October"
    first = json.loads(every[0].line)
    assert first == {
        "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515,
        "dep_delay": 2, "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11,
        "carrier": "UA", "flight": 1545, "tailnum": "N14228", "origin": "EWR", "dest": "IAH",
        "air_time": 227, "distance": 1400, "hour": 5, "minute": 15,
        "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip
    cancelled = [d for d in every[:1000] if '"dep_time":null' in d.line]
    assert len(cancelled) == 4, "those that never left have null, not NA"


def test_one_file_per_day_one_line_per_departure(tmp_path: Path) -> None:
    assert feed(LINES, tmp_path / "in", rows_per_second=10_000) == 3
    files = {path.name: path.read_text() for path in (tmp_path / "in").glob("*.jsonl")}
    assert files == {
        "2013-01-01.jsonl": '{"a":1}\n{"a":2}\n',
        "2013-01-02.jsonl": '{"a":3}\n',
    }


def test_the_rate_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a clock that only the feeder's own pauses move: a line comes with the pause in which it
    is due."""
    clock, pauses_s = ManualClock(), list[float]()

    class Stopped(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            pauses_s.append(timeout)
            clock.advance(timeout)
            return False

    monkeypatch.setattr("flights.feed.time", SimpleNamespace(monotonic=clock.monotonic_s))
    lines = [Departure("2013-01-01", "{}")] * 101
    for count, _ in enumerate(paced(lines, 500, Stopped())):
        assert 0 <= clock.monotonic_s() - count / 500 <= max(pauses_s, default=0)
    assert count == 100
    assert max(pauses_s) <= 0.1


def test_lines_can_be_read_while_the_feeder_waits(tmp_path: Path) -> None:
    stopped, written = threading.Event(), []
    feeder = threading.Thread(
        target=lambda: written.append(feed(LINES, tmp_path, 0.001, stopped)), daemon=True
    )
    feeder.start()
    path = tmp_path / "2013-01-01.jsonl"
    wait_until(lambda: path.exists() and path.read_text() == '{"a":1}\n', "the first line")
    stopped.set()
    feeder.join(timeout=60)
    assert written == [1]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "2013-01-02.jsonl").write_text("precious")
    with pytest.raises(FeedError, match=r"2013-01-02\.jsonl cannot be written: File exists"):
        feed(LINES, tmp_path, 10_000)
    assert (tmp_path / "2013-01-02.jsonl").read_text() == "precious"


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flights.feed.departures", lambda: iter(LINES))
    arguments = ["--output", str(tmp_path), "--rows-per-second", "1000", "--limit", "2"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"2 departures written to {tmp_path}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2013-01-01.jsonl", "_SUCCESS"]
    assert main(arguments) == 1
    assert "File exists" in capsys.readouterr().err

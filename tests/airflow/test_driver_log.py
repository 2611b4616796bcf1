"""A driver's log is shown as it grows, a limited piece at a time."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_continuous.deploy.driver_log import BYTES_MAX, LINES_MAX, DriverLog


def test_a_log_that_is_not_here_has_no_lines() -> None:
    assert DriverLog(Path("/no/such/file")).new_lines() == []


def test_new_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = DriverLog(path)
    path.write_text("one\ntwo\nthr")

    assert log.new_lines() == ["one", "two"]
    path.write_text("one\ntwo\nthree password=hush\nlast")
    assert log.new_lines() == ["three password=***"]
    assert DriverLog(path, log.position).new_lines(ended=True) == ["last"]
    assert log.new_lines() == []


def test_a_look_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = DriverLog(path)
    path.write_text("".join(f"{number:05}\n" for number in range(1000)))

    told, *lines = log.new_lines()

    assert told == f"... {6 * (1000 - LINES_MAX):,} bytes left out, see {path}"
    assert lines == [f"{number:05}" for number in range(1000 - LINES_MAX, 1000)]
    path.write_text("x" * 10 * BYTES_MAX + "\nthe end\n")
    told, *lines = log.new_lines()
    assert lines == ["the end"]
    assert "bytes left out" in told
    assert log.position == path.stat().st_size

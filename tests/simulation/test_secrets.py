"""Errors of others carry secrets; none of them gets to where people read."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.commands import command_line
from engine.errors import ContinuousError, SinkError, SourceError
from engine.redaction.logs import RedactingFormatter
from engine.spark.failure import describe_error
from engine.task.loop import TaskDismissed
from tests.model import HOUR_MS, ModelReader
from tests.simulation.story import WAIT_S, Story

SECRET = "hunter2"
LEAKS = [
    f"could not connect to postgresql://ann:{SECRET}@db:5432/shop",
    f"connect(host='db', password='{SECRET}') failed",
    f"401 for Authorization: Bearer {SECRET}{SECRET}",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
]


@pytest.fixture
def nothing_leaks(story: Story, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a test has let the engine write, and log, is looked at when it has ended."""
    caplog.set_level(logging.DEBUG)
    yield
    assert SECRET not in "".join(record.getMessage() for record in caplog.get_records("call"))
    assert not any(record.exc_info for record in caplog.get_records("call"))
    for path in story.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def told(query: Any) -> str:
    """All that the handle tells."""
    return json.dumps([query.status, query.lastProgress, query.recentProgress])


@pytest.mark.parametrize("leak", LEAKS)
def test_a_source_that_fails(story: Story, leak: str, nothing_leaks: None) -> None:
    query = story.start(retry_source_for_ms=HOUR_MS)
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(0, 0)] = ConnectionError(leak)
    story.feed.add(5)
    story.await_rows(query, 10)
    query.drain(WAIT_S)
    assert "ConnectionError" in told(query), "the error itself is told"
    assert SECRET not in told(query)
    assert "ConnectionError" in (story.folder / "progress/recent").read_text()
    assert "ConnectionError" in (story.folder / "control/lease").read_text()


@pytest.mark.parametrize("leak", LEAKS)
def test_a_sink_that_fails_for_good(story: Story, leak: str, nothing_leaks: None) -> None:
    story.sink.fail_commit[0] = ConnectionError(leak)
    query = story.start()
    with pytest.raises(SinkError) as caught:
        query.awaitTermination(WAIT_S)
    assert SECRET not in told(query) + str(caught.value) + repr(caught.value)
    assert SECRET not in describe_error(caught.value)
    assert "ConnectionError" in (story.folder / "control/lease").read_text()


@pytest.mark.parametrize("where", ["latestEpoch", "abort", "source commit", "source stop"])
def test_connectors_that_fail_before_and_after(
    story: Story, where: str, monkeypatch: pytest.MonkeyPatch, nothing_leaks: None
) -> None:
    def failing(*_: Any) -> Any:
        raise ConnectionError(LEAKS[0])

    if where == "latestEpoch":
        story.sink.latestEpoch = failing  # type: ignore[attr-defined]
        with pytest.raises(SinkError):
            story.start()
        return
    if where == "abort":
        monkeypatch.setattr(story.sink, "abort", failing)
    else:
        monkeypatch.setattr(ModelReader, where.removeprefix("source "), failing)
    query = story.start(retry_infrastructure_for_ms=HOUR_MS)
    query.awaitEpoch(0, WAIT_S)
    story.feed.faults[(0, 0)] = TaskDismissed()
    story.feed.add(5)
    story.await_rows(query, 10)
    query.stop()
    assert SECRET not in told(query)


def test_a_commit_that_dies(story: Story, nothing_leaks: None) -> None:
    story.sink.fail_commit[0] = SystemExit(LEAKS[0])  # type: ignore[assignment]
    with pytest.raises(ContinuousError) as caught:
        story.start().awaitTermination(WAIT_S)
    assert SECRET not in str(caught.value)


def test_the_lease_shows_nothing_whoever_writes_it(story: Story, nothing_leaks: None) -> None:
    """Of a query that Spark runs it has Spark's own message."""
    query = story.start()
    attempt = query._execution._attempt
    assert attempt is not None
    assert attempt.lease is not None
    attempt._keeper.stop()  # type: ignore[union-attr]
    attempt.lease.heartbeat(message=LEAKS[0], last_error=LEAKS[1])
    assert "ann:***@db" in (story.folder / "control/lease").read_text()
    query.stop()


def test_commands_and_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(args: Any) -> Any:
        try:
            raise ConnectionError(LEAKS[0])
        except ConnectionError as exc:
            raise SourceError(f"The source failed: {exc}") from exc

    monkeypatch.setattr("engine.commands.status.status", failing)
    for more in ([], ["--json"], ["--debug"]):
        assert command_line.main(["status", str(tmp_path), *more]) == 1
    output = "".join(capsys.readouterr())
    assert "ann:***@db" in output
    assert "Traceback" in output
    assert SECRET not in output


@pytest.mark.parametrize("leak", LEAKS)
def test_what_libraries_log_in_the_process_of_a_query(leak: str) -> None:
    record = logging.makeLogRecord({"msg": "failed with %s", "args": (leak,)})
    try:
        raise ConnectionError(leak)
    except ConnectionError:
        record.exc_info = sys.exc_info()
    shown = RedactingFormatter("%(message)s").format(record)
    assert "ConnectionError" in shown
    assert SECRET not in shown

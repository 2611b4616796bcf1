"""``epochs --follow``: epochs as they are committed, in order, each once, until the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import ManualClock, SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from engine.commands.command_line import main
from engine.commands.follow_epochs import POLL_S, REPORT_S, followed
from engine.errors import CheckpointError

Step = Callable[[], Any]


class Query:
    """One that runs as the test says."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = Checkpoint(str(folder))
        self.checkpoint.create_or_read_query_id("query-1")
        self.lease = Lease.acquire(self.checkpoint, run_id="run-1")
        self.reports: list[dict[str, Any]] = []

    def commit(self, epoch: int) -> None:
        self.checkpoint.offsets.add(epoch, OffsetEntry(({"0": 10 * epoch},)))
        self.checkpoint.commits.add(epoch, CommitEntry(0))

    def report(self, *epochs: int) -> None:
        self.reports += [{"batchId": epoch, "numInputRows": 10} for epoch in epochs]
        self.checkpoint.progress.write(self.reports)

    def end(self, state: QueryState = QueryState.STOPPED, error: str | None = None) -> None:
        self.lease.release(state, error=error)


class Script(ManualClock):
    """Each pause is the next step of the story."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.steps = list(steps)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.steps:
            self.steps.pop(0)()


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "checkpoint")


def told(query: Query, last: int, *steps: Step) -> list[tuple[int, int | None]]:
    rows = followed(query.checkpoint, last, Script(*steps))
    return [(row["epoch"], row["rows"]) for row in rows]


def test_the_last_ones_and_then_each_as_it_commits(query: Query) -> None:
    for epoch in range(4):
        query.commit(epoch)
    query.report(*range(4))

    def two_more() -> None:
        query.commit(4)
        query.commit(5)
        query.report(4, 5)

    assert told(query, 2, two_more, query.end) == [(2, 10), (3, 10), (4, 10), (5, 10)]


def test_a_report_is_waited_for_and_the_order_kept(query: Query) -> None:
    def second() -> None:
        query.commit(1)
        query.reports = [{"batchId": 1, "numInputRows": 7}]
        query.report()

    def first_told() -> None:
        query.reports.insert(0, {"batchId": 0, "numInputRows": 3})
        query.report()

    found = told(query, 1, lambda: query.commit(0), second, first_told, query.end)
    assert found == [(0, 3), (1, 7)]


def test_one_without_a_report_is_told_all_the_same(query: Query) -> None:
    query.commit(0)
    waits = [lambda: None] * round(REPORT_S / POLL_S + 1)
    rows = followed(query.checkpoint, 5, clock := Script(*waits))
    assert next(rows)["rows"] is None
    assert clock.monotonic_s() >= REPORT_S
    query.commit(1)
    query.end()
    assert [row["epoch"] for row in rows] == [1], "nothing is waited for behind the end"


def test_those_that_have_no_report_any_more_are_not_waited_for(query: Query) -> None:
    for epoch in range(40):
        query.commit(epoch)
    query.report(38, 39)
    rows = followed(query.checkpoint, 30, clock := Script())
    assert [next(rows)["epoch"] for _ in range(30)] == list(range(10, 40))
    assert clock.monotonic_s() == 0


def test_where_nothing_is_reported_it_does_not_fall_behind(query: Query) -> None:
    """As where Spark itself writes the checkpoint."""
    for epoch in range(5):
        query.commit(epoch)
    commits = [lambda epoch=epoch: query.commit(epoch) for epoch in range(5, 40)]
    rows = followed(query.checkpoint, 5, Script(*commits))  # one with each look
    assert [next(rows)["epoch"] for _ in range(26)] == list(range(26))
    assert query.checkpoint.committed_epoch() <= 25 + REPORT_S / POLL_S + 1


def test_what_retention_removes_meanwhile_is_passed_over(query: Query) -> None:
    query.commit(0)
    query.report(0)

    def purge() -> None:
        for epoch in (1, 2, 3):
            query.commit(epoch)
        query.report(1, 2, 3)
        for log in (query.checkpoint.commits, query.checkpoint.offsets):
            log.purge(3)

    assert told(query, 1, purge, query.end) == [(0, 10), (3, 10)]


def test_a_storage_that_is_away_for_a_while(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    folder = Path(query.checkpoint.url)
    aside = folder.with_name("aside")
    query.commit(0)
    query.report(0)

    def away() -> None:
        folder.rename(aside)
        folder.symlink_to(folder)  # in circles: every look fails

    def back() -> None:
        folder.unlink()
        aside.rename(folder)
        query.commit(1)
        query.report(1)

    assert told(query, 1, away, lambda: None, back, query.end) == [(0, 10), (1, 10)]
    assert caplog.text.count("Too many levels of symbolic links") == 1
    assert "asked again" in caplog.text


@pytest.mark.parametrize(
    ("state", "error", "code"),
    [(QueryState.STOPPED, None, 0), (QueryState.FAILED, "The sink is full.", 1)],
)
def test_how_the_query_has_ended_is_told(
    query: Query,
    capsys: pytest.CaptureFixture[str],
    state: QueryState,
    error: str | None,
    code: int,
) -> None:
    query.commit(0)
    query.report(0)
    query.end(state, error)
    where = query.checkpoint.url
    assert main(["epochs", where, "--follow"]) == code
    head, line, last = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "epoch"
    assert line.split()[0] == "0"
    assert last.startswith(f"The query is {state}, last committed epoch 0.")
    assert error is None or error in last
    assert main(["epochs", where, "--follow", "--json"]) == code
    epoch, status = map(json.loads, capsys.readouterr().out.splitlines())
    assert (epoch["epoch"], epoch["rows"], epoch["offsets"]) == (0, 10, [{"0": 0}])
    assert (status["state"], status["error"]) == (state.value, error)


def test_ctrl_c_is_an_end(
    query: Query, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query.commit(0)
    query.report(0)

    def interrupt(self: SystemClock, seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "sleep", interrupt)
    assert main(["epochs", query.checkpoint.url, "--follow"]) == 0
    assert "The query is STARTING, last committed epoch 0." in capsys.readouterr().out
    query.end()


def test_what_spark_writes_is_told_at_once(query: Query) -> None:
    query.commit(0)
    query.commit(1)
    shutil.rmtree(query.checkpoint.storage.path("control"))
    assert query.checkpoint.status().state is QueryState.UNKNOWN
    rows = followed(query.checkpoint, 1, clock := Script())
    assert next(rows)["epoch"] == 1
    assert clock.monotonic_s() == 0, "no report is waited for"


def test_a_checkpoint_that_is_removed_is_told(query: Query) -> None:
    query.commit(0)
    rows = followed(
        query.checkpoint, 1, Script(lambda: shutil.rmtree(query.checkpoint.storage.path("")))
    )
    query.report(0)
    assert next(rows)["epoch"] == 0
    with pytest.raises(CheckpointError, match="is gone, or was emptied"):
        next(rows)

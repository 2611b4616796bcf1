"""``continuous top`` on real checkpoints, beside queries that run on threads."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Sparkline

from engine.base.clock import SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.find import Folder
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import OwnNote
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.commands.command_line import main
from engine.commands.terminal import looks, query_screen
from engine.commands.terminal.app import TopApp
from engine.commands.terminal.confirm import ConfirmScreen
from engine.commands.terminal.looks import Looks, QueryLook
from engine.commands.terminal.query_screen import QueryScreen
from engine.commands.terminal.query_table import QueryTable
from engine.errors import CheckpointError
from engine.query.handle import ContinuousQuery
from tests.simulation.story import WAIT_S, Story, await_status
from tests.simulation.terminals import Terminal, driven, label, shown, until
from tests.unit.leases import held_by
from tests.waiting import wait_until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Story, ContinuousQuery]]:
    """A query that runs, in the folder ``orders`` below the root."""
    story = Story(tmp_path / "root" / "orders")
    query = story.start(lease_heartbeat_ms=500)  # no pause of the machine makes it look lost
    story.feed.add(10)
    story.await_rows(query, 20)
    await_status(story, lambda status: status.state == "RUNNING")  # by its second heartbeat
    yield story, query
    query.stop()


def test_all_queries_below_a_root_are_live(running: tuple[Story, ContinuousQuery]) -> None:
    story, query = running
    ended = Checkpoint(str(story.folder.parent / "ended"))
    ended.create_or_read_query_id("q")
    ended.storage.create("offsets/0", b"v1\n\n3")
    ended.storage.create("commits/0", b"v1\n{}")

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(shown(pilot)) == 2, "two queries")
        await until(pilot, lambda: any(row[1] == "RUNNING" for row in shown(pilot)), "it runs")
        first, second = shown(pilot)
        assert (first[0], first[1], first[2], first[-1]) == ("ended", "UNKNOWN", "0", ended.url)
        assert second[0] == "model", "the query's own name"
        assert second[7] == "0"
        epoch = query.status["epoch"]
        await until(
            pilot, lambda: int(shown(pilot)[1][2].replace(",", "")) > epoch, "the next epochs"
        )

    driven([str(story.folder.parent)], steps)


def test_queries_are_ordered_and_searched(tmp_path: Path) -> None:
    for name, lag in (("a", 5), ("b", 70), ("c", None)):
        made = Checkpoint(str(tmp_path / name))
        made.create_or_read_query_id(name)
        source = {"lagTotal": lag} if lag is not None else {}
        made.progress.write([{"batchId": 0, "runId": "r", "name": name, "sources": [source]}])
        made.storage.create("offsets/0", b"v1\n\n3")
        made.storage.create("commits/0", b"v1\n{}")

    async def steps(pilot: Pilot[None]) -> None:
        def names() -> list[str]:
            return [row[0] for row in shown(pilot)]

        def under_the_cursor() -> str:
            return names()[pilot.app.screen_stack[0].query_one(QueryTable).cursor]

        await until(pilot, lambda: [row[5] for row in shown(pilot)] == ["5", "70", "-"], "the lags")
        assert under_the_cursor() == "a"
        await pilot.press("o", "o")
        assert names() == ["b", "a", "c"]
        assert under_the_cursor() == "a"
        assert pilot.app.sub_title == "3 of 3, by lag"
        await pilot.press("slash", "/", "C", "enter")
        await until(pilot, lambda: names() == ["c"], "what was searched")
        await pilot.press("slash", "q", "q", "enter")
        await until(pilot, lambda: not names(), "nothing is like that")
        assert "None of 3 queries has 'qq'" in label(pilot, "message")
        await pilot.press("escape")
        await until(pilot, lambda: names() == ["b", "a", "c"], "all")

    driven([str(tmp_path)], steps)


def test_a_query_that_runs_is_looked_at_by_one_read(
    running: tuple[Story, ContinuousQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, _ = running
    wait_until(lambda: looks.look(str(story.folder)).committed_at_ms, "the next heartbeat", WAIT_S)
    read: list[str] = []
    asked = LocalStorage.read

    def counted(storage: LocalStorage, name: str, *more: Any) -> bytes:
        if threading.current_thread() is threading.main_thread():
            read.append(name)
        return asked(storage, name, *more)

    monkeypatch.setattr(LocalStorage, "read", counted)
    found = looks.look(str(story.folder))
    assert (found.name, found.state) == ("model", "RUNNING")
    assert found.committed_at_ms is not None
    assert read == ["control/lease"]


def test_charts_of_a_query(running: tuple[Story, ContinuousQuery]) -> None:
    story, _ = running

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot), "the query")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueryScreen), "its charts")
        story.feed.add(10)
        await until(
            pilot, lambda: "rows/s, at most" in label(pilot, "label-rows_in_per_second"), "rates"
        )
        chart = pilot.app.screen.query_one("#chart-rows_in_per_second", Sparkline)
        await until(pilot, lambda: chart.data and max(chart.data) > 0, "a line")
        assert "ms, at most" in label(pilot, "label-latency_p99")
        assert "started" in label(pilot, "marks")
        assert "The last 5 min" in label(pilot, "facts")
        await pilot.press("4")
        await until(pilot, lambda: "The last 7 d" in label(pilot, "facts"), "a week")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, QueryScreen), "the list")

    driven([str(story.folder)], steps)


@pytest.mark.parametrize("left", ["screen", "program"])
def test_charts_are_left_while_their_history_is_read(
    running: tuple[Story, ContinuousQuery], monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    story, _ = running
    asked, answer, answered = threading.Event(), threading.Event(), threading.Event()
    really_read = query_screen.history

    def slow(*given: Any) -> Any:
        asked.set()
        answer.wait(WAIT_S)
        answered.set()
        return really_read(*given)

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot), "the query")
        monkeypatch.setattr(query_screen, "history", slow)
        await pilot.press("enter")
        await until(pilot, asked.is_set, "it reads")
        if left == "program":
            pilot.app.exit()
            answer.set()
            return
        screen = pilot.app.screen
        await pilot.press("escape")
        await until(pilot, lambda: not screen.query("#facts"), "it is taken down")
        assert isinstance(screen, QueryScreen)
        screen._show("what comes before its workers are ended", 0, 1)
        answer.set()
        await until(pilot, answered.is_set, "it has read")

    driven([str(story.folder)], steps)


def test_nothing_is_shown_while_a_screen_is_taken_down(
    running: tuple[Story, ContinuousQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, _ = running
    left: list[str] = []

    def parts_are_gone(screen: QueryScreen) -> None:
        assert screen.is_attached
        assert not screen.query("#facts")
        screen._show("what a worker has read until now", 0, 1)
        left.append("screen")

    def all_is_gone(app: TopApp) -> None:
        app._show(())
        left.append("program")

    monkeypatch.setattr(QueryScreen, "on_unmount", parts_are_gone, raising=False)
    monkeypatch.setattr(TopApp, "on_unmount", all_is_gone, raising=False)

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot), "the query")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueryScreen), "its charts")
        await pilot.press("escape")
        await until(pilot, lambda: left == ["screen"], "it is taken down")

    driven([str(story.folder)], steps)
    assert left == ["screen", "program"]


@pytest.mark.parametrize(
    ("key", "kind", "where"), [("d", "drain", "list"), ("s", "stop", "charts")]
)
def test_a_query_ends_only_if_that_is_confirmed(
    running: tuple[Story, ContinuousQuery], key: str, kind: str, where: str
) -> None:
    story, query = running

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot) and shown(pilot)[0][1] == "RUNNING", "it runs")
        if where == "charts":
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, QueryScreen), "its charts")
        for answer in ("n", "escape"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen), "a question")
            await pilot.press(answer)
            await until(pilot, lambda: not isinstance(pilot.app.screen, ConfirmScreen), "no more")
        assert not (story.folder / f"control/requests/{kind}").exists()
        assert query.isActive
        await pilot.press(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen), "a question")
        await pilot.press("y")
        await until(pilot, lambda: shown(pilot)[0][1] == "STOPPED", "the end")
        await pilot.press(key)
        await pilot.pause()
        assert not isinstance(pilot.app.screen, ConfirmScreen), "there is nothing to end"

    driven([str(story.folder)], steps)
    assert story.checkpoint.status().state is QueryState.STOPPED
    assert query.awaitTermination(WAIT_S), "the lease tells the end a moment before"


def test_a_query_that_spark_runs_alone_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(str(tmp_path / "orders"))
    checkpoint.create_or_read_query_id("orders")
    assert checkpoint.offsets.add(0, OffsetEntry(({"0": 1},)))
    assert checkpoint.commits.add(0, CommitEntry())
    told: list[str] = []
    monkeypatch.setattr(TopApp, "notify", lambda app, text, **_: told.append(text))

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot) and shown(pilot)[0][1] == "UNKNOWN", "it is seen")
        await pilot.press("d")
        await until(pilot, lambda: any("query.stop()" in text for text in told), "what to do")

    driven([str(tmp_path)], steps)


def test_the_standby_of_a_lost_query_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(str(tmp_path / "orders"))
    checkpoint.create_or_read_query_id("orders")
    lease = Lease.acquire(checkpoint, run_id="run")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as killed:
        held_by(checkpoint, lease, Process.of(killed.pid))
    assert checkpoint.status().state is QueryState.LOST
    told: list[str] = []
    monkeypatch.setattr(TopApp, "notify", lambda app, text, **_: told.append(text))

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot) and shown(pilot)[0][1] == "LOST", "it is lost")
        await pilot.press("d")
        await until(pilot, lambda: told == ["No run holds the checkpoint."], "there is nobody")
        OwnNote(checkpoint.storage, SystemClock()).tell()
        await pilot.press("d")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen), "a question")
        await pilot.press("y")
        await until(pilot, lambda: "orders was asked to drain." in told, "the request")

    driven([str(tmp_path)], steps)
    assert checkpoint.requests.pending("run") == "drain"


def test_a_small_screen_has_the_whole_question(tmp_path: Path) -> None:
    async def drive() -> None:
        app = TopApp([str(tmp_path)])
        async with app.run_test(size=(40, 12)) as pilot:
            await app.push_screen(ConfirmScreen("stop", "orders"))
            await pilot.pause()
            question = app.screen.query_one("#question")
            assert app.screen.region.contains_region(question.region), question.region

    asyncio.run(drive())


def test_one_that_cannot_be_read_darkens_only_itself(
    running: tuple[Story, ContinuousQuery],
) -> None:
    story, _ = running
    broken = story.folder.parent / "broken"
    (broken / "control/generations").mkdir(parents=True)
    (broken / "metadata").write_bytes(b"{")

    async def steps(pilot: Pilot[None]) -> None:
        await until(
            pilot,
            lambda: sorted(row[1] for row in shown(pilot)) == ["RUNNING", "UNREADABLE"],
            "both of them",
        )
        await until(pilot, lambda: "not the metadata" in label(pilot, "message"), "its reason")

    driven([str(story.folder.parent)], steps)


def test_a_folder_without_checkpoints_says_so(tmp_path: Path) -> None:
    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "no checkpoint in" in label(pilot, "message"), "a word")

    driven([str(tmp_path)], steps)


def test_who_does_not_answer_keeps_no_other_waiting(
    running: tuple[Story, ContinuousQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, _ = running
    let_go, look = threading.Event(), looks.look

    def hang(location: str) -> QueryLook:
        if location.endswith("slow"):
            assert let_go.wait(WAIT_S)
        return look(location)

    monkeypatch.setattr(looks, "look", hang)
    monkeypatch.setattr(looks, "STALE_S", 0.0)
    slow = Checkpoint(str(story.folder.parent / "slow"))
    slow.create_or_read_query_id("q")
    slow.storage.create("offsets/0", b"v1\n\n3")
    seen = Looks([str(story.folder.parent)])
    states: dict[str, str] = {}
    deadline_s = SystemClock().monotonic_s() + WAIT_S
    while states != {"model": "RUNNING", "slow": "NO ANSWER"}:
        assert SystemClock().monotonic_s() < deadline_s, states
        states = {each.name: each.state for each in seen.refresh(0.5)}
    let_go.set()


@pytest.mark.parametrize("error", [CheckpointError("Cannot list it."), KeyError("of a client")])
def test_a_place_that_cannot_be_listed_is_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    Checkpoint(str(tmp_path / "q")).create_or_read_query_id("q")
    (tmp_path / "q" / "offsets").mkdir(exist_ok=True)
    opened = Folder.open

    def fail(top: str, *more: Any) -> Folder:
        if top.startswith("s3:"):
            raise error
        return opened(top, *more)

    monkeypatch.setattr(Folder, "open", fail)
    (found, other) = Looks(["s3://bucket", str(tmp_path)]).whole(WAIT_S)
    assert found.location == "s3://bucket"
    assert found.state == "UNREADABLE"
    assert str(error) in str(found.error)
    assert other.name == "q"


def test_a_query_whose_storage_fails_in_its_own_way_is_unreadable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(location: str) -> Checkpoint:
        raise KeyError("of a client")

    Checkpoint(str(tmp_path / "q")).create_or_read_query_id("q")
    monkeypatch.setattr(looks, "Checkpoint", fail)
    seen = looks.look(str(tmp_path / "q"))
    assert (seen.state, seen.error) == ("UNREADABLE", "KeyError: 'of a client'")


def test_without_a_terminal_it_says_what_to_use(
    running: tuple[Story, ContinuousQuery], capsys: pytest.CaptureFixture[str]
) -> None:
    story, _ = running
    assert main(["top", str(story.folder)]) == 2
    told = capsys.readouterr().err
    assert "top needs a terminal" in told
    assert "continuous top --json" in told
    assert main(["top", "--json", str(story.folder.parent)]) == 0
    (found,) = json.loads(capsys.readouterr().out)["queries"]
    assert (found["name"], found["state"], found["restarts"]) == ("model", "RUNNING", 0)
    assert found["location"] == str(story.folder)


def test_without_its_package_it_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    for module in [name for name in sys.modules if name.startswith("engine.commands.terminal.app")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    assert main(["top", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "top needs the package textual" in told
    assert "pip install 'airflow-provider-continuous[top]'" in told


def test_in_a_real_terminal(running: tuple[Story, ContinuousQuery]) -> None:
    story, query = running
    with Terminal(story.folder.parent) as top:
        top.read_until(top.sees("RUNNING"), "the list")
        top.press(b"\r")
        top.read_until(top.sees("latency p99:"), "the charts")
        top.forget()
        top.press(b"\x1b")
        # What the list alone has: a key right behind the escape would be another one.
        top.read_until(top.sees("p99 ms"), "the list again")
        top.press(b"d")
        top.read_until(top.sees("drain it"), "the question")
        top.press(b"y")
        top.read_until(lambda: not query.isActive, "the drain")
        top.read_until(top.sees("STOPPED"), "the end of the query")
        top.press(b"q")
        top.await_end()
    assert story.sink.assert_exactly_once(2) == 20


def test_it_ends_while_storage_hangs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made = Checkpoint(str(tmp_path / name))
        made.create_or_read_query_id(name)
        made.storage.create("offsets/0", b"v1\n\n3")
        made.storage.create("commits/0", b"v1\n{}")
    # To open a pipe that nobody writes to is to wait.
    for hanging in ("a/progress/history", "b/control/lease"):
        (tmp_path / hanging).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / hanging)
    with Terminal(tmp_path) as top:
        top.read_until(top.sees("NO ANSWER"), "one that hangs")
        top.press(b"\r")
        top.read_until(top.sees("has not answered yet"), "a history that hangs")
        top.press(b"q")
        top.await_end()

"""``continuous top`` of many queries."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from textual.pilot import Pilot
from textual.widgets import Footer

from engine.base.clock import Clock, ManualClock
from engine.checkpoint import find
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.commands import top
from engine.commands.command_line import main
from engine.commands.terminal import app, looks, query_table
from engine.commands.terminal.app import TopApp
from engine.commands.terminal.looks import Looks, QueryLook
from engine.commands.terminal.query_table import QueryTable
from tests.simulation.story import WAIT_S
from tests.simulation.terminals import driven, label, shown, until
from tests.waiting import wait_until

ORDERS_ROW = ["orders", "UNKNOWN", "0"]


def driven_small(
    steps: Callable[[Pilot[None], TopApp], Coroutine[Any, Any, None]], clock: Clock | None = None
) -> None:
    """Do these steps on a screen of 24 lines, whose list is what they show."""

    class Shown(TopApp):
        def refresh_looks(self) -> None:
            """Nobody looks."""

    async def drive() -> None:
        app = Shown(["nowhere"], clock)
        async with app.run_test(size=(90, 24)) as pilot:
            await steps(pilot, app)

    asyncio.run(drive())


def test_more_queries_than_lines_leave_room_for_filter_and_error() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        app._show([QueryLook(f"/{number}", "q", error="It is gone.") for number in range(100)])
        await pilot.press("slash")
        await until(pilot, lambda: "It is gone." in label(pilot, "message"), "why")
        await pilot.pause()
        lines = range(1, app.screen.query_one(Footer).region.y)
        for name in ("filter", "message"):
            region = app.screen.query_one(f"#{name}").region
            assert region.height, name
            assert {region.y, region.bottom - 1} <= set(lines), (name, region)

    driven_small(steps)


def test_the_cursor_stays_in_sight() -> None:
    """On a terminal that gets smaller, and above an error of several lines."""
    told = "one\ntwo\nthree\nfour"

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        table = app.screen.query_one(QueryTable)

        def in_sight() -> bool:
            first = round(table.scroll_y)
            return first <= table.cursor < first + table.size.height - 1

        app._show([QueryLook(f"/{at}", "q", error=told if at > 9 else None) for at in range(100)])
        for _ in range(20):
            await pilot.press("down")
            await until(pilot, in_sight, f"row {table.cursor}")
        await pilot.resize_terminal(80, 24)
        await until(pilot, in_sight, "80 columns")
        await pilot.resize_terminal(40, 10)
        await until(pilot, in_sight, "ten lines")
        await pilot.press("slash")
        await until(pilot, in_sight, "ten lines with a filter")
        assert table.size.height > 2, "rows beside that of the cursor"
        assert app.screen.query_one("#filter").size.height == 1

    driven_small(steps)


def test_a_list_costs_what_is_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    cells, clock = query_table.cells, ManualClock()

    def counted(found: QueryLook, now_ms: int) -> Sequence[tuple[str, str]]:
        drawn.append(found.location)
        return cells(found, now_ms)

    monkeypatch.setattr(query_table, "cells", counted)
    found = [
        QueryLook(f"/{number:04}", f"query {number}", committed_at_ms=10 * number)
        for number in range(10_000)
    ]

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        table = app.screen.query_one(QueryTable)
        for _ in range(5):
            clock.advance(1.0)
            app._show(found)
            await pilot.pause()
        assert {f"/{number:04}" for number in range(15)} <= set(drawn)
        await pilot.press("end")
        assert table.selected is found[-1]
        await pilot.press("pageup", "up", "home", "down", "pagedown", "x")
        assert 10 < table.cursor < 24
        await pilot.press("slash", *"9999")
        assert table.selected is found[-1]
        assert len(drawn) < 20 * 24 * 2, "screens of lines"

    driven_small(steps, clock)


def test_a_click_chooses_a_query_and_another_one_opens_it() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        app._show([QueryLook(f"/{number}", "q") for number in range(100)])
        await pilot.pause()
        table = app.screen.query_one(QueryTable)
        await pilot.click(QueryTable, offset=(3, 0))
        assert table.cursor == 0, "that is the header"
        await pilot.click(QueryTable, offset=(3, 6))
        assert table.cursor == 5
        assert len(app.screen_stack) == 1
        await pilot.click(QueryTable, offset=(3, 6))
        await until(pilot, lambda: len(app.screen_stack) == 2, "its charts")

    driven_small(steps)


def test_folders_that_are_not_looked_into_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        Checkpoint(str(tmp_path / f"{number}/data/checkpoint")).commits.add(0, CommitEntry())
        (tmp_path / f"{number}/data/checkpoint/offsets").mkdir()
    told = f"More than 9 folders in {tmp_path} are not looked into."
    monkeypatch.setattr(find, "FOLDERS_MAX", 10)
    assert main(["top", "--json", str(tmp_path)]) == 0
    assert len(json.loads(capsys.readouterr().out)["queries"]) == 3

    monkeypatch.setattr(find, "FOLDERS_MAX", 9)
    assert main(["top", "--json", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert told in printed.err
    place, *queries = json.loads(printed.out)["queries"]
    assert place["location"] == str(tmp_path)
    assert told in place["error"]
    assert len(queries) == 2

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: told in label(pilot, "message"), "what is missing")

    driven([str(tmp_path)], steps)


def test_an_empty_place_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["--json", ""], [".", ""]):
        assert main(["top", *given]) == 2
        assert "The checkpoint location is empty." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_place_that_is_no_folder_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    Checkpoint(str(tmp_path / "root/q")).create_or_read_query_id("q")
    (tmp_path / "root/q/offsets").mkdir(exist_ok=True)
    (tmp_path / "file").write_bytes(b"")
    place, told = str(tmp_path / name), f"There is no folder {tmp_path / name}."
    assert main(["top", "--json", str(tmp_path / "root"), place]) == 1
    printed = capsys.readouterr()
    assert told in printed.err
    query, missing = json.loads(printed.out)["queries"]
    assert query["name"] == "q"
    assert (missing["location"], missing["state"]) == (place, "UNREADABLE")
    assert told in missing["error"]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, folders named ``held`` are not listed."""
    go_on, whole = threading.Event(), LocalFileSystem.ls

    def ls(fs: LocalFileSystem, path: str, **given: Any) -> Any:
        if path.endswith("held"):
            go_on.wait()
        return whole(fs, path, **given)

    monkeypatch.setattr(LocalFileSystem, "ls", ls)
    yield go_on
    go_on.set()


def made(folder: Path) -> Checkpoint:
    checkpoint = Checkpoint(str(folder))
    checkpoint.create_or_read_query_id(folder.name)
    checkpoint.storage.create("offsets/0", b"v1\n\n3")
    checkpoint.storage.create("commits/0", b"v1\n{}")
    return checkpoint


def test_a_search_that_is_under_way_has_not_found_nothing(
    tmp_path: Path,
    held: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "held"
    root.mkdir()
    monkeypatch.setattr(app, "_LOOK_S", 0.05)
    monkeypatch.setattr(top, "_JSON_LOOK_S", 0.05)
    assert main(["top", "--json", str(root)]) == 1
    assert f"{root} has not been searched to its end" in capsys.readouterr().err

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "0 of 0" in pilot.app.sub_title, "a first look")
        assert label(pilot, "message") == "Looking for queries."
        held.set()
        await until(pilot, lambda: "no checkpoint in" in label(pilot, "message"), "the end")

    driven([str(root)], steps)


def test_what_is_found_is_shown_while_the_search_goes_on(
    tmp_path: Path, held: threading.Event
) -> None:
    made(tmp_path / "team/orders")
    made(tmp_path / "held/clicks")

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: [row[:3] for row in shown(pilot)] == [ORDERS_ROW], "the first")
        told = "Looking for queries: 3 folders looked at, 1 query found so far."
        await until(pilot, lambda: told in label(pilot, "message"), "how far it has come")
        held.set()
        await until(pilot, lambda: [row[0] for row in shown(pilot)] == ["clicks", "orders"], "all")
        await until(pilot, lambda: not label(pilot, "message"), "nothing more to tell")

    driven([str(tmp_path)], steps)


def test_a_folder_that_cannot_be_listed_darkens_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "team/orders")
    made(tmp_path / "dark/clicks")
    clock, whole = ManualClock(), LocalFileSystem.ls
    seen = Looks([str(tmp_path)], clock)
    assert [each.name for each in seen.whole(WAIT_S)] == ["clicks", "orders"]

    def ls(fs: LocalFileSystem, path: str, **given: Any) -> Any:
        if path.endswith("dark"):
            raise ConnectionError("reset")
        return whole(fs, path, **given)

    monkeypatch.setattr(LocalFileSystem, "ls", ls)
    clock.advance(60.0)
    told, *others = seen.whole(WAIT_S)
    assert (told.location, told.state) == (str(tmp_path / "dark"), "UNREADABLE")
    assert f"Cannot list {tmp_path}/dark: ConnectionError: reset." in str(told.error)
    assert [each.name for each in others] == ["clicks", "orders"], "as they were found before"
    assert main(["top", "--json", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert [each["name"] for each in json.loads(printed.out)["queries"]] == ["dark", "orders"]
    assert f"Cannot list {tmp_path}/dark" in printed.err

    monkeypatch.setattr(LocalFileSystem, "ls", whole)
    shutil.rmtree(tmp_path / "dark")
    clock.advance(60.0)
    assert [each.name for each in seen.whole(WAIT_S)] == ["orders"]


def test_who_waits_for_a_turn_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are looked at at the same time, each for three seconds."""
    for number in range(6):
        made(tmp_path / f"{number}")
    clock, whole = ManualClock(), looks.look
    numbers, changed, allowed = itertools.count(), threading.Condition(), 0
    monkeypatch.setattr(looks, "AT_ONCE", 2)

    def slow(location: str) -> QueryLook:
        number = next(numbers)
        with changed:
            changed.wait_for(lambda: number < allowed)
        return whole(location)

    def allow(looks_in_all: int) -> None:
        """In the order in which they began: one that ends must not overtake another."""
        nonlocal allowed
        with changed:
            allowed = looks_in_all
            changed.notify_all()

    monkeypatch.setattr(looks, "look", slow)
    seen = Looks([str(tmp_path)], clock)
    seen.whole(0.0)
    wait_until(lambda: not seen.is_finding or seen.refresh(0.0) is None, "the search", WAIT_S)

    def answered() -> int:
        return sum(each.status is not None for each in seen.refresh(0.0))

    for expected in (2, 4):
        clock.advance(3.0)
        allow(expected)
        wait_until(lambda expected=expected: answered() == expected, "two more", WAIT_S)
        assert "NO ANSWER" not in [each.state for each in seen.refresh(0.0)]
    clock.advance(looks.STALE_S)
    states = [each.state for each in seen.refresh(0.0)]
    assert states.count("NO ANSWER") >= 2, "now nobody answers"
    allow(1000)


def test_a_summary_with_wrong_values_is_shown_without_them(tmp_path: Path) -> None:
    """Damaged, or of an engine that tells a field in another way."""
    Lease.acquire(made(tmp_path / "orders"), run_id="run")
    path = tmp_path / "orders/control/lease"
    given = json.loads(path.read_bytes())
    wrong = {"epoch": 7, "lag": "much", "latency_p99_ms": {"0": 3}, "name": ["orders"]}
    given["state"] = "STOPPED"
    given["summary"] = {**wrong, "query_id": "q", "new": 1, "committed_at_ms": "yesterday"}
    path.write_bytes(json.dumps(given).encode())
    (seen,) = Looks([str(tmp_path)]).whole(WAIT_S)
    assert (seen.name, seen.state, seen.lag, seen.p99_ms) == ("orders", "STOPPED", None, None)
    assert seen.status is not None
    assert seen.status.epoch == 7

    async def steps(pilot: Pilot[None]) -> None:
        row = ["orders", "STOPPED", "7", "-", "-", "-", "-", "0"]
        await until(pilot, lambda: [each[:-1] for each in shown(pilot)] == [row], "the query")

    driven([str(tmp_path)], steps)


def test_an_error_is_no_command_to_the_terminal() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        found = QueryLook("/q", "q", error="\x1b[31mred\u202e\n\tat line 2")
        app._show([found])
        told = "\\x1b[31mred\\u202e\n        at line 2"
        await until(pilot, lambda: told in label(pilot, "message"), "the list's")
        await pilot.press("enter")
        await until(pilot, lambda: told in label(pilot, "facts"), "its screen's")

    driven_small(steps)


def test_a_terminal_without_a_cursor_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert main(["top"]) == 2
    assert "TERM is dumb" in capsys.readouterr().err


def test_a_name_is_no_command_to_the_terminal(tmp_path: Path) -> None:
    """Names are in checkpoints, and those may be other people's."""
    folder = "red\x1b[31m\n\udcff"
    Checkpoint(str(tmp_path / folder)).create_or_read_query_id("q")
    (tmp_path / folder / "offsets").mkdir(exist_ok=True)
    shown = "red\\x1b[31m\\n\\udcff"

    async def steps(pilot: Pilot[None]) -> None:
        table = pilot.app.screen_stack[0].query_one(QueryTable)
        await until(pilot, lambda: len(table.found) == 1, "the query")
        assert shown in table.render_line(1).text
        await pilot.press("enter")
        await until(pilot, lambda: shown in label(pilot, "facts"), "its screen")

    driven([str(tmp_path)], steps)

"""The screen of one query in ``continuous top``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.base.clock import SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.commands.terminal.query_screen import QueryScreen
from tests.simulation.terminals import driven, label, shown, until


@pytest.fixture
def of_spark(tmp_path: Path) -> Path:
    """A checkpoint with a commit, and without a history."""
    made = Checkpoint(str(tmp_path / "orders"))
    made.create_or_read_query_id("orders")
    made.storage.create("offsets/0", b"v1\n\n3")
    made.storage.create("commits/0", b"v1\n{}")
    return tmp_path / "orders"


def test_the_keys_of_the_list_are_not_those_of_a_query(of_spark: Path) -> None:
    def told(pilot: Pilot[None]) -> set[str]:
        active = pilot.app.screen.active_bindings.values()
        return {each.binding.description for each in active if each.binding.show and each.enabled}

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot), "the query")
        assert {"Order", "Filter", "Charts", "Drain"} <= told(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, QueryScreen), "its charts")
        assert not {"Order", "Filter", "Charts"} & told(pilot)
        assert {"Drain", "Stop", "Back", "Quit"} <= told(pilot)
        await pilot.press("o")
        assert pilot.app.sub_title == "1 of 1, by checkpoint"

    driven([str(of_spark)], steps)


def test_a_commit_without_a_history_is_not_denied(of_spark: Path) -> None:
    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(pilot) and shown(pilot)[0][3].endswith("ago"), "its age")
        await pilot.press("enter")
        await until(pilot, lambda: "The last 5 min" in label(pilot, "facts"), "its facts")
        assert label(pilot, "facts").endswith("The last 5 min: there is no history of it")
        hour_ago_s = SystemClock().now_ms() / 1000 - 3_600
        os.utime(of_spark / "commits/0", (hour_ago_s, hour_ago_s))
        await until(pilot, lambda: "committed 1.0 h ago" in label(pilot, "facts"), "an earlier one")
        assert "The last 5 min: no epoch was committed in it" in label(pilot, "facts")

    driven([str(of_spark)], steps)

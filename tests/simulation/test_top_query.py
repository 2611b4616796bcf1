"""The screen of one query in ``continuous top``."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

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

"""What the simulations share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.story import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "checkpoint")

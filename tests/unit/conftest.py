"""A checkpoint on each kind of storage, under a clock that the test turns."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from engine.base.clock import ManualClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.opening import open_storage


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["local", "memory"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Checkpoint:
    url = str(tmp_path / "ckpt") if request.param == "local" else f"memory://{uuid.uuid4()}"
    return Checkpoint(url, clock=clock)


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A folder on each kind of storage."""
    return open_storage(str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4()}")

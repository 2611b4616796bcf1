"""Airflow for tests: a home of its own, set before anything imports airflow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.airflow.live_checkpoint import LiveCheckpoint

_HOME = tempfile.TemporaryDirectory(prefix="airflow-unit-")
os.environ["AIRFLOW_HOME"] = _HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


class FakeStore(dict[str, Any]):
    """Airflow's task state store, of one task, in memory."""

    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        assert value is not None
        self[key] = value


@pytest.fixture
def context() -> dict[str, Any]:
    """The part of a task's context that the provider uses: the first attempt of a new task."""
    task_instance = SimpleNamespace(dag_id="a_dag", task_id="a_task", try_number=1, max_tries=2)
    return {"ti": task_instance, "run_id": "a_run", "task_state_store": FakeStore()}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCheckpoint]:
    """A checkpoint that the test writes."""
    return LiveCheckpoint(tmp_path / "checkpoint")

"""The pages of docs/ name everything that there is."""

from __future__ import annotations

import ast
import configparser
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import TaskDeferred
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.get_provider_info import get_provider_info
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OFFERED = ("operators", "sensors", "triggers")
BASES = {  # what they have in common; nobody uses them as they are
    "CheckpointEventTrigger",
    "CheckpointSensor",
    "CheckpointTrigger",
    "DescribedQueryOperator",
    "EndContinuousQueryOperator",
    "KillableTrigger",
    "QueryAskingOperator",
    "QueryStartingOperator",
}


def offered() -> Iterator[str]:
    for part in OFFERED:
        for path in (ROOT / "airflow_provider_continuous" / part).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and node.name.endswith(part.title()[:-1]):
                    yield node.name


def programs(page: Path) -> list[str]:
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for _, text in blocks]


def test_everything_has_a_page() -> None:
    names = set(offered()) - BASES
    assert {"StartContinuousQueryOperator", "EpochCommittedSensor", "EpochEventTrigger"} < names
    text = "\n".join(page.read_text() for page in PAGES)
    assert sorted(name for name in names if name not in text) == []


def test_the_configuration_can_be_taken_as_it_is() -> None:
    """Airflow takes what stands behind a value for a part of it, comments too."""
    (block,) = re.findall(
        r"^```ini\n(.*?)^```",
        (ROOT / "docs" / "airflow" / "interface.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    written = configparser.ConfigParser(interpolation=None)
    written.read_string(block)

    options = get_provider_info()["config"]["continuous"]["options"]
    known = {name: option["default"] for name, option in options.items()}
    known["checkpoint_roots"] = options["checkpoint_roots"]["example"]
    assert dict(written["continuous"]) == known


def test_an_operator_of_your_own(live: LiveCheckpoint, context: Any) -> None:
    space: dict[str, Any] = {}
    (program,) = programs(ROOT / "docs" / "airflow" / "triggers.md")
    exec(program, space)
    task = space["OffsetsOfEpochOperator"](
        task_id="report", checkpoint_location=live.location, epoch="1"
    )
    live.hold()
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context)
    live.commit(0, 1)
    assert task.committed(context, deferred.value.trigger.wait()) == [{"0": 20}]
    assert task.execute(context) == [{"0": 20}]
    task.epoch = "2"
    live.end(QueryState.FAILED, "disk full")
    with pytest.raises(QueryEndedError, match="disk full"):
        task.execute(context)

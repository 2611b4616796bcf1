"""docs/reference/json.md names every field that a program may meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.lease import LeaseRecord
from engine.progress.counters import EpochCounters
from engine.progress.report import (
    EpochTimes,
    QueryIdentity,
    Restarts,
    StageTimes,
    StreamProgress,
    epoch_progress,
)
from tests.site.documents import DOCS, ROOT

PROVIDER = ROOT / "airflow_provider_continuous"


def named(part: str) -> set[str]:
    """The names in the first column, and in the running text, of a part of the page."""
    text = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^## {part}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"`([\w-]+)`", found))


def report() -> dict[str, Any]:
    counters = EpochCounters(rows_read=1, rows_written=1)
    return epoch_progress(
        QueryIdentity("id", "run", None, "noop"),
        0,
        [StreamProgress("kafka", None, {"t": {"0": 1}}, (counters,), {"t": {"0": 2}}, {"0": 1})],
        EpochTimes(0, 1, 2),
        {},
        Restarts(),
        stages=[StageTimes("source 0", (counters,))],
    )


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from keys(each)


def test_a_progress_report() -> None:
    assert set(keys(report())) - named("Progress report") == set()
    runner = (ROOT / "engine" / "coordinator" / "epoch_runner.py").read_text(encoding="utf-8")
    steps = set(re.findall(r'\.done\("(\w+)"', runner))
    assert "walCommit" in steps
    assert steps - named("Progress report") == set()


def literal_keys(path: str, function: str) -> set[str]:
    """The keys of the dictionaries that a function writes down."""
    (body,) = (
        node
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == function
    )
    return {
        key.value
        for node in ast.walk(body)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


@pytest.mark.parametrize(
    ("part", "path", "function"),
    [
        ("Progress report", "engine/execution/epoch_report.py", "_state_operators"),
        ("An epoch", "engine/commands/epoch_rows.py", "epoch_rows"),
        ("Overview", "airflow_provider_continuous/view/overview.py", "to_dict"),
        ("Status", "engine/query/handle.py", "status"),
        ("List of queries", "engine/commands/terminal/looks.py", "to_dict"),
    ],
)
def test_what_a_function_writes_down(part: str, path: str, function: str) -> None:
    written = literal_keys(path, function)
    assert written
    assert written - named(part) == set()


def test_a_status() -> None:
    assert {field.name for field in fields(CheckpointStatus)} - named("Status") == set()


def test_a_lease() -> None:
    assert {field.name for field in fields(LeaseRecord)} - named("Lease") == set()


def test_the_connection() -> None:
    text = (PROVIDER / "get_provider_info.py").read_text(encoding="utf-8")
    _, _, of_the_form = text.partition('"conn-fields": {')
    known = set(re.findall(r'^ {20}"([\w-]+)": \{', of_the_form, re.MULTILINE))
    assert {"deploy-mode", "conf"} <= known
    assert known - named("Connection of type continuous") == set()

"""A table that is away is waited for, and only one that is there has lost what it lacks."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.errors import OffsetOutOfRangeError, SourceUnavailableError
from tests.connectors.lakes.cases import ROWS, Case, DeltaCase, IcebergCase


@pytest.fixture(params=["deltalake", "pyiceberg"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    pytest.importorskip(request.param, reason="needs the extra of the table")
    return DeltaCase(tmp_path) if request.param == "deltalake" else IcebergCase(tmp_path)


@contextmanager
def away(case: Case, *, leaves_folder: bool) -> Iterator[None]:
    """:param leaves_folder: what it was mounted on is there, and empty."""
    aside = case.root.with_name("aside")
    case.root.rename(aside)
    if leaves_folder:
        case.root.mkdir()
    yield
    if leaves_folder:
        case.root.rmdir()
    aside.rename(case.root)


class Following:
    """A run, and a task's reader of what it hands out."""

    def __init__(self, case: Case, **options: str) -> None:
        begins = {case.begins: case.states()[0][0]}
        self.reader = case.source(**begins, **options).continuousReader(ROWS)
        start = self.reader.initialOffset()
        self.reader.partitions(start)
        self.run = self.reader.handingOut(start)

    def handed(self) -> list[Any]:
        """What it hands out next, if that comes soon."""
        works = next(filter(None, (self.run.next(0.001) for _ in range(10))), {})
        return [unit for work in works.values() for unit in work.units]

    def values(self, units: list[Any]) -> list[Any]:
        """What a task reads, and tells to have read."""
        read = self.reader.unit_reader()
        found = [
            value
            for unit in units
            for batch in read(unit.what)
            for value in batch.column("value").to_pylist()
        ]
        self.run.merged([{"read": [unit.number for unit in units], "file": ""}])
        return found


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("leaves_folder", [True, False])
def test_a_mount_that_is_away_is_waited_for(case: Case, fails: str, leaves_folder: bool) -> None:
    for value in range(4):
        case.add(value)
    following = Following(case, maxFilesPerTrigger="1", failOnDataLoss=fails, pollIntervalMs="1")
    units = following.handed()
    with away(case, leaves_folder=leaves_folder):
        with pytest.raises(SourceUnavailableError, match="is not there"):
            following.values(units)
        with pytest.raises(SourceUnavailableError):
            following.handed()
    found = []
    while units:
        found += following.values(units)
        units = following.handed()
    assert found == [0, 1, 2, 3]


def test_a_query_that_waits_for_more_is_told_as_well(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sources.delta.run.ASK_S", 0.0)
    case.add(0)
    following = Following(case, pollIntervalMs="1")
    assert following.values(following.handed()) == [0]
    with away(case, leaves_folder=True), pytest.raises(SourceUnavailableError):
        following.handed()
    case.add(1)
    assert following.values(following.handed()) == [1]


def test_a_file_of_a_table_that_is_there_is_lost(case: Case) -> None:
    case.add(0)
    case.add(1)
    following = Following(case)
    units = following.handed()
    for file in case.root.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(OffsetOutOfRangeError, match="is gone"):
        following.values(units)


def test_a_table_that_was_away_when_it_was_looked_for_has_lost_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.add(0)
    following = Following(case)
    units = following.handed()
    (file,) = case.root.rglob("*.parquet")
    aside = file.with_name("aside")
    file.rename(aside)
    losses = importlib.import_module(f"engine.sources.{case.kind}.losses")
    seen = losses.check_there

    def there(*given: Any) -> Any:
        if aside.exists():
            aside.rename(file)
        return seen(*given)

    monkeypatch.setattr(losses, "check_there", there)
    with pytest.raises(SourceUnavailableError, match="was away"):
        following.values(units)
    assert following.values(units) == [0]

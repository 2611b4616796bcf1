"""A table that is away is waited for, and only one that is there has lost what it lacks."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from engine.errors import OffsetOutOfRangeError, SourceUnavailableError
from tests.connectors.lakes.cases import ARROW, ROWS, Case, DeltaCase, IcebergCase
from tests.connectors.lakes.queries import WAIT_S, all_read, start
from tests.model import HOUR_MS, ONE_ATTEMPT
from tests.servers.s3 import S3, s3_server
from tests.waiting import wait_until


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

    def __init__(self, source: Any) -> None:
        self.reader = source.continuousReader(ROWS)
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


def follow(case: Case, **options: str) -> Following:
    """From its first state on."""
    return Following(case.source(**{case.begins: case.states()[0][0]}, **options))


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("leaves_folder", [True, False])
def test_a_mount_that_is_away_is_waited_for(case: Case, fails: str, leaves_folder: bool) -> None:
    for value in range(4):
        case.add(value)
    following = follow(case, maxFilesPerTrigger="1", failOnDataLoss=fails, pollIntervalMs="1")
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
    following = follow(case, pollIntervalMs="1")
    assert following.values(following.handed()) == [0]
    with away(case, leaves_folder=True), pytest.raises(SourceUnavailableError):
        following.handed()
    case.add(1)
    assert following.values(following.handed()) == [1]


def test_a_query_goes_on_when_the_table_is_back(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sources.delta.run.ASK_S", 0.0)
    patient = replace(ONE_ATTEMPT, retry_source_for_ms=HOUR_MS, restart_delay_max_ms=20)
    case.add(0)
    query = start(case.source(), ROWS, case.checkpoint, case.sink, patient)
    query.processAllAvailable()
    with away(case, leaves_folder=True):
        wait_until(lambda: query.status["restarts"] >= 3, "it is tried again", WAIT_S)
    case.add(1)
    case.sink.await_rows(2)
    all_read(query)
    assert case.sink.values() == [0, 1]


def test_a_file_of_a_table_that_is_there_is_lost(case: Case) -> None:
    case.add(0)
    case.add(1)
    following = follow(case)
    units = following.handed()
    for file in case.root.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(OffsetOutOfRangeError, match="is gone"):
        following.values(units)


def test_a_table_that_was_away_when_it_was_looked_for_has_lost_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.add(0)
    following = follow(case)
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


def test_of_a_store_as_well(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("engine.sources.delta.run.ASK_S", 0.0)
    pytest.importorskip("moto.server", reason="needs moto[server]")
    with s3_server(tmp_path) as s3:
        url = f"s3://{s3.bucket()}/lake"
        following = Following(_in_store(case, url, s3))
        units = following.handed()
        assert len(units) == 2
        store = fs.S3FileSystem(
            endpoint_override=s3.endpoint, region="us-east-1", access_key="test", secret_key="test"
        )
        folder = url.removeprefix("s3://")
        found = store.get_file_info(fs.FileSelector(folder, recursive=True))
        store.delete_file(next(each.path for each in found if each.path.endswith(".parquet")))
        with pytest.raises(OffsetOutOfRangeError, match="is gone"):
            following.values(units)
        store.delete_dir(folder)
        with pytest.raises(SourceUnavailableError, match="is not there"):
            following.values(units)
        with pytest.raises(SourceUnavailableError):
            following.handed()


def _in_store(case: Case, url: str, s3: S3) -> Any:
    """A table with two files."""
    rows = pa.table({"value": [0, 1], "p": ["x", "y"]})
    if isinstance(case, DeltaCase):
        import deltalake

        from engine.sources.delta.data_source import DeltaSource

        deltalake.write_deltalake(url, rows, partition_by=["p"], storage_options=s3.delta_options)
        settings = {f"storage.{name}": value for name, value in s3.delta_options.items()}
        return DeltaSource({"path": url, "pollIntervalMs": "1", **settings})
    from engine.sources.iceberg.data_source import IcebergSource
    from tests.unit.iceberg_tables import NAME, Lake

    lake = Lake.at(case.folder / "other")
    lake.properties |= {
        "warehouse": url,
        "s3.endpoint": s3.endpoint,
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
        "s3.region": "us-east-1",
    }
    lake.catalog.create_namespace("db")
    with lake.catalog.create_table(NAME, ARROW).update_spec() as update:
        update.add_identity("p")
    lake.table.append(rows)
    return IcebergSource({**lake.options, "pollIntervalMs": "1"})

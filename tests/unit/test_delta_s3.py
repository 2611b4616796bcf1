"""The sink of a Delta table in an object store, against moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")
pytest.importorskip("moto.server", reason="needs moto[server]")

from deltalake import DeltaTable

from engine.errors import ConfigError, SinkUnavailableError, StaleRunError
from engine.pipeline.described import describe_connector
from engine.pipeline.fingerprint import fingerprint
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.delta.data_source import DeltaWriter
from engine.sinks.lakes import upkeep
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
from tests.servers.s3 import S3
from tests.unit.delta_tables import read, writer
from tests.unit.lake_queries import SCHEMA, Query, rows

Settings = dict[str, str]


@pytest.fixture
def settings(s3: S3) -> Settings:
    return s3.delta_options


@pytest.fixture
def url(s3: S3) -> str:
    return f"s3://{s3.bucket()}/tables/one"


def sink(url: str, settings: Settings, **options: Any) -> DeltaWriter:
    return writer(url, **{f"storage.{name}": value for name, value in settings.items()}, **options)


def ids(url: str, settings: Settings) -> list[int]:
    return sorted(row["id"] for row in read(url, settings))


def test_epochs_restarts_leftovers_and_rewinds(url: str, settings: Settings) -> None:
    query = Query(sink(url, settings, __partition_by='["name"]'))
    query.commit(0, rows(1, 2))
    message = query.prepare(1, rows(3))
    left = query.prepare(2, rows(4))
    again = Query(sink(url, settings), generation=1, logged=1, prepared=[(1, message)])
    assert again.latest == 0
    with pytest.raises(StaleRunError):
        query.sink.commit([left], 2)
    assert again.sink._log.strays() == []
    again.commit(2, rows(5))
    assert ids(url, settings) == [1, 2, 3, 5]
    again.sink.checkRewind(0)
    again.sink.rewind(0)
    assert ids(url, settings) == [1, 2]
    aborted = again.prepare(3, rows(6))
    again.sink.abort([aborted], 3)
    assert not {file.path for file in aborted.files} & set(again.sink._log.strays())


def test_a_table_is_looked_after(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(sink(url, settings, __partition_by='["name"]'))
    for epoch in range(3):
        query.commit(epoch, rows(1))
    prepared, left = query.prepare(3, rows(3)), query.prepare(1, rows(1))
    options = {"path": url, **{f"storage.{name}": value for name, value in settings.items()}}
    done = maintain(table_of("delta", options), Orders(rewindable_s=0.0))
    assert (done.files_after, done.removed_files) == (1, 0)
    monkeypatch.setattr(upkeep, "RETAIN_MIN_S", 0.0)
    done = maintain(table_of("delta", options), Orders(rewindable_s=0.0, retain_s=0.0))
    assert (done.removed_files, done.expired) == (4, 0)
    assert done.removed_bytes > sum(file.size for file in left.files)
    query.sink.commit([prepared], 3)
    assert ids(url, settings) == [1, 1, 1, 3]


def test_of_two_commits_from_one_look_one_fails(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the store's own conditional put."""
    old = Query(sink(url, settings))
    message = old.prepare(0, rows(1))
    create = DeltaTable.create_write_transaction

    def sleeping(*args: Any, **options: Any) -> None:
        monkeypatch.undo()
        Query(sink(url, settings), generation=1, logged=0, prepared=[(0, message)])
        create(*args, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", sleeping)
    with pytest.raises(StaleRunError):
        old.sink.commit([message], 0)
    assert ids(url, settings) == [1]


def test_a_file_is_removed_when_a_task_fails(url: str, settings: Settings) -> None:
    query = Query(sink(url, settings, targetFileSize=1))

    def failing() -> Iterator[Any]:
        yield rows(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query.task().write(0, failing())
    assert query.sink._log.strays() == []


def test_a_store_that_goes_away_and_comes_back(url: str, settings: Settings, s3: S3) -> None:
    hasty = {**settings, "max_retries": "0", "timeout": "1s"}
    query = Query(sink(url, hasty))
    message = query.prepare(0, rows(1))
    s3.process.suspend()
    try:
        with pytest.raises(SinkUnavailableError, match="cannot be read"):
            query.sink.commit([message], 0)
        with pytest.raises(SinkUnavailableError, match="Cannot write to s3://"):
            query.prepare(1, rows(2))
        with pytest.raises(ConfigError, match="cannot be read"):
            sink(url, hasty).validate()
    finally:
        s3.process.resume()
    query.sink.commit([message], 0)
    assert ids(url, settings) == [1]


def test_a_place_with_something_else_is_refused(s3: S3, settings: Settings, url: str) -> None:
    sink(url, settings).validate()  # empty
    Query(sink(f"{url}/inner", settings))
    with pytest.raises(ConfigError, match="is no Delta table, and it is not empty"):
        sink(url, settings).validate()


def test_no_secret_is_shown_or_recorded(url: str) -> None:
    options = {"path": url, "storage.AWS_SECRET_ACCESS_KEY": "hunter2"}
    made = sink(url, {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in describe_connector("delta", options)
    pipeline = Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA)
    parts = fingerprint(
        [(pipeline, ())], sink_format="delta", sink_options=options, sink_tuning=made.tuningOptions
    )
    assert parts["sink"]["options"] == {"path": url}

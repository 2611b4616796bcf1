"""The sink of a Delta table in an object store, against moto's server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")
pytest.importorskip("s3fs", reason="needs the extra s3")
pytest.importorskip("moto.server", reason="needs moto[server]")

from deltalake import DeltaTable

from bench.slow_s3 import SlowS3
from engine.errors import ConfigError, StaleRunError
from engine.pipeline.explain import describe_connector
from engine.pipeline.fingerprint import fingerprint
from engine.sinks.delta.data_source import DeltaWriter
from tests.unit.delta_tables import Query, read, rows, writer

Settings = dict[str, str]


@pytest.fixture(scope="module")
def s3() -> Iterator[SlowS3]:
    with SlowS3() as server:
        yield server


@pytest.fixture
def settings(s3: SlowS3) -> Settings:
    return {
        "AWS_ACCESS_KEY_ID": s3.options["key"],
        "AWS_SECRET_ACCESS_KEY": s3.options["secret"],
        "AWS_ENDPOINT_URL": s3.options["endpoint_url"],
        "AWS_REGION": "eu-west-1",
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.fixture
def url(s3: SlowS3) -> str:
    return f"{s3.url}/{uuid.uuid4()}"


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
    files = set(again.sink._target.place.files())
    assert {file.path for file in message.files} <= files
    assert files.isdisjoint(file.path for file in left.files)
    again.commit(2, rows(5))
    assert ids(url, settings) == [1, 2, 3, 5]
    again.sink.checkRewind(0)
    again.sink.rewind(0)
    assert ids(url, settings) == [1, 2]


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


def test_a_commit_asks_the_store_a_few_times(url: str, settings: Settings, s3: SlowS3) -> None:
    query = Query(sink(url, settings))
    calls = []
    for epoch in range(30):
        message = query.prepare(epoch, rows(epoch))
        s3.take()
        query.sink.commit([message], epoch)
        calls.append(len(s3.take()))
    assert max(calls[1:]) <= max(calls[:3]) <= 20


def test_a_file_is_removed_when_a_task_fails(url: str, settings: Settings) -> None:
    query = Query(sink(url, settings, targetFileSize=1))

    def failing() -> Iterator[Any]:
        yield rows(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query.task().write(0, failing())
    assert query.sink._target.place.is_empty()


def test_no_secret_is_shown_or_recorded(url: str) -> None:
    options = {"path": url, "storage.AWS_SECRET_ACCESS_KEY": "hunter2"}
    made = sink(url, {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in describe_connector("delta", options)
    parts = fingerprint(
        [], sink_format="delta", sink_options=options, sink_tuning=made.tuningOptions
    )
    assert parts["sink"]["options"] == {"path": url}


def test_a_store_that_cannot_be_reached(settings: Settings) -> None:
    away = {**settings, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "max_retries": "0"}
    with pytest.raises(ConfigError, match="cannot be read"):
        sink("s3://bucket/table", away).validate()

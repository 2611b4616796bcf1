"""The sink of an Iceberg table with the catalogs and the storage that people have: a REST server, a
PostgreSQL, an object store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from engine.errors import ConfigError, SinkUnavailableError, StaleRunError
from engine.pipeline.described import describe_connector
from engine.pipeline.fingerprint import fingerprint
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.iceberg import catalogs
from engine.sinks.lakes import upkeep
from engine.sinks.lakes.maintenance import maintain
from engine.sinks.lakes.upkeep import Orders
from engine.sinks.maintain import table_of
from tests.servers import postgresql
from tests.servers.iceberg_catalog import IcebergCatalog, iceberg_catalog
from tests.servers.jars import NoJarsError
from tests.servers.s3 import S3
from tests.unit.iceberg_tables import Lake
from tests.unit.lake_queries import SCHEMA, rows


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergCatalog]:
    try:
        with iceberg_catalog(tmp_path_factory.mktemp("catalog")) as catalog:
            yield catalog
    except NoJarsError as exc:
        pytest.skip(str(exc))


def go_through(lake: Lake) -> None:
    """Epochs, a restart, a run that comes too late, leftovers, columns, a rewind."""
    query = lake.query(partitionSpec="bucket(2, id)")
    query.commit(0, rows(1, 2))
    message = query.prepare(1, rows(3))
    left = query.prepare(2, rows(4))
    again = lake.query(generation=1, logged=1, prepared=[(1, message)])
    assert again.latest == 0
    with pytest.raises(StaleRunError):
        query.sink.commit([left], 2)
    assert again.sink._log.strays() == []
    wider = SCHEMA.append(SCHEMA.field("name").with_name("note"))
    last = lake.query(wider, schemaEvolution="add-columns", generation=2, logged=1)
    last.sink.rewind(0)
    assert lake.ids() == [1, 2]
    aborted = last.prepare(1, rows(5).append_column("note", rows(5).column("name")))
    last.sink.abort([aborted], 1)
    assert not {file.path for file in aborted.files} & set(last.sink._log.strays())
    for epoch in (1, 2):
        last.commit(epoch, rows(1).append_column("note", rows(1).column("name")))
    prepared = last.prepare(3, rows(6).append_column("note", rows(6).column("name")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "RETAIN_MIN_S", 0.0)
        orders = Orders(rewindable_s=0.0, retain_s=0.0)
        done = maintain(table_of("iceberg", lake.options), orders)
    assert done.compacted_files == 3
    assert done.expired is not None
    assert done.expired > 3
    assert done.removed_files > 3
    last.sink.commit([prepared], 3)
    assert lake.ids() == [1, 1, 1, 2, 6]


def test_a_catalog_that_speaks_rest(server: IcebergCatalog) -> None:
    go_through(Lake(server.properties))


def test_a_catalog_that_goes_away_and_comes_back(
    server: IcebergCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "ANSWER_S", 3.0)  # of a machine that is busy
    lake = Lake(server.properties)
    query = lake.query(query_id="away")
    message = query.prepare(0, rows(10))
    server.process.suspend()
    try:
        with pytest.raises(SinkUnavailableError, match=r"cannot be read: .*timed out"):
            query.sink.commit([message], 0)
    finally:
        server.process.resume()
    query.sink.commit([message], 0)
    server.process.kill()
    with pytest.raises(SinkUnavailableError, match="cannot be read"):
        query.sink.commit([message], 0)
    server.start()
    query.sink.commit([message], 0)
    assert lake.ids().count(10) == 1


@pytest.mark.skipif(bool(postgresql.missing()), reason=postgresql.missing())
def test_a_catalog_in_postgresql_over_files_in_an_object_store(s3: S3) -> None:
    storage = {
        "warehouse": f"s3://{s3.bucket()}/lake",
        "s3.endpoint": s3.endpoint,
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
        "s3.region": "us-east-1",
    }
    with postgresql.running_postgresql() as server:
        user = f"{postgresql.USER}:{postgresql.PASSWORD}"
        uri = f"postgresql+psycopg2://{user}@127.0.0.1:{server.port}/postgres"
        go_through(Lake({"type": "sql", "uri": uri, **storage}))


def test_no_secret_is_shown_recorded_or_sent_to_tasks(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    secret = {"s3.secret-access-key": "hunter2", "credential": "id:hunter3", "header.X": "hunter4"}
    lake.properties |= secret
    options = {
        **lake.options,
        "catalog.uri": "postgresql://me:hunter1@host/db",
        "schemaEvolution": "refuse",
    }
    assert "hunter" not in describe_connector("iceberg", options)
    query = lake.query()
    pipeline = Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA)
    parts = fingerprint(
        [(pipeline, ())],
        sink_format="iceberg",
        sink_options=options,
        sink_tuning=query.sink.tuningOptions,
    )
    assert parts["sink"]["options"] == {
        "table": "db.t",
        "catalog.type": "sql",
        "catalog.uri": "postgresql://host/db",
        "catalog.warehouse": lake.properties["warehouse"],
    }
    sent = query.sink._told.io_properties
    assert sent["s3.secret-access-key"] == "hunter2"
    assert not {"uri", "credential"} & sent.keys()
    with pytest.raises(ConfigError) as caught:
        Lake({"type": "sql", "uri": "postgresql+psycopg2://me:hunter1@[/x"}).writer().validate()
    assert "hunter1" not in str(caught.value)


def test_what_the_machine_says_of_a_catalog_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Iceberg's client reads it: from the environment when it is loaded."""
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    lake = Lake.at(tmp_path)
    for key, value in lake.properties.items():
        monkeypatch.setitem(os.environ, f"PYICEBERG_CATALOG__LAKE__{key.upper()}", value)
    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())
    named = Lake({})
    query = named.query(catalog="lake")
    query.commit(0, rows(1))
    assert catalog.load_catalog("lake").load_table("db.t").scan().to_arrow().num_rows == 1

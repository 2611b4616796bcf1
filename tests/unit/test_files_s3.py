"""The sink of files in an object store, against moto's server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("moto.server", reason="needs moto[server]")

import s3fs

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.pipeline.described import describe_connector
from engine.pipeline.given_sink import given_sink
from engine.sinks.epoch_context import EpochContext
from engine.sinks.files.data_source import FilesMessage, FilesWriter
from engine.sinks.files.file_sink_log import SinkFile
from engine.sinks.files.file_sink_rewind import reopen
from engine.sinks.files.file_sink_upkeep import prune_sink
from engine.sinks.reopen import recorded_sink
from tests.servers.s3 import S3
from tests.unit.test_files_sink import SCHEMA, commit, rows, writer

Settings = dict[str, str]
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@pytest.fixture
def url(s3: S3) -> str:
    return f"s3://{s3.bucket()}/tables/one"


@pytest.fixture
def settings(s3: S3) -> Settings:
    return {
        "storage.key": "test",
        "storage.secret": "test",
        "storage.client_kwargs.endpoint_url": s3.endpoint,
    }


@pytest.fixture
def fs(s3: S3) -> Any:
    return s3fs.S3FileSystem(
        key="test", secret="test", endpoint_url=s3.endpoint, use_listings_cache=False
    )


def sink(url: str, settings: Settings, kind: str = "parquet", /, **options: Any) -> FilesWriter:
    return writer(url, SCHEMA, kind, **settings, **options)


def ids(made: FilesWriter, fs: Any) -> list[int]:
    """What a reader of the log sees."""
    return [
        row["id"]
        for file in made.log.files()
        for row in pq.read_table(file.path, filesystem=fs, partitioning=None).to_pylist()
    ]


def data_files(url: str, fs: Any) -> list[str]:
    found = fs.find(url.removeprefix("s3://"))
    return [name for name in found if "/_spark_metadata/" not in name]


def prepared(made: FilesWriter, *batches: pa.RecordBatch, generation: int = 0) -> FilesMessage:
    EpochContext.set(EpochContext("q", "r", generation, 0, 0))
    try:
        return made.write(iter(batches))
    finally:
        EpochContext.set(None)


def test_epochs_restarts_aborts_and_rewinds(url: str, settings: Settings, fs: Any) -> None:
    made = sink(url, settings)
    made.validate()
    assert made.latestEpoch() is None
    commit(made, 0, rows(1, 2), rows(3))
    commit(made, 1)
    message = prepared(made, rows(4))
    made.commit([message], 2)
    again = sink(url, settings)
    assert again.latestEpoch() == 2
    again.commit([message], 2)  # by the restart table: nothing changes
    assert ids(again, fs) == [1, 2, 3, 4]
    gone = prepared(again, rows(5))
    again.abort([gone], 3)
    assert len(data_files(url, fs)) == 2
    again.checkRewind(1)
    again.rewind(1)
    assert ids(again, fs) == [1, 2, 3]
    commit(sink(url, settings), 2, rows(6))
    assert ids(again, fs) == [1, 2, 3, 6]
    assert not fs.exists(f"{url}/_spark_metadata/.2.crc")  # no client of Hadoop looks for it


def test_the_log_names_files_as_spark_does(url: str, settings: Settings, fs: Any) -> None:
    made = sink(url, settings, __partition_by='["name"]')
    odd = pa.RecordBatch.from_pylist([{"id": 1, "name": "a b%/é"}], rows(1).schema)
    commit(made, 0, odd)
    (file,) = made.log.files()
    assert file.path.startswith(f"{url}/name=a%20b%2525%252F%C3%A9/part-")
    (name,) = data_files(url, fs)
    assert "/name=a b%25%2Fé/part-" in name
    assert file.size == fs.size(name) == len(fs.cat_file(name))


def test_of_two_runs_in_the_same_epoch_one_is_refused(
    url: str, settings: Settings, fs: Any
) -> None:
    """By the store's own conditional put."""
    old, new = sink(url, settings), sink(url, settings)
    assert old.latestEpoch() is new.latestEpoch() is None
    slow, quick = prepared(old, rows(1)), prepared(new, rows(2), generation=1)
    old.bind(SinkContext("q", "r", 0, 0))
    assert not old.log.has(0)
    new.bind(SinkContext("q", "r", 1, 0))
    new.commit([quick], 0)
    with pytest.raises(SinkCommitRejectedError):
        old.commit([slow], 0)
    assert ids(new, fs) == [2]


def test_entries_are_compacted(url: str, settings: Settings, fs: Any) -> None:
    made = sink(url, settings, compactInterval=3)
    for epoch in range(7):
        commit(made, epoch, rows(epoch))
    assert ids(sink(url, settings), fs) == list(range(7))
    assert fs.exists(f"{url}/_spark_metadata/5.compact")


def test_a_file_of_many_parts_arrives_whole(url: str, settings: Settings, fs: Any) -> None:
    """S3 takes them in parts of 50 MB."""
    made = sink(url, settings, "json")
    count = 40_000
    ids_, names = pa.array(range(count)), pa.array(["x" * 1_400] * count)
    batch = pa.RecordBatch.from_arrays([ids_, names], schema=rows(1).schema)
    commit(made, 0, batch)
    (file,) = made.log.files()
    assert file.size == fs.size(file.path) > 50 << 20
    assert fs.cat_file(file.path).count(b"\n") == count


def test_a_file_is_removed_when_a_task_fails(url: str, settings: Settings, fs: Any) -> None:
    made = sink(url, settings)

    def failing() -> Iterator[Any]:
        yield rows(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.write(failing())
    assert data_files(url, fs) == []


def test_a_store_that_is_not_there_or_refuses(s3: S3, settings: Settings, url: str) -> None:
    with pytest.raises(ConfigError, match="s3://nowhere/x"):
        sink("s3://nowhere/x", settings).validate()
    with pytest.raises(SinkUnavailableError, match="Cannot write to s3://nowhere/x"):
        sink("s3://nowhere/x", settings).write(iter([rows(1)]))


@dataclass
class Left:
    """A checkpoint whose query has committed row 2 and left a file with row 1.

    :ivar file: what was left.
    """

    checkpoint: Checkpoint
    file: SinkFile

    def now_ms(self) -> int:
        return self.file.modified_ms + 2 * 3_600_000


@pytest.fixture
def left(url: str, settings: Settings, tmp_path: Path) -> Left:
    made = sink(url, settings, compactInterval=3)
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    checkpoint.create_or_read_query_id("q")
    parts = {"sink": {"format": "parquet", "options": {"path": url}}}
    write_fingerprint(checkpoint.storage, parts)
    lease = Lease.acquire(checkpoint, run_id="r")
    file = prepared(made, rows(1)).files[0]
    made.commit([prepared(made, rows(2))], 0)
    lease.release(QueryState.STOPPED)
    return Left(checkpoint, file)


@pytest.mark.usefixtures("environment")
def test_what_no_epoch_names_is_pruned(url: str, settings: Settings, fs: Any, left: Left) -> None:
    """By the checkpoint, which keeps no secrets: the environment has them."""
    assert len(data_files(url, fs)) == 2
    young = prune_sink(left.checkpoint, orphans_older_than_s=3_600)
    assert young is not None
    assert young.removed_files == 0
    old = prune_sink(left.checkpoint, orphans_older_than_s=3_600, clock=left)  # type: ignore[arg-type]
    assert old is not None
    assert (old.path, old.removed_files, old.removed_bytes) == (url, 1, left.file.size)
    assert ids(sink(url, settings), fs) == [2]
    assert recorded_sink(left.checkpoint) is not None
    found = reopen({"PATH": url})
    assert found is not None
    found.checkRewind(0)


@pytest.mark.parametrize("with_path", [True, False])
def test_what_opens_the_bucket_may_be_given(
    with_path: bool, url: str, settings: Settings, fs: Any, left: Left
) -> None:
    """The environment has nothing; the checkpoint tells the path."""
    given = {**settings, **({"PATH": url} if with_path else {})}
    report = prune_sink(
        left.checkpoint,
        sink=("parquet", given_sink(left.checkpoint, "parquet", given)),
        orphans_older_than_s=3_600,
        clock=left,  # type: ignore[arg-type]
    )
    assert report is not None
    assert (report.path, report.removed_files) == (url, 1)
    assert ids(sink(url, settings), fs) == [2]


@pytest.fixture
def environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": s3.endpoint}.items():
        monkeypatch.setitem(os.environ, name, value)
    s3fs.S3FileSystem.clear_instance_cache()


def test_no_secret_is_shown(url: str, settings: Settings) -> None:
    options = {"path": url, **settings, "storage.secret": "hunter2"}
    assert "hunter2" not in describe_connector("parquet", options)
    assert set(settings) <= set(sink(url, settings).tuningOptions)

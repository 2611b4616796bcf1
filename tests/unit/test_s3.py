"""A checkpoint on S3, against moto's server: conditional puts, logs, lease, rewind."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import fsspec
import pytest

pytest.importorskip("s3fs", reason="needs the extra s3")
pytest.importorskip("moto.server", reason="needs moto[server]")

from botocore.exceptions import ClientError

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.find import find_checkpoints
from engine.checkpoint.lease import Lease
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.logs.prepared_log import PreparedEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.retention import prune
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.fsspec_storage import FsspecStorage, open_file_system
from engine.checkpoint.storage.opening import open_storage, prove_create_if_absent
from engine.errors import CheckpointError, ConcurrentRunError, ConfigError
from tests.searched import searched
from tests.servers.s3 import s3_server
from tests.unit.test_state_retention import Query, expected_at, files, state_at

Options = dict[str, Any]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    """How to reach the server."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield {
            "key": "test",
            "secret": "test",
            "endpoint_url": server.endpoint,
            "client_kwargs": {"region_name": "eu-west-1"},
        }


@pytest.fixture
def url(options: Options) -> str:
    import s3fs

    bucket = f"bucket-{uuid.uuid4()}"
    s3fs.S3FileSystem(**options).mkdir(bucket)
    return f"s3://{bucket}/checkpoints/one"


@pytest.fixture
def storage(url: str, options: Options) -> Storage:
    return open_storage(url, options)


def test_the_clients_settings_are_those_that_were_given(
    url: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(**more: Any) -> Any:
        return open_file_system(url, {**options, **more})[0].config_kwargs

    assert told() == {"max_pool_connections": FsspecStorage.at_once_max}
    given = {"max_pool_connections": 7, "read_timeout": 9}
    assert told(config_kwargs=given) == given
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": given})
    assert told() == given
    with pytest.raises(ConfigError, match="config_kwargs is a str, no mapping"):
        told(config_kwargs="{}")


def test_first_create_wins(storage: Storage) -> None:
    assert storage.create("offsets/3", b"first") is True
    assert storage.create("offsets/3", b"second") is False
    assert storage.read("offsets/3") == b"first"
    assert [(file.name, file.size) for file in storage.list("offsets")] == [("3", 5)]
    assert storage.list("")[0:] == []
    storage.replace("offsets/3", b"third")
    assert storage.read("offsets/3") == b"third"
    assert storage.info("offsets/3").modified_s > 1_600_000_000
    storage.delete("offsets/3")
    assert not storage.exists("offsets/3")
    with pytest.raises(FileNotFoundError):
        storage.read("offsets/3")


def test_one_of_two_drivers_wins(url: str, options: Options) -> None:
    """Two clients that know nothing of each other, again and again."""
    clients = [open_storage(url, {**options, "skip_instance_cache": True}) for _ in range(2)]
    for epoch in range(20):
        start = Barrier(2)

        def create(number: int, epoch: int = epoch, start: Barrier = start) -> bool:
            start.wait(60)
            return clients[number].create(f"offsets/{epoch}", b"%d" % number)

        with ThreadPoolExecutor(2) as pool:
            created = list(pool.map(create, range(2)))
        assert sorted(created) == [False, True]
        assert clients[0].read(f"offsets/{epoch}") == b"%d" % created.index(True)
        assert {file.name for file in clients[1].list("offsets")} == set(map(str, range(epoch + 1)))


def test_doctor_proves_it(storage: Storage) -> None:
    prove_create_if_absent(storage)
    assert storage.list("control") == []


class Ignorant:
    """A store that takes a conditional put for a put."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        self._fs.pipe_file(path, data)


def test_doctor_refuses_a_store_that_ignores_the_condition(url: str, options: Options) -> None:
    import s3fs

    fs = Ignorant(s3fs.S3FileSystem(**options))
    storage = FsspecStorage(fs, url.removeprefix("s3://"), url)
    with pytest.raises(ConfigError, match="does not keep create-if-absent"):
        prove_create_if_absent(storage)
    assert storage.list("control") == []


class Answering(Ignorant):
    """Gives these answers of S3, one each, before it obeys."""

    def __init__(self, fs: Any, *codes: str) -> None:
        super().__init__(fs)
        self.codes = list(codes)

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        if self.codes:
            from s3fs.errors import translate_boto_error

            answer: Any = {"Error": {"Code": self.codes.pop(0), "Message": "so it is"}}
            raise translate_boto_error(ClientError(answer, "PutObject"))
        self._fs.pipe_file(path, data, mode=mode)


@pytest.mark.parametrize(
    ("codes", "created"),
    [
        (["PreconditionFailed"], False),  # without the condition that Amazon names with it
        (["ConditionalRequestConflict"], True),
        (["ConditionalRequestConflict"] * 3 + ["PreconditionFailed"], False),
    ],
)
def test_answers_of_s3(codes: list[str], created: bool, url: str, options: Options) -> None:
    import s3fs

    fs = Answering(s3fs.S3FileSystem(**options), *codes)
    storage = FsspecStorage(fs, url.removeprefix("s3://"), url)
    assert storage.create("offsets/0", b"x") is created


@pytest.mark.parametrize("codes", [["AccessDenied"], ["ConditionalRequestConflict"] * 100])
def test_refusals_of_s3(codes: list[str], url: str, options: Options) -> None:
    import s3fs

    fs = Answering(s3fs.S3FileSystem(**options), *codes)
    storage = FsspecStorage(fs, url.removeprefix("s3://"), url)
    with pytest.raises(CheckpointError, match=r"Cannot create s3://.*offsets/0.*so it is"):
        storage.create("offsets/0", b"x")


def test_a_bucket_that_is_not_there(options: Options) -> None:
    storage = open_storage("s3://no-such-bucket/checkpoint", options)
    assert not Checkpoint(storage).exists()
    with pytest.raises(CheckpointError, match="no-such-bucket"):
        storage.create("metadata", b"{}")


def test_a_whole_checkpoint(url: str, options: Options) -> None:
    checkpoint = Checkpoint(url, options)
    assert not checkpoint.exists()
    assert checkpoint.create_or_read_query_id("query") == "query"
    lease = Lease.acquire(checkpoint, run_id="run-1", heartbeat_interval_ms=60_000)
    with pytest.raises(ConcurrentRunError, match="run-1"):
        Lease.acquire(Checkpoint(url, {**options, "skip_instance_cache": True}), run_id="run-2")
    for epoch in range(8):
        lease.check()
        assert checkpoint.prepared.add(epoch, PreparedEntry(0, "run-1", (None,)))
        assert checkpoint.offsets.add(epoch, OffsetEntry(({"0": epoch},)))
        assert checkpoint.commits.add(epoch, CommitEntry())
        assert not checkpoint.commits.add(epoch, CommitEntry())
        lease.heartbeat(state=QueryState.RUNNING, epoch=epoch)
    other = Checkpoint(url, {**options, "skip_instance_cache": True})
    assert (other.status().state, other.status().epoch) == (QueryState.RUNNING, 7)
    lease.release(QueryState.STOPPED)
    other.pin("gold", 3)
    assert prune(other, keep_epochs=3).removed_epochs == 5
    other.rewind(6, accept_repeats=True)
    assert checkpoint.epochs() == [5, 6]
    checkpoint.rewind(to_pin="gold", accept_repeats=True)
    assert (other.epochs(), other.committed_offsets()) == ([3], ({"0": 3},))
    other.delete()
    assert not checkpoint.exists()


def test_many_by_a_pattern_and_copies(url: str, options: Options) -> None:
    root = url.rpartition("/")[0]
    for name in ("one", "two"):
        checkpoint = Checkpoint(f"{root}/{name}", options)
        checkpoint.create_or_read_query_id(name)
        for epoch in range(4):
            checkpoint.offsets.add(epoch, OffsetEntry((epoch,)))
            checkpoint.commits.add(epoch, CommitEntry())
        checkpoint.storage.create("sources/0/0", b"v1")
    open_storage(f"{root}/other", options).create("README", b"no checkpoint")
    found = find_checkpoints(f"{root}/*", options)
    assert found == [f"{root}/one", f"{root}/two"]
    target = Checkpoint(f"{root}/copy", options)
    report = copy_checkpoint(Checkpoint(found[0], options), target, 2)
    assert (report.source_id, target.epochs(), target.committed_offsets()) == (
        "one",
        [0, 1, 2],
        (2,),
    )
    assert target.storage.files_below("sources").keys() == {"0/0"}
    assert len(find_checkpoints(f"{root}/*", options)) == 3


def test_what_is_found_below_a_folder_is_what_is_there_now(url: str, options: Options) -> None:
    """Who looks every few seconds sees those that others make and remove."""
    root = url.rpartition("/")[0]
    for name in ("one", "two"):
        made = Checkpoint(f"{root}/{name}", options)
        made.create_or_read_query_id(name)
        made.commits.add(0, CommitEntry())
        assert name in searched(root, options).found
    made.delete()
    assert searched(root, options).found == ["one"]


def test_where_the_environment_leads_is_a_part_of_what_was_proved(
    url: str, options: Options, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A marker that does not tell one endpoint from another vouches for storage never tried."""

    def endpoint() -> str | None:
        given = {"key": "test", "secret": "test", "skip_instance_cache": True}
        return open_storage(url, given).identity.get("endpoint")

    there = options["endpoint_url"]
    assert open_storage(url, options).identity["endpoint"] == there
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        with monkeypatch.context() as environment:
            environment.setenv(name, f"{there.replace('//', '//me:secret@')}?token=secret")
            assert endpoint() == there
    assert str(endpoint()).endswith("amazonaws.com")
    config = tmp_path / "config"
    config.write_text(f"[default]\nendpoint_url = {there}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    assert endpoint() == there


def test_snapshots_of_state(url: str, options: Options) -> None:
    checkpoint = Checkpoint(url, options)
    checkpoint.create_or_read_query_id("query")
    query = Query(checkpoint)
    query.count(35)
    prune(checkpoint, keep_epochs=5)
    for epoch in (30, 34):
        assert state_at(checkpoint, epoch) == expected_at(epoch)
    assert len(files(checkpoint)) < 25
    target = Checkpoint(url.replace("/one", "/two"), options)
    copy_checkpoint(checkpoint, target)
    assert state_at(target, 34) == expected_at(34)

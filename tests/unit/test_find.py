"""Many checkpoints by one pattern."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from engine.checkpoint import find
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.find import Folder, find_checkpoints, is_pattern
from engine.errors import CheckpointError, ConfigError
from tests.searched import searched
from tests.unit.web_hdfs import WebHdfsServer, web_hdfs

WAIT_S = 30.0


@pytest.mark.parametrize("scheme", ["path", "file", "memory"])
def test_those_that_were_used(tmp_path: Path, scheme: str) -> None:
    roots = {
        "path": str(tmp_path),
        "file": f"file://{tmp_path}",
        "memory": f"memory://{uuid.uuid4()}",
    }
    root = roots[scheme]
    for name in ("b", "a", "team/c"):
        Checkpoint(f"{root}/{name}").create_or_read_query_id(name)
    Checkpoint(f"{root}/broken").storage.create("commits/7", b"torn")
    Checkpoint(f"{root}/other").storage.create("README", b"no checkpoint")

    found = find_checkpoints(f"{root}/*")

    assert [each.rpartition("/")[2] for each in found] == ["a", "b", "broken"]
    assert Checkpoint(found[0]).query_id() == "a"
    (deeper,) = find_checkpoints(f"{root}/*/c")
    assert Checkpoint(deeper).query_id() == "team/c"
    assert find_checkpoints(f"{root}/nothing*") == []


def test_what_a_rewind_has_moved_aside_is_no_checkpoint(tmp_path: Path) -> None:
    query = Checkpoint(f"{tmp_path}/query")
    query.create_or_read_query_id("query")
    query.storage.create("rewound/3/offsets/7", b"moved")
    query.storage.create("rewound/3/commits/7", b"moved")

    found = find_checkpoints(f"{tmp_path}/**")

    assert [each.rpartition("/")[2] for each in found] == ["query"]


def test_folders_are_listed_at_the_same_time_and_one_that_fails_darkens_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/q", "b/q", "c/q"):
        Checkpoint(f"{tmp_path}/{name}").create_or_read_query_id(name)
        Checkpoint(f"{tmp_path}/{name}").storage.create("offsets/0", b"v1\n\n3")
    whole, all_there = LocalFileSystem.ls, threading.Barrier(3)

    def ls(fs: LocalFileSystem, path: str, **given: Any) -> Any:
        if path.rpartition("/")[2] in ("a", "b", "c"):
            all_there.wait(WAIT_S)
        if path == f"{tmp_path}/b":
            raise ConnectionError("reset")
        return whole(fs, path, **given)

    monkeypatch.setattr(LocalFileSystem, "ls", ls)
    search = searched(str(tmp_path))
    assert sorted(search.found) == ["a/q", "c/q"]
    assert search.looked_into == 6
    ((name, told),) = search.errors.items()
    assert name == "b"
    assert f"Cannot list {tmp_path}/b: ConnectionError: reset." in str(told)


def test_what_matches_is_looked_at_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        Checkpoint(f"{tmp_path}/{name}").create_or_read_query_id(name)
    whole, all_there = Checkpoint.exists, threading.Barrier(3)

    def exists(checkpoint: Checkpoint) -> bool:
        all_there.wait(WAIT_S)
        return whole(checkpoint)

    monkeypatch.setattr(Checkpoint, "exists", exists)
    assert len(find_checkpoints(f"{tmp_path}/*")) == 3


def test_what_is_a_pattern() -> None:
    assert is_pattern("s3://bucket/*/orders")
    assert not is_pattern("s3://bucket/orders")


def test_a_slash_that_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"one slash behind its scheme.*s3://bucket/\*"):
        find_checkpoints("s3:/bucket/*")


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(ConfigError, match="nosuch"):
        find_checkpoints("nosuch://bucket/*")


@pytest.mark.parametrize("error", [PermissionError, NotADirectoryError])
def test_where_a_search_begins_must_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    Checkpoint(f"{tmp_path}/team/orders").create_or_read_query_id("orders")
    whole = LocalFileSystem.ls
    forbidden = str(tmp_path)

    def ls(fs: LocalFileSystem, path: str, **given: Any) -> Any:
        if path.rstrip("/") == forbidden:
            raise error(13, "no business of yours", path)
        return whole(fs, path, **given)

    monkeypatch.setattr(LocalFileSystem, "ls", ls)
    (told,) = searched(str(tmp_path)).errors.values()
    assert re.match(f"Cannot list .*{error.__name__}", str(told))
    forbidden = f"{tmp_path}/team"
    search = searched(str(tmp_path))
    assert not search.found
    assert not search.errors


@pytest.fixture
def server() -> Iterator[WebHdfsServer]:
    with web_hdfs() as server:
        yield server


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs", "default"])
def test_hdfs_is_searched_as_it_is_read(
    server: WebHdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    settings = {"fs.defaultFS": "hdfs://lake", "dfs.ha.namenodes.lake": "nn1",
                "dfs.namenode.http-address.lake.nn1": server.address}  # fmt: skip
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in settings.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    roots = {"webhdfs": f"webhdfs://{server.address}", "hdfs": "hdfs://lake", "default": "hdfs://"}
    root = f"{roots[scheme]}/check points"
    for name in ("b", "a", "team/c"):
        Checkpoint(f"{root}/{name}").create_or_read_query_id(name)
        Checkpoint(f"{root}/{name}").storage.create("offsets/0", b"v1\n\n3")
    Checkpoint(f"{root}/other").storage.create("README", b"no checkpoint")
    options = {"user": "ann"}

    found = find_checkpoints(f"{root}/*", options)

    named = "hdfs://lake/check points" if scheme == "default" else root
    assert found == [f"{named}/a", f"{named}/b"]
    assert find_checkpoints(f"{root}/*/c") == [f"{named}/team/c"]
    assert find_checkpoints(f"{root}/**") == [f"{named}/{name}" for name in ("a", "b", "team/c")]
    assert find_checkpoints(f"{root}/nothing*") == []
    assert sorted(searched(root).found) == ["a", "b", "team/c"]
    top = Folder.open(root, options)
    assert top.exists()
    assert not Folder.open(f"{root}/missing").exists()
    assert "ann" in server.users


def test_hdfs_that_does_not_answer_is_told_and_not_taken_for_empty(server: WebHdfsServer) -> None:
    root = f"webhdfs://{server.address}/a"
    Checkpoint(f"{root}/team/b").create_or_read_query_id("b")
    server.forbids = "/a/team"
    assert searched(root).found == []
    assert find_checkpoints(f"{root}/**") == []
    server.forbids = ""
    server.refuses = "StandbyException"
    for look in (
        lambda: find_checkpoints(f"{root}/*/b"),
        lambda: Folder.open(root).exists(),
    ):
        with pytest.raises(CheckpointError, match=r"Cannot (list|read) webhdfs://.*/a"):
            look()
    assert re.match("Cannot list webhdfs://.*/a", str(searched(root).errors[""]))
    with pytest.raises(ConfigError, match="names no NameNode"):
        find_checkpoints("webhdfs:///a/*")


def test_whatever_stands_in_the_way_of_opening_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> Any:
        raise OSError("Unable to load libjvm")

    monkeypatch.setattr(find, "open_file_system", fail)
    with pytest.raises(CheckpointError, match=r"s3://bucket/\*: OSError: Unable to load"):
        find_checkpoints("s3://bucket/*")

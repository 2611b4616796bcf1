"""Many checkpoints by one pattern."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.find import checkpoints_below, find_checkpoints, is_pattern
from engine.errors import CheckpointError, ConfigError


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
    with pytest.raises(CheckpointError, match=f"Cannot list .*{error.__name__}"):
        list(checkpoints_below(str(tmp_path)))
    forbidden = f"{tmp_path}/team"
    assert list(checkpoints_below(str(tmp_path))) == []

"""Files that are too large to be read at once, in storages of all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.storage.contract import Storage
from tests.unit.test_storage import storage

__all__ = ["storage"]


def test_a_large_file_is_looked_into(storage: Storage, tmp_path: Path) -> None:
    """Whether it is here, or in parts from somewhere else."""
    data = bytes(range(256)) * 40_000  # more than two parts
    storage.create("state/1", data)
    for name, content in (("state/1", data), ("state/2", b"x")):
        storage.create(name, content)
        with (tmp_path / "scratch").open("w+b", buffering=0) as scratch:
            mapped = storage.mapped(name, scratch)
        assert bytes(mapped) == content
        mapped.close()
    with (
        (tmp_path / "scratch").open("w+b", buffering=0) as scratch,
        pytest.raises(FileNotFoundError),
    ):
        storage.mapped("state/3", scratch)

"""``sources/<n>/0``: where the sources of a query began."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.json_text import JSON
from engine.checkpoint.first_offsets import first_offset, forget_first_offsets, is_first_offset
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointCorruptError


def asked(*answers: JSON) -> Callable[[], JSON]:
    return iter(answers).__next__


def test_the_source_is_asked_once(tmp_path: Path) -> None:
    storage, source = LocalStorage(tmp_path), asked({"in": {"0": 7}}, {"in": {"0": 9}})
    for _ in range(3):
        assert first_offset(storage, 0, source) == {"in": {"0": 7}}
    assert first_offset(storage, 1, asked(0)) == 0


def test_the_bytes_are_those_of_spark_s_kafka_source(tmp_path: Path) -> None:
    first_offset(LocalStorage(tmp_path), 0, asked({"in": {"0": 0, "1": 0}}))
    assert (tmp_path / "sources/0/0").read_bytes() == b'\0v1\n{"in":{"0":0,"1":0}}'


def test_spark_s_others_leave_the_zero_byte_out(tmp_path: Path) -> None:
    LocalStorage(tmp_path).create("sources/0/0", b"v1\n1795174660561")
    assert first_offset(LocalStorage(tmp_path), 0, asked()) == 1795174660561


@pytest.mark.parametrize("data", [b"", b"\0v1\n", b"\0v2\n{}", b'\0v1\n{"in":', b"nonsense"])
def test_a_damaged_one_is_told(tmp_path: Path, data: bytes) -> None:
    LocalStorage(tmp_path).create("sources/0/0", data)
    with pytest.raises(CheckpointCorruptError, match=r"sources/0/0, cannot be read"):
        first_offset(LocalStorage(tmp_path), 0, asked(1))


def test_another_source_begins_anew(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    first_offset(storage, 0, asked(1))
    forget_first_offsets(storage, 2)
    assert first_offset(storage, 0, asked(2)) == 2


def test_what_is_a_first_offset() -> None:
    assert is_first_offset("sources/0/0")
    assert is_first_offset("sources/12/.0.crc")
    assert not is_first_offset("sources/0/1")
    assert not is_first_offset("state/0/0")

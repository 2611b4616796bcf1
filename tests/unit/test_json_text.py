"""JSON as it is written into files."""

from __future__ import annotations

import pytest

from engine.base.json_text import dump, load, plain
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint, write_fingerprint
from engine.checkpoint.logs.offset_log import OffsetEntry


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": [1, None, "\u00e9"]}, '{"a":[1,null,"\u00e9"]}'),
        ("caf\udce9", '"caf\\udce9"'),
        ("\\\udce9\U0001f600", '"\\\\\\udce9\U0001f600"'),
    ],
)
def test_every_text_can_be_written_and_is_read_as_it_was(value: object, written: str) -> None:
    assert dump(value) == written
    assert load(dump(value).encode()) == value


def test_values_of_rows_are_json() -> None:
    row = {"a": [float("nan"), float("inf"), -float("inf"), 0.5], "b": b"\x01", "c": None}
    assert load(dump(plain(row))) == {
        "a": ["NaN", "Infinity", "-Infinity", 0.5],
        "b": "01",
        "c": None,
    }


def test_paths_that_are_no_utf8(checkpoint: Checkpoint) -> None:
    report = {"batchId": 1, "sink": "json[/out/caf\udce9]"}
    checkpoint.progress.write([report])
    assert checkpoint.progress.read() == [report]
    offsets = OffsetEntry(({"caf\udce9": 1},))
    checkpoint.offsets.add(0, offsets)
    assert checkpoint.offsets.get(0) == offsets
    write_fingerprint(checkpoint.storage, {"path": "/out/caf\udce9"})
    assert (read_fingerprint(checkpoint.storage) or {})["path"] == "/out/caf\udce9"

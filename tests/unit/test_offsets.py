"""The order of offsets, and where a folder ends by now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from engine.sources.latest import latest_offset
from engine.sources.offset_order import check_order, distance, reached

RATE = {"0": {"value": 22, "runTimeMs": 1795174660561}}

FILES = {
    "a.log": 20,
    "a.log.1": 50,
    "a.log//9": 60,
    "/": {
        "a.log": "8.0000000000000000",
        "a.log.1": "7.0000000000000000",
        "a.log//9": "9.0000000000000000.1795174660561",
    },
}


@pytest.mark.parametrize(
    ("committed", "wanted", "is_in"),
    [
        ({"a.json": 10}, {"a.json": 10}, True),
        ({"a.json": 9}, {"a.json": 10}, False),
        ({"a.json": 10, "b.json": 1}, {"a.json": 10}, True),
        ({"a.json": 10}, {"a.json": 10, "b.json": 1}, False),
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 5, "1": 8}}, False),
        ({"t": {"0": 5, "1": 8}}, {"t": {"0": 5, "1": 8}}, True),
        ({"t": {"0": 5}}, {"u": {"0": 1}}, False),
        (RATE, {"0": {"value": 22}}, True),
        (RATE, {"0": {"value": 23}}, False),
        (RATE, {"0": 22}, None),
        (7, 7, True),
        (6, 7, False),
        (None, {"a.json": 10}, False),
        ({"logOffset": 3}, {"logOffset": 2}, True),
        ({"a.json": 1}, {}, True),
        # A file of a tail source is the same under another name, and another one under its old.
        (FILES, {"b.log": 50, "/": {"b.log": "7.0000000000000000"}}, True),
        (FILES, {"b.log": 51, "/": {"b.log": "7.0000000000000000"}}, False),
        (FILES, {"a.log": 60, "/": {"a.log": "9.0000000000000000"}}, True),
        (FILES, {"a.log": 10, "/": {"a.log": "5.0000000000000000"}}, False),
        (FILES, {"a.log": 20}, True),
        (FILES, {"a.log": 21}, False),
        (FILES, {}, True),
        ({"a.log": 20}, {"a.log": 20, "/": {"a.log": "8.0000000000000000"}}, True),
    ],
)
def test_order(committed: Any, wanted: Any, is_in: bool | None) -> None:
    if is_in is None:
        with pytest.raises(ConfigError, match="Nothing tells whether"):
            reached(committed, wanted)
    else:
        assert reached(committed, wanted) is is_in


@pytest.mark.parametrize("wanted", [{"t": {"0": -1}}, "latest", [1], {"t": "0"}, True, 1.5, None])
def test_what_has_no_order_is_refused(wanted: Any) -> None:
    with pytest.raises(ConfigError):
        check_order(wanted)


@pytest.mark.parametrize("committed", [{"reservoirVersion": "5"}, [3], "x"])
def test_offsets_of_another_shape_are_refused(committed: Any) -> None:
    with pytest.raises(ConfigError):
        reached(committed, {"reservoirVersion": 4})


def test_distance() -> None:
    assert distance({"t": {"0": 5, "1": 9}}, {"t": {"0": 7, "1": 8, "2": 4}}) == 6


def test_where_a_folder_ends(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x":1}\n{"x":2}\n{"x"')
    (tmp_path / "b.txt").write_text("no\n")
    (tmp_path / "_c.json").write_text("hidden\n")
    (tmp_path / "d.json").write_text("no whole line")
    options = {"path": str(tmp_path), "pathGlobFilter": "*.json", "fileFormat": "json"}

    end = latest_offset({"format": "tail", "options": options})
    assert end.pop("/").keys() == {"a.json"}
    assert end == {"a.json": 16}


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'rate' cannot be asked"):
        latest_offset({"format": "rate", "options": {}})
    with pytest.raises(ConfigError, match="not a folder"):
        latest_offset({"format": "tail", "options": {"path": str(tmp_path / "gone")}})


def test_an_end_that_nobody_can_ask_for_without_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    with pytest.raises(ConfigError, match=r"which is not installed\. pip install .*\[kafka\]"):
        latest_offset({"format": "kafka", "options": options})

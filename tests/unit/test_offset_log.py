"""The offset log's bytes; cases after Spark's OffsetSeqLogSuite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.epoch_state import EpochState, Marks
from engine.checkpoint.logs.metadata_log import MetadataLog
from engine.checkpoint.logs.offset_log import (
    OffsetEntry,
    batch_metadata,
    carried_on,
    deserialize,
    offset_log,
    serialize,
)
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointCorruptError, CheckpointVersionError


@pytest.fixture
def log(tmp_path: Path) -> MetadataLog[OffsetEntry]:
    return offset_log(LocalStorage(tmp_path / "not there yet"))


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        (OffsetEntry((0,)), b"v1\n\n0"),
        (OffsetEntry((None,)), b"v1\n\n-"),
        (OffsetEntry((None, 3, None)), b"v1\n\n-\n3\n-"),
        (OffsetEntry(([50, 50],)), b"v1\n\n[50,50]"),
        (OffsetEntry(({},)), b"v1\n\n{}"),
        (
            OffsetEntry(({"0": {"value": 22, "runTimeMs": 1795174660561}, "1": {"value": 23}},)),
            b'v1\n\n{"0":{"value":22,"runTimeMs":1795174660561},"1":{"value":23}}',
        ),
        (OffsetEntry(({"tópic": {"0": 1}},)), 'v1\n\n{"tópic":{"0":1}}'.encode()),
        (OffsetEntry(("line\nbreak",)), b'v1\n\n"line\\nbreak"'),
        (OffsetEntry((7,), metadata={}), b"v1\n{}\n7"),
        (OffsetEntry((7,), {"batchWatermarkMs": 0}), b'v1\n{"batchWatermarkMs":0}\n7'),
        (
            OffsetEntry(({"logOffset": 0}, None), {"sourceMetadataInfo": {}}, 2, ("orders", "1")),
            b'v2\n{"sourceMetadataInfo":{}}\norders:{"logOffset":0}\n1:-',
        ),
    ],
)
def test_bytes(entry: OffsetEntry, content: bytes) -> None:
    assert serialize(entry) == content
    assert deserialize(content) == entry


def test_offsets_of_sources_that_are_named_by_number_come_in_the_order_of_the_plan() -> None:
    """Spark 4.2 writes a map of them: these are the lines of a union of two folders."""
    lines = (
        b'v2\n{"batchWatermarkMs":0,"sourceMetadataInfo":{}}\n1:{"logOffset":5}\n0:{"logOffset":3}'
    )
    entry = deserialize(lines)
    assert entry.offsets == ({"logOffset": 3}, {"logOffset": 5})
    assert entry.source_names == ("0", "1")
    many = deserialize(
        b"v2\n{}\n" + b"\n".join(b"%d:%d" % (n, n) for n in (10, 2, 0, 1, *range(3, 10)))
    )
    assert many.offsets == tuple(range(11))


def test_metadata_of_micro_batches_is_carried_on_and_told_apart() -> None:
    by_spark = OffsetEntry((7,), {"batchWatermarkMs": 5, "conf": {"a": "b"}})
    here = OffsetEntry((8,), carried_on(by_spark.metadata))
    assert here.metadata == {"batchWatermarkMs": 5, "conf": {"a": "b"}, "writtenBy": "continuous"}
    assert carried_on(here.metadata) == here.metadata
    assert carried_on(None) is None
    told = [each.is_micro_batch for each in (by_spark, here, OffsetEntry((7,)))]
    assert told == [True, False, False]


def test_what_an_epoch_says_of_itself_alone_is_not_carried_on() -> None:
    held = EpochState(
        next_watermark_ms=5,
        key_groups=8,
        partitions={0: ("a",)},
        marks=Marks((0,), (600,)),
    )
    assert carried_on(held.added_to(None)) == carried_on(EpochState().added_to(None))


def test_round_trip_in_a_new_directory(log: MetadataLog[OffsetEntry]) -> None:
    longs, strings = OffsetEntry((0, 1, 2)), OffsetEntry(("one", "two", "three"))
    assert log.add(0, longs) is True
    assert log.add(1, strings) is True
    assert log.get(0) == longs
    assert log.get(1) == strings
    assert log.add(1, longs) is False
    assert log.get(1) == strings


def test_newer_version(log: MetadataLog[OffsetEntry]) -> None:
    log.storage.create("offsets/0", b"v99999")
    with pytest.raises(CheckpointVersionError) as caught:
        log.get(0)
    assert "maximum supported log version is v2, but encountered v99999" in str(caught.value)
    assert "produced by a newer version of Spark and cannot be read by this version" in str(
        caught.value
    )


def test_spark_2_1_entry() -> None:
    entry = deserialize(
        b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1480981499528}\n'
        b'{"logOffset":345}\n{"topic-0":{"0":1}}'
    )
    assert entry.offsets == ({"logOffset": 345}, {"topic-0": {"0": 1}})
    assert entry.metadata == {"batchWatermarkMs": 0, "batchTimestampMs": 1480981499528}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"batchWatermarkMs": 1},
        {"batchTimestampMs": 2},
        {"conf": {"spark.sql.shuffle.partitions": 3}},
        {"batchWatermarkMs": 1, "batchTimestampMs": 2, "conf": {}, "something": ["newer"]},
    ],
)
def test_any_metadata_is_kept(metadata: dict[str, Any]) -> None:
    text = json.dumps(metadata)  # with spaces, as others may write it
    assert deserialize(f"v1\n  {text} \n7".encode()).metadata == metadata


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "Incomplete log file in the offset log"),
        (b"v", "failed to read correct log version"),
        (b"v1", "metadata line is missing"),
        (b"v1\n", "holds no offsets"),
        (b"v1\n{}", "holds no offsets"),
        (b"v1\n\n", "Expecting value"),
        (b'v1\n\n{"0":', "Expecting value"),
        (b"v1\n[]\n7", "Not a JSON object"),
        (b"v1\n\nNaN", "NaN is not JSON"),
        (b"v1\n\n" + b"[" * 100_000, "nested too deeply"),
        (b"v2\n\n0:7", "version 2 always has metadata"),
        (b"v2\n{}\n7", "Invalid OffsetMap format: 7"),
    ],
)
def test_damage(log: MetadataLog[OffsetEntry], content: bytes, text: str) -> None:
    log.storage.create("offsets/5", content)
    with pytest.raises(CheckpointCorruptError, match=text) as caught:
        log.get(5)
    assert "Failed to read log file" in str(caught.value)
    assert "offsets/5" in str(caught.value)


@pytest.mark.parametrize("offset", [float("nan"), object(), {1, 2}, b"bytes"])
def test_an_offset_that_is_not_json_is_not_written(
    log: MetadataLog[OffsetEntry], offset: object
) -> None:
    with pytest.raises(ValueError, match="JSON"):
        log.add(0, OffsetEntry((offset,)))
    assert log.ids() == []


json_values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
metadata = st.none() | st.dictionaries(st.text(), json_values, max_size=3)


@given(st.lists(st.none() | json_values, min_size=1, max_size=4), metadata)
def test_any_json_round_trips(offsets: list[Any], metadata: dict[str, Any] | None) -> None:
    entry = OffsetEntry(tuple(offsets), metadata)
    content = serialize(entry)
    assert not content.endswith(b"\n")
    assert deserialize(content) == entry
    assert serialize(deserialize(content)) == content


@given(st.data())
def test_a_torn_entry_never_reads_as_another(data: st.DataObject) -> None:
    """Every shorter prefix is refused: the offset is an object, so its end is known."""
    content = serialize(OffsetEntry(({"0": {"value": 22, "runTimeMs": 1795174660561}},)))
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises((ValueError, CheckpointVersionError)):
        deserialize(content[:length])


def test_entries_of_ours_that_micro_batches_can_read_are_told_from_theirs() -> None:
    ours = OffsetEntry(({"next": 7},), batch_metadata(1480981499528))
    data = serialize(ours)
    assert data.decode().splitlines()[1] == (
        '{"batchWatermarkMs":0,"batchTimestampMs":1480981499528,"conf":{},"writtenBy":"continuous"}'
    )
    assert deserialize(data) == ours
    assert not ours.is_micro_batch
    assert not OffsetEntry((7,)).is_micro_batch
    assert OffsetEntry((7,), {"batchWatermarkMs": 0}).is_micro_batch

"""The commit log's bytes; cases after Spark's CommitLogSuite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.logs.commit_log import CommitEntry, commit_log, deserialize, serialize
from engine.checkpoint.logs.metadata_log import MetadataLog
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import CheckpointCorruptError, CheckpointVersionError

STATE_IDS = {"0": [["1", "2"], ["3", "4"]], "1": [["5", "6"], ["7", "8"]]}
ACTIVE = {
    "sinkName": "out",
    "commitOffset": "-",
    "providerName": "parquet",
    "apiVersion": "v1",
    "isActive": True,
}
INACTIVE = {**ACTIVE, "sinkName": "old", "isActive": False}


@pytest.fixture
def log(tmp_path: Path) -> MetadataLog[CommitEntry]:
    return commit_log(LocalStorage(tmp_path))


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        (CommitEntry(), b'v1\n{"nextBatchWatermarkMs":0}'),
        (CommitEntry(1), b'v1\n{"nextBatchWatermarkMs":1}'),
        (
            CommitEntry(233, STATE_IDS, version=2),
            b'v2\n{"nextBatchWatermarkMs":233,"stateUniqueIds":'
            b'{"0":[["1","2"],["3","4"]],"1":[["5","6"],["7","8"]]}}',
        ),
        (CommitEntry(0, {}, version=2), b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'),
        (CommitEntry(0, version=2), b'v2\n{"nextBatchWatermarkMs":0}'),
    ],
)
def test_bytes(entry: CommitEntry, content: bytes) -> None:
    assert serialize(entry) == content
    assert deserialize(content) == entry


@pytest.mark.parametrize("sinks", [{"out": ACTIVE}, {"out": ACTIVE, "old": INACTIVE}])
def test_version_3_keeps_its_sinks(sinks: dict[str, Any]) -> None:
    entry = CommitEntry(42, None, sinks, version=3)
    assert deserialize(serialize(entry)) == entry


@pytest.mark.parametrize("sinks", [None, {}, {"old": INACTIVE}, {"out": ACTIVE, "other": ACTIVE}])
def test_version_3_has_one_active_sink(sinks: dict[str, Any] | None) -> None:
    with pytest.raises(ValueError, match="one active sink"):
        CommitEntry(42, None, sinks, version=3)


def test_version_1_has_no_state_ids() -> None:
    with pytest.raises(ValueError, match="stateUniqueIds cannot be set"):
        CommitEntry(0, STATE_IDS)
    assert CommitEntry(0, {}).state_unique_ids == {}


@pytest.mark.parametrize("content", [b"v1\n{}", b"v1\n", b"v1", b'v1\n{"unknown":[1]}'])
def test_before_spark_2_4(content: bytes) -> None:
    assert deserialize(content) == CommitEntry(0)


def test_trailing_newline_and_unknown_fields() -> None:
    assert deserialize(b'v1\n{"newer":1,"nextBatchWatermarkMs":5}\n') == CommitEntry(5)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "Incomplete log file in the offset commit log"),
        (b"v", "failed to read correct log version"),
        (b"{}", "failed to read correct log version"),
        (b"v1\n{", "Expecting property name"),
        (b'v1\n{"nextBatchWatermarkMs":', "Expecting value"),
        (b'v1\n{"nextBatchWatermarkMs":"x"}', "nextBatchWatermarkMs is 'x'"),
        (b"v1\n[]", "Not a JSON object"),
        (b'v2\n{"stateUniqueIds":[]}', "stateUniqueIds is"),
        (b'v3\n{"nextBatchWatermarkMs":0}', "one active sink"),
        (b'v3\n{"sinkMetadataMap":{"a":1}}', "sinkMetadataMap is"),
    ],
)
def test_damage(log: MetadataLog[CommitEntry], content: bytes, text: str) -> None:
    log.storage.create("commits/5", content)
    with pytest.raises(CheckpointCorruptError, match=text) as caught:
        log.get(5)
    assert "Failed to read log file" in str(caught.value)
    assert "commits/5" in str(caught.value)


def test_newer_version(log: MetadataLog[CommitEntry]) -> None:
    log.storage.create("commits/7", b"v9\n{}")
    with pytest.raises(
        CheckpointVersionError, match="maximum supported log version is v3, but encountered v9"
    ):
        log.get(7)

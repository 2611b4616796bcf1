"""What a table of Delta is as a source, beside :mod:`tests.connectors.lakes.test_sources`."""

from __future__ import annotations

import json
import shutil
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

import deltalake
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    SourceChangedError,
    SourceError,
    SourceUnavailableError,
)
from engine.expressions.schemas import to_arrow
from engine.pipeline.fingerprint import compare, fingerprint
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.delta.places import DiskPlace
from engine.sources.delta.data_source import DeltaSource
from engine.sources.delta.losses import first_kept
from engine.sources.delta.versions import read_version
from tests.connectors.lakes.cases import ARROW, ROWS, DeltaCase
from tests.connectors.lakes.queries import Kept, all_read, committed, final_failure, start
from tests.servers.s3 import s3_server
from tests.unit.delta_tables import writer
from tests.unit.lake_queries import Query

FEED = StructType(
    [
        *ROWS,
        StructField("_change_type", StringType()),
        StructField("_commit_version", LongType()),
        StructField("_commit_timestamp", TimestampType()),
    ]
)


@pytest.fixture
def case(tmp_path: Path) -> DeltaCase:
    return DeltaCase(tmp_path)


def test_an_epoch_may_end_within_a_version(case: DeltaCase) -> None:
    """And a rewound query goes on there, whatever tasks had read ahead."""
    case.add(*range(30), parts=[f"part {number}" for number in range(30)])
    case.add(*range(30, 60), parts=[f"part {number}" for number in range(30)])
    case.read(maxFilesPerTrigger="4")
    assert case.sink.values() == list(range(60))
    checkpoint = Checkpoint(str(case.checkpoint))
    filled = [epoch for epoch, rows in sorted(case.sink.epochs.items()) if rows]
    target = filled[len(filled) // 3]
    checkpoint.rewind(target, accept_repeats=True)
    case.sink.epochs = {e: rows for e, rows in case.sink.epochs.items() if e <= target}
    assert 0 < len(case.sink.rows) < 60
    case.read(maxFilesPerTrigger="4")
    assert case.sink.values() == list(range(60))


def test_how_its_storage_is_reached_may_change(case: DeltaCase) -> None:
    case.add(0)

    def parts(**options: str) -> dict[str, Any]:
        given = {"path": case.table, **options}
        reader = DeltaSource(given).continuousReader(ROWS)
        rows = to_arrow(ROWS, "test")
        pipeline = Pipeline(SourceRelation("continuous_delta", given, rows), (), rows)
        return fingerprint(
            [(pipeline, reader.tuningOptions)], sink_format="noop", sink_options={}, sink_tuning=()
        )

    found = parts(**{"storage.AWS_REGION": "eu", "storage.AWS_SECRET_ACCESS_KEY": "hunter1"})
    assert found["sources"][0]["options"] == {"path": case.table}
    assert compare(found, parts(**{"storage.timeout": "9s"})) == []


def test_what_is_deleted_or_changed_is_refused_or_left_out(case: DeltaCase) -> None:
    case.add(0, 1)
    case.read()
    case.delete("value = 1")
    assert "version 1 deletes rows" in final_failure(case.start())
    case.read(ignoreDeletes="true")
    case.add(2, 5, 8)
    case.read()
    case.deltas().update(updates={"value": "50"}, predicate="value = 5")
    assert "version 3 changes rows" in final_failure(case.start(ignoreDeletes="true"))
    assert case.sink.values() == [0, 1, 2, 5, 8]
    checkpoint = Checkpoint(str(case.checkpoint))
    last = checkpoint.committed_epoch()
    case.read(skipChangeCommits="true")
    assert case.sink.values() == [0, 1, 2, 5, 8]
    checkpoint.rewind(last, accept_repeats=True)
    case.sink.epochs = {e: rows for e, rows in case.sink.epochs.items() if e <= last}
    case.read(ignoreChanges="true")
    assert case.sink.values() == [0, 1, 2, 2, 5, 8, 8, 50]


def test_a_feed_tells_each_change(case: DeltaCase) -> None:
    case.add(0, 1, configuration={"delta.enableChangeDataFeed": "true"})
    case.read(FEED, readChangeFeed="true")
    case.add(2)
    case.deltas().update(updates={"value": "20"}, predicate="value = 2")
    case.delete("p = 'x'")
    case.read(FEED, readChangeFeed="true")
    found = [
        (row["_commit_version"], row["_change_type"], row["value"], row["p"])
        for row in case.sink.rows
    ]
    assert sorted(found) == [
        (0, "insert", 0, "x"), (0, "insert", 1, "y"), (1, "insert", 2, "z"),
        (2, "update_postimage", 20, "z"), (2, "update_preimage", 2, "z"), (3, "delete", 0, "x"),
    ]  # fmt: skip
    times = {row["_commit_version"]: row["_commit_timestamp"] for row in case.sink.rows}
    assert None not in times.values()
    assert times[0] <= times[1] <= times[2] <= times[3]


def test_a_table_without_a_feed_is_refused(case: DeltaCase) -> None:
    case.add(0)
    with pytest.raises(ConfigError, match="enableChangeDataFeed"):
        case.start(FEED, readChangeFeed="true")
    with pytest.raises(ConfigError, match="have no meaning"):
        case.start(FEED, readChangeFeed="true", ignoreDeletes="true")


def test_compactions_are_no_news(case: DeltaCase) -> None:
    for value in range(4):
        case.add(value, parts="x")
    case.read()
    case.deltas().optimize.compact()
    case.add(4)
    case.read()
    assert case.sink.values() == list(range(5))


def test_versions_that_are_gone_are_told(case: DeltaCase) -> None:
    case.add(0)
    case.read()
    for value in range(1, 4):
        case.add(value)
    clean_up(case, range(1, 3))
    told = final_failure(case.start())
    assert "the versions 1 to 2 are no longer in the log" in told
    case.read(failOnDataLoss="false")
    assert case.sink.values() == [0, 3]


@pytest.fixture
def asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.sources.delta.run.ASK_S", 0.0)


def clean_up(case: DeltaCase, gone: range) -> None:
    """As the clean-up of the log does, once it is old enough."""
    case.deltas().create_checkpoint()
    for version in gone:
        (case.root / f"_delta_log/{version:020}.json").unlink()


@pytest.mark.usefixtures("asks_at_once")
def test_a_live_run_is_told_of_versions_that_are_gone(case: DeltaCase) -> None:
    """They came, and the log was cleaned up, between two looks of the run."""
    case.add(0)
    runs = [
        case.source(failOnDataLoss=fails, pollIntervalMs="1").continuousReader(ROWS)
        for fails in ("true", "false", "false")
    ]
    strict, lenient, columns = [each.handingOut(each.initialOffset()) for each in runs]
    for run in (strict, lenient, columns):
        assert units(run) == ["0:0"]
    for value in range(1, 4):
        case.add(value)
    clean_up(case, range(3))
    with pytest.raises(OffsetOutOfRangeError, match="the versions 1 to 2 are no longer in the log"):
        units(strict)
    assert units(lenient) == ["3:0"]
    case.add(4)
    assert units(lenient) == ["4:0"]
    more = pa.table({"value": [1], "p": ["x"], "more": pa.array([7], pa.int32())})
    deltalake.write_deltalake(case.table, more, mode="append", schema_mode="merge")
    clean_up(case, range(3, 6))
    with pytest.raises(SourceChangedError, match="the columns of the table"):
        units(columns)


@pytest.mark.usefixtures("asks_at_once")
def test_a_live_run_reads_what_came_while_it_asked(
    case: DeltaCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a change of columns among it is told."""
    case.add(0)
    reader = case.source(pollIntervalMs="1").continuousReader(ROWS)
    run = reader.handingOut(reader.initialOffset())
    assert units(run) == ["0:0"]
    look = DiskPlace.log_names

    def meanwhile(place: DiskPlace) -> set[str]:
        monkeypatch.setattr(DiskPlace, "log_names", look)
        case.add(1)
        more = pa.table({"value": [2], "p": ["x"], "more": pa.array([7], pa.int32())})
        deltalake.write_deltalake(case.table, more, mode="append", schema_mode="merge")
        return look(place)

    monkeypatch.setattr(DiskPlace, "log_names", meanwhile)
    assert units(run) == ["1:0"]
    with pytest.raises(SourceChangedError, match="version 2 changes the columns"):
        units(run)


@pytest.mark.usefixtures("asks_at_once")
def test_a_live_run_is_told_of_another_table_in_the_same_place(case: DeltaCase) -> None:
    case.add(0)
    reader = case.source(pollIntervalMs="1").continuousReader(ROWS)
    run = reader.handingOut(reader.initialOffset())
    assert units(run) == ["0:0"]
    case.add(1)
    assert units(run) == ["1:0"]
    aside = case.root.with_name("aside")
    shutil.copytree(case.root, aside)
    (aside / f"_delta_log/{1:020}.json").unlink()
    shutil.rmtree(case.root)
    case.add(2)
    with pytest.raises(SourceChangedError, match="is another table"):
        units(run)
    shutil.rmtree(case.root)
    aside.rename(case.root)
    with pytest.raises(SourceChangedError, match="ends at version 0, and had version 1 before"):
        units(run)


def test_a_version_that_is_read_as_a_whole_and_is_gone_is_told(case: DeltaCase) -> None:
    for value in range(3):
        case.add(value)
    reader = case.source(pollIntervalMs="1").continuousReader(ROWS)
    run = reader.handingOut(reader.initialOffset())
    case.add(3)
    clean_up(case, range(3))
    with pytest.raises(OffsetOutOfRangeError, match=r"version 2 of the table .* is no longer"):
        units(run)


def test_what_is_another_table_has_lost_nothing(case: DeltaCase) -> None:
    """Though it lacks versions that the other one had."""
    for value in range(3):
        case.add(value)
    reader = case.source(startingVersion="1", failOnDataLoss="false").continuousReader(ROWS)
    run = reader.handingOut(reader.initialOffset())
    shutil.rmtree(case.root)
    case.add(0)
    with pytest.raises(SourceChangedError, match="is another table"):
        units(run)


def test_what_comes_behind_versions_that_are_gone() -> None:
    class Log(DiskPlace):
        def __init__(self, *names: str) -> None:
            super().__init__(Path("/table"))
            self.names = set(names)

        def log_names(self) -> set[str]:
            return self.names

    entry, checkpoint = f"{5:020}.json", f"{4:020}.checkpoint.0000000001.0000000001.parquet"
    other = {"_last_checkpoint", f"{9:020}.crc", f"{8:020}.json.tmp"}
    assert first_kept(Log(entry, checkpoint, *other), 2) == 5
    assert first_kept(Log(checkpoint, *other), 2) == 5
    assert first_kept(Log(checkpoint, *other), 6) == 7
    with pytest.raises(SourceUnavailableError, match="is not there"):
        first_kept(Log(*other), 2)


def units(run: Any) -> list[str]:
    """What it hands out next, if that comes soon."""
    for _ in range(10):
        works = run.next(0.001) or {}
        if found := [unit.name for work in works.values() for unit in work.units]:
            return found
    return []


@pytest.mark.usefixtures("asks_at_once")
def test_a_run_tells_when_nothing_is_left(case: DeltaCase) -> None:
    """Every partition hears it, and that there is more again."""
    case.add(0)
    reader = case.source(pollIntervalMs="1").continuousReader(ROWS)
    run = reader.handingOut(reader.initialOffset())
    partitions = set(range(len(reader.partitions(reader.initialOffset()))))
    told = [run.next(0.001) or {} for _ in range(3)]
    assert [[each.is_all for each in works.values()] for works in told if works] == [
        [False],
        [True] * len(partitions),
    ]
    case.add(1)
    works = run.next(0.001) or {}
    assert works.keys() == partitions
    assert not any(each.is_all for each in works.values())


def test_a_vacuumed_file_is_told(case: DeltaCase) -> None:
    case.add(0)
    case.read()
    case.add(1)
    case.delete("value = 1")
    case.deltas().vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert "was vacuumed before its rows were read" in final_failure(
        case.start(ignoreDeletes="true")
    )


def test_another_table_of_the_same_place_is_refused(case: DeltaCase) -> None:
    case.add(0)
    case.read()
    shutil.rmtree(case.table)
    case.add(1)
    assert "is another table" in final_failure(case.start())


def test_a_change_of_columns_ends_the_query_and_a_start_takes_them_up(case: DeltaCase) -> None:
    case.add(0)
    query = case.start()
    query.processAllAvailable()
    more = pa.table({"value": [1], "p": ["x"], "more": pa.array([7], pa.int32())})
    deltalake.write_deltalake(case.table, more, mode="append", schema_mode="merge")
    assert "changes the columns" in final_failure(query)
    wider = StructType([*ROWS, StructField("more", IntegerType())])
    assert DeltaSource({"path": case.table}).schema().simpleString() == wider.simpleString()
    case.read(wider)
    assert [row.get("more") for row in case.sink.rows] == [None, 7]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingVersion": "x"}, "startingVersion"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "both"),
        ({"startingTimestamp": "soon"}, "startingTimestamp"),
        ({"endingVersion": "1"}, "no option 'endingversion'"),
    ],
)
def test_options_are_refused_aloud(case: DeltaCase, options: dict[str, str], text: str) -> None:
    case.add(0)
    with pytest.raises(ConfigError, match=text):
        case.start(**options)


@pytest.mark.parametrize("name", ["a#b", "a?b"])
def test_a_time_is_refused_where_no_history_is_read(tmp_path: Path, name: str) -> None:
    """Delta's client finds none in such a folder."""
    (tmp_path / name).mkdir()
    case = DeltaCase(tmp_path / name)
    case.add(0)
    with pytest.raises(ConfigError, match=r"startingTimestamp.*no history"):
        case.start(startingTimestamp="2020-01-01T00:00:00Z")
    case.read(startingVersion="0")
    assert case.sink.values() == [0]


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["strange"]}}, "for strange"),
        (
            {"add": {"path": "a", "deletionVector": {"storageType": "u"}, "partitionValues": {}}},
            "has a deletion vector",
        ),
        (
            {"metaData": {"id": "1", "configuration": {"delta.columnMapping.mode": "name"}}},
            "delta.columnMapping.mode name",
        ),
    ],
)
def test_what_is_not_read_here_is_refused(case: DeltaCase, action: Any, text: str) -> None:
    log = case.folder / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text(json.dumps(action))
    with pytest.raises(SourceChangedError, match=text):
        read_version(DiskPlace(case.folder), 0)


def test_a_text_that_has_ends_of_lines_of_unicode_is_read(case: DeltaCase) -> None:
    texts = ["a\u2028b", "c\u0085d", "e\u2029f\x1cg", "h\r\ni"]
    query = Query(writer(case.root, ARROW))
    for epoch, text in enumerate(texts):
        query.commit(epoch, pa.record_batch({"value": [epoch], "p": [text]}, ARROW))
    case.read(startingVersion="0")
    assert [row["p"] for row in sorted(case.sink.rows, key=itemgetter("value"))] == texts


def test_a_damaged_entry_of_the_log_is_named(case: DeltaCase) -> None:
    log = case.folder / "_delta_log"
    log.mkdir()
    for data in (b'{"add":', b"\xff"):
        (log / f"{3:020}.json").write_bytes(data)
        with pytest.raises(SourceError, match=f"_delta_log/{3:020}.json of the table .* damaged"):
            read_version(DiskPlace(case.folder), 3)


def test_a_table_is_read_from_an_object_store(tmp_path: Path) -> None:
    pytest.importorskip("moto.server", reason="needs moto[server]")
    with s3_server(tmp_path) as s3:
        url = f"s3://{s3.bucket()}/tables/one"
        settings = {f"storage.{name}": value for name, value in s3.delta_options.items()}

        def add(*values: int) -> None:
            rows = {"value": list(values), "p": [f"a {value}/%" for value in values]}
            deltalake.write_deltalake(
                url,
                pa.table(rows),
                mode="append",
                partition_by=["p"],
                storage_options=s3.delta_options,
            )

        add(0, 1)
        kept = Kept()
        query = start(DeltaSource({"path": url, **settings}), ROWS, tmp_path / "checkpoint", kept)
        query.processAllAvailable()
        add(2, 3)
        all_read(query)
        assert kept.values() == [0, 1, 2, 3]
        secret = s3.delta_options["AWS_SECRET_ACCESS_KEY"]
        assert secret not in str(committed(tmp_path / "checkpoint"))

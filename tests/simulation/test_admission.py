"""Starts that are refused, and a rewind between two of them: the engine on threads, real files."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import INTENT
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointError, ConfigError
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.files.data_source import ParquetDataSource
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sinks.reopen import recorded_sink
from engine.sources.rate import RateDataSource
from tests.model import Feed, ModelSink, definition

WAIT_S = 30
SPARK_SCHEMA = StructType(
    [StructField("timestamp", TimestampType()), StructField("value", LongType())]
)
SCHEMA = to_arrow(SPARK_SCHEMA, "test")


def started(query: QueryDefinition) -> ContinuousQuery:
    execution = ContinuousExecution(query, ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


def committed(query: QueryDefinition, epochs: int = 1) -> None:
    """Run so many epochs."""
    handle = started(query)
    assert handle.awaitEpoch(handle.status["epoch"] + epochs, WAIT_S)
    handle.drain(WAIT_S)
    assert handle.exception() is None


def with_pipeline(query: QueryDefinition, **changes: Any) -> QueryDefinition:
    """The query with another plan."""
    (stream,) = query.streams
    changed = replace(stream, pipeline=replace(stream.pipeline, **changes))
    return replace(query, streams=(changed,))


def from_rate(folder: Path, out: str = "out", **options: Any) -> QueryDefinition:
    """From ``rate`` to Parquet files."""
    source = RateDataSource({"rowsPerSecond": "2000", "numPartitions": "2"})
    path = str(folder / out)
    writer = ParquetDataSource({"path": path}).streamWriter(SPARK_SCHEMA, overwrite=False)
    return QueryDefinition(
        name=None,
        streams=(
            StreamBinding(
                Pipeline(SourceRelation("rate", {"numPartitions": "2"}, SCHEMA), (), SCHEMA),
                source.continuousReader(SPARK_SCHEMA),
                "rate",
            ),
        ),
        sink=bind_writer(writer, "parquet", "parquet", {"path": path}),
        checkpoint=Checkpoint(str(folder / "checkpoint")),
        epoch_interval_ms=30,
        options=EngineOptions(lease_heartbeat_ms=50, **options),
    )


def committed_values(folder: Path) -> list[int]:
    log = FileSinkLog(open_storage(str(folder / "out" / FOLDER)))
    return sorted(
        value
        for file in log.files()
        for value in pq.read_table(file.path.removeprefix("file://"))["value"].to_pylist()
    )


def expected_values(checkpoint: Checkpoint) -> list[int]:
    """What has been read up to the last committed epoch."""
    offsets = checkpoint.committed_offsets()
    assert offsets is not None
    return sorted(
        value
        for partition, position in offsets[0].items()
        for value in range(int(partition), position["value"] + 1, 2)
    )


def test_rewound_queries_lose_and_repeat_no_row(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    for turn in range(8):
        committed(from_rate(tmp_path), epochs=4)
        last = checkpoint.committed_epoch()
        if turn == 1:
            checkpoint.pin("early", last - 2, sink=recorded_sink(checkpoint))
        if turn == 5:
            report = checkpoint.rewind(to_pin="early", sink=recorded_sink(checkpoint))
        else:
            report = checkpoint.rewind(last - 1 - turn % 3, sink=recorded_sink(checkpoint))
        assert report.taken_back
        assert committed_values(tmp_path) == expected_values(checkpoint)
        assert checkpoint.status().state is QueryState.STOPPED
    committed(from_rate(tmp_path), epochs=12)
    values = committed_values(tmp_path)
    assert len(values) > 100
    assert values == expected_values(checkpoint)
    holder = checkpoint.holder()
    assert holder is not None
    assert holder.generation == 16, "8 runs, 8 rewinds, 1 run"


class HalfWay(LocalStorage):
    """The storage goes away when the first offsets are to be moved."""

    def move(self, name: str, to: str) -> None:
        if name.startswith("offsets/"):
            raise CheckpointError("The storage is away.")
        super().move(name, to)


def test_a_start_finishes_an_interrupted_rewind(tmp_path: Path) -> None:
    committed(from_rate(tmp_path), epochs=6)
    checkpoint = Checkpoint(HalfWay(tmp_path / "checkpoint"))
    with pytest.raises(CheckpointError, match="The storage is away"):
        checkpoint.rewind(2, sink=recorded_sink(checkpoint))
    assert checkpoint.storage.exists(INTENT)
    handle = started(from_rate(tmp_path))
    first = handle.status["epoch"]
    assert handle.awaitEpoch(first + 3, WAIT_S)
    handle.drain(WAIT_S)
    assert not checkpoint.storage.exists(INTENT)
    assert committed_values(tmp_path) == expected_values(checkpoint)


def test_another_source_and_another_sink_are_refused_together(tmp_path: Path) -> None:
    committed(from_rate(tmp_path))
    other = from_rate(tmp_path, out="elsewhere")
    relation = SourceRelation("rate", {"numPartitions": "4"}, SCHEMA)
    other = with_pipeline(other, source=relation)
    with pytest.raises(ConfigError) as caught:
        started(other)
    assert "source.options.numpartitions: 2 → 4" in str(caught.value)
    assert f"sink.options.path: {tmp_path}/out → {tmp_path}/elsewhere" in str(caught.value)
    assert 'option("allowChangedQuery", "true")' in str(caught.value)
    committed(from_rate(tmp_path)), "the checkpoint is as it was"


def test_allowed_it_goes_on_in_the_new_sink(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    committed(from_rate(tmp_path))
    with caplog.at_level(logging.WARNING):
        committed(from_rate(tmp_path, out="elsewhere", allow_changed_query=True))
    assert f"sink.options.path: {tmp_path}/out → {tmp_path}/elsewhere" in caplog.text
    committed(from_rate(tmp_path, out="elsewhere"))
    with pytest.raises(ConfigError, match=r"sink\.options\.path"):
        started(from_rate(tmp_path))


def test_another_filter_is_told_and_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    query = from_rate(tmp_path)
    committed(query)
    changed = from_rate(tmp_path)
    changed = with_pipeline(changed, descriptions=("Filter x",))
    with caplog.at_level(logging.INFO):
        committed(changed)
    assert "the query has changed: source.steps: nothing → Filter x" in caplog.text


def test_a_checkpoint_without_a_fingerprint_gets_one(tmp_path: Path) -> None:
    committed(from_rate(tmp_path))
    path = tmp_path / "checkpoint" / "control" / "fingerprint"
    before = path.read_bytes()
    path.unlink()
    committed(from_rate(tmp_path))
    assert path.read_bytes() == before


def test_secrets_that_an_earlier_release_noted_are_taken_out(tmp_path: Path) -> None:
    def query() -> QueryDefinition:
        made = from_rate(tmp_path)
        options = {**made.sink.options, "container": "https://a/c?sv=1&sig=hunter2"}
        return replace(made, sink=replace(made.sink, options=options))

    committed(query())
    path = tmp_path / "checkpoint" / "control" / "fingerprint"
    noted = path.read_text()
    assert "sig=***" in noted
    path.write_text(noted.replace("sig=***", "sig=hunter2"))
    committed(query())
    assert path.read_text() == noted


def test_an_option_that_told_queries_apart_for_an_earlier_release_does_no_more(
    tmp_path: Path,
) -> None:
    committed(from_rate(tmp_path))
    path = tmp_path / "checkpoint" / "control" / "fingerprint"
    noted = path.read_text()
    of_before = noted.replace('"2"', '"2",\n"rampuptime": "1s"', 1)
    assert json.loads(of_before)["sources"][0]["options"]["rampuptime"] == "1s"
    path.write_text(of_before)
    committed(from_rate(tmp_path))
    assert path.read_text() == noted


class Noting(ModelSink):
    """Notes what it is told of rewinds."""

    told: list[int] | None = None

    def afterRewind(self, epoch: int) -> None:
        self.told = [*(self.told or []), epoch]


def test_a_writer_is_told_of_a_rewind_that_was_done_without_it(tmp_path: Path) -> None:
    feed, sink = Feed(1), Noting()
    feed.add(1)
    committed(definition(feed, sink, tmp_path), epochs=5)
    committed(definition(feed, sink, tmp_path))
    assert sink.told is None
    checkpoint = Checkpoint(str(tmp_path))
    target = checkpoint.committed_epoch() - 2
    checkpoint.rewind(target, accept_repeats=True)
    committed(definition(feed, sink, tmp_path))
    assert sink.told == [target]


class Forgetful(LocalStorage):
    """A store that ignores the condition of a conditional write."""

    def create(self, name: str, data: bytes) -> bool:
        self.replace(name, data)
        return True


def test_exactly_once_needs_storage_that_keeps_its_promise(tmp_path: Path) -> None:
    feed, sink = Feed(1), ModelSink()
    query = definition(feed, sink, tmp_path)
    query = replace(query, checkpoint=Checkpoint(Forgetful(tmp_path)))
    with pytest.raises(ConfigError, match=r"cannot run exactly once: .* create-if-absent"):
        started(query)
    assert sink.commit_calls == []


def test_at_least_once_is_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    feed, sink = Feed(1), ModelSink()
    query = definition(feed, sink, tmp_path)
    query = replace(
        query,
        checkpoint=Checkpoint(Forgetful(tmp_path)),
        sink=replace(query.sink, driver=replace(query.sink.driver, delivery="at least once")),
    )
    feed.add(3)
    with caplog.at_level(logging.WARNING):
        committed(query)
    assert "two runs at once would not be noticed" in caplog.text


class Counting(LocalStorage):
    """Counts the probes."""

    probes = 0

    def create(self, name: str, data: bytes) -> bool:
        if "probe" in name:
            Counting.probes += 1
        return super().create(name, data)


def test_storage_is_tried_once_per_checkpoint(tmp_path: Path) -> None:
    Counting.probes = 0
    feed, sink = Feed(1), ModelSink()
    feed.add(1)
    for _ in range(3):
        query = definition(feed, sink, tmp_path)
        committed(replace(query, checkpoint=Checkpoint(Counting(tmp_path))))
    assert Counting.probes == PROBES


PROBES = 6  # creates of one trial


class Upgraded(Counting):
    """The same folder through another version of what reaches it."""

    @property
    def identity(self) -> dict[str, str]:
        return {**super().identity, "version": "fs 2"}


def test_storage_is_tried_again_when_what_speaks_to_it_has_changed(tmp_path: Path) -> None:
    Counting.probes = 0
    feed, sink = Feed(1), ModelSink()
    feed.add(1)
    for trials, storage in enumerate((Counting, Upgraded, Upgraded, Counting), start=1):
        query = definition(feed, sink, tmp_path)
        committed(replace(query, checkpoint=Checkpoint(storage(tmp_path))))
        assert Counting.probes == PROBES * min(trials, 2) + PROBES * (trials > 3)


def test_storage_of_an_earlier_release_is_tried_once_more(tmp_path: Path) -> None:
    """Which noted that it was tried, and not with what."""
    Counting.probes = 0
    feed, sink = Feed(1), ModelSink()
    storage = Counting(tmp_path)
    storage.create("control/storage", b'{"createIfAbsent":true}')
    for _ in range(2):
        committed(replace(definition(feed, sink, tmp_path), checkpoint=Checkpoint(storage)))
    assert Counting.probes == PROBES
    assert json.loads(storage.read("control/storage"))["provedWith"] == {"protocol": "file"}

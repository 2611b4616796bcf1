"""Records that cannot be parsed or computed: the query fails, leaves them out, or keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from engine.base.json_text import EXCERPT_CHARACTERS
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.opening import open_storage
from engine.errors import (
    BadRecordError,
    ConfigError,
    ContinuousError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    TransformError,
)
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import Pipeline, Project, SourceRelation
from engine.progress.counters import EpochCounters
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.dead_letters import with_dead_letters
from engine.sinks.files.data_source import JsonDataSource
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sinks.files.file_sink_rewind import FileSinkRewind
from engine.sources.tail.data_source import TailDataSource
from engine.task.bad_records import BadRecords
from engine.task.intake import Origin
from tests.model import ONE_ATTEMPT, ModelMessage
from tests.simulation.story import WAIT_S

SPARK_SCHEMA = StructType([StructField("n", LongType())])
SCHEMA = pa.schema([pa.field("n", pa.int64())])
N = Expr("Column", (), pa.int64(), True, {"ordinal": 0, "name": "n"})
HUNDRED = Expr("Literal", (), pa.int64(), False, {"value": 100})
QUOTIENT = Expr("IntegralDivide", (HUNDRED, N), pa.int64(), True, {"eval_mode": "ANSI"})
ON_FIRE = OSError("disk on fire")
LINES = ['{"n": 1}', '{"n": "one", "password": "hidden"}', '{"n": 0}', '{"n": 5}', "{", '{"n": 4}']


class Query:
    """From JSON lines to JSON files: 100 div n."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.folder = folder
        self.policy = policy
        (folder / "in").mkdir()

    def feed(self, name: str, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        (self.folder / f".{name}").write_text(text)
        (self.folder / f".{name}").rename(self.folder / "in" / name)

    def start(
        self, *, fails: Exception | None = None, policy: str | None = None
    ) -> ContinuousQuery:
        """:param fails: with the first epoch that has rows."""
        policy = policy or self.policy
        source = TailDataSource({"path": str(self.folder / "in"), "fileFormat": "json"})
        writer: Any = JsonDataSource({"path": str(self.folder / "out")}).streamWriter(
            SPARK_SCHEMA, overwrite=False
        )
        sink = bind_writer(writer, "json")
        if fails is not None:
            failing = _failing(writer.commit, fails)
            sink = replace(sink, driver=replace(sink.driver, commit=failing))
        options = replace(ONE_ATTEMPT, on_bad_record=policy)
        if policy == "dead-letter":
            sink = with_dead_letters(sink, str(self.folder / "letters"))
        relation = SourceRelation("tail", {}, SCHEMA)
        definition = QueryDefinition(
            name=None,
            streams=(
                StreamBinding(
                    Pipeline(relation, (Project((QUOTIENT,), SCHEMA),), SCHEMA),
                    source.continuousReader(SPARK_SCHEMA),
                    "tail[in]",
                ),
            ),
            sink=sink,
            checkpoint=Checkpoint(str(self.folder / "checkpoint")),
            epoch_interval_ms=50,
            options=options,
        )
        execution = ContinuousExecution(definition, ThreadLauncher())
        execution.start()
        return ContinuousQuery(execution, str)

    def committed(self, folder: str) -> list[dict[str, Any]]:
        """The rows of the committed files, in the order of the epochs."""
        log = FileSinkLog(open_storage(str(self.folder / folder / FOLDER)))
        return [
            json.loads(line)
            for file in log.files()
            for line in Path(file.path.removeprefix("file://")).read_text().splitlines()
        ]


def _failing(commit: Callable[[Any, int], None], error: Exception) -> Callable[[Any, int], None]:
    def failing(messages: Any, epoch: int) -> None:
        if any(message.files for message in messages):
            raise error
        commit(messages, epoch)

    return failing


def values(rows: list[dict[str, Any]]) -> list[int]:
    return [row["n"] for row in rows]


def test_fail_names_the_line_and_shows_it(tmp_path: Path) -> None:
    query = Query(tmp_path, "fail")
    query.feed("a.json", LINES)
    with pytest.raises(BadRecordError, match=r"a\.json, byte 9: the line cannot be read") as caught:
        query.start().awaitTermination(WAIT_S)
    assert '"n": "one"' in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "onBadRecord" in str(caught.value)
    assert caught.value.partition == 0


def test_fail_shows_the_row_that_an_expression_fails_on(tmp_path: Path) -> None:
    query = Query(tmp_path, "fail")
    query.feed("a.json", ['{"n": 1}', '{"n": 0}', '{"n": 2}'])
    with pytest.raises(TransformError, match="DIVIDE_BY_ZERO") as caught:
        query.start().awaitTermination(WAIT_S)
    assert '{"n": 0}' in str(caught.value)
    assert "Partition 0 of tail[in]" in str(caught.value)
    assert '{"a.json":27,' in str(caught.value)


def test_skip_counts_what_it_leaves_out(tmp_path: Path) -> None:
    query = Query(tmp_path, "skip")
    query.feed("a.json", LINES)
    run = query.start()
    run.processAllAvailable()
    run.drain(WAIT_S)
    assert values(query.committed("out")) == [100, 20, 25]
    reports = run.recentProgress
    assert sum(report["numBadRecords"] for report in reports) == 3
    assert sum(report["numInputRows"] for report in reports) == len(LINES)
    assert sum(report["sink"]["numOutputRows"] for report in reports) == 3


def test_dead_letters_hold_everything_needed_to_send_them_again(tmp_path: Path) -> None:
    query = Query(tmp_path, "dead-letter")
    query.feed("a.json", LINES)
    run = query.start()
    run.processAllAvailable()
    run.drain(WAIT_S)
    assert values(query.committed("out")) == [100, 20, 25]
    letters = query.committed("letters")
    assert sorted(letter["record"] for letter in letters) == sorted([LINES[1], LINES[2], LINES[4]])
    by_record = {letter["record"]: letter for letter in letters}
    assert json.loads(by_record[LINES[1]]["offset"]) == {"a.json": 9 + len(LINES[1]) + 1}
    assert "DIVIDE_BY_ZERO" in by_record[LINES[2]]["error"]
    assert {letter["source"] for letter in letters} == {"tail[in]"}
    assert {letter["epoch"] for letter in letters} <= set(
        Checkpoint(str(tmp_path / "checkpoint")).epochs()
    )


def test_letters_and_rows_are_in_the_same_epoch_after_a_crash_between_them(tmp_path: Path) -> None:
    query = Query(tmp_path, "dead-letter")
    query.feed("a.json", LINES)
    with pytest.raises(ContinuousError, match="disk on fire"):
        query.start(fails=ON_FIRE).awaitTermination(WAIT_S)
    query.feed("b.json", LINES)
    again = query.start()
    again.processAllAvailable()
    again.drain(WAIT_S)
    assert sorted(values(query.committed("out"))) == [20, 20, 25, 25, 100, 100]
    assert len(query.committed("letters")) == 6


def test_letters_of_an_epoch_that_the_sink_has_dropped_are_those_of_the_first_time(
    tmp_path: Path,
) -> None:
    query = Query(tmp_path, "dead-letter")
    query.feed("a.json", LINES)
    with pytest.raises(PreparedEpochLostError):
        query.start(fails=PreparedEpochLostError("It has timed out.")).awaitTermination(WAIT_S)
    letters = query.committed("letters")
    assert len(letters) == 3
    query.start().drain(WAIT_S)
    query.feed("b.json", LINES)
    again = query.start()
    again.processAllAvailable()
    again.drain(WAIT_S)
    assert sorted(values(query.committed("out"))) == [20, 20, 25, 25, 100, 100]
    assert query.committed("letters")[:3] == letters
    assert len(query.committed("letters")) == 6


def test_letters_are_rewound_with_their_query(tmp_path: Path) -> None:
    query = Query(tmp_path, "dead-letter")
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    for name in ("a.json", "b.json", "c.json"):
        query.feed(name, LINES)
        run = query.start()
        run.processAllAvailable()
        run.drain(WAIT_S)
        if name == "a.json":
            after_the_first = checkpoint.committed_epoch()
    log = FileSinkLog(open_storage(str(tmp_path / "out" / FOLDER)))
    checkpoint.rewind(after_the_first, sink=FileSinkRewind(log))
    assert values(query.committed("out")) == [100, 20, 25]
    again = query.start()
    again.processAllAvailable()
    again.drain(WAIT_S)
    assert sorted(values(query.committed("out"))) == [20, 20, 20, 25, 25, 25, 100, 100, 100]
    assert len(query.committed("letters")) == 9


def test_letters_that_nobody_would_keep_any_more_are_not_dropped(tmp_path: Path) -> None:
    query = Query(tmp_path, "dead-letter")
    query.feed("a.json", LINES)
    with pytest.raises(ContinuousError, match="disk on fire"):
        query.start(fails=ON_FIRE).awaitTermination(WAIT_S)
    with pytest.raises(ConfigError, match="prepared with bad records"):
        query.start(policy="skip")
    again = query.start()
    again.drain(WAIT_S)
    assert sorted(values(query.committed("out"))) == [20, 25, 100]
    assert len(query.committed("letters")) == 3


@pytest.mark.parametrize(("before", "after"), [("dead-letter", "fail"), ("fail", "dead-letter")])
def test_an_open_epoch_without_bad_records_goes_on_under_another_policy(
    tmp_path: Path, before: str, after: str
) -> None:
    query = Query(tmp_path, before)
    query.feed("a.json", ['{"n": 1}', '{"n": 2}'])
    with pytest.raises(ContinuousError, match="disk on fire"):
        query.start(fails=ON_FIRE).awaitTermination(WAIT_S)
    query.start(policy=after).drain(WAIT_S)
    assert values(query.committed("out")) == [100, 50]


def test_no_letters_no_files(tmp_path: Path) -> None:
    query = Query(tmp_path, "dead-letter")
    query.feed("a.json", ['{"n": 1}'])
    run = query.start()
    run.processAllAvailable()
    run.drain(WAIT_S)
    assert list((tmp_path / "letters").glob("part-*")) == []


def test_a_message_of_another_sink_is_refused(tmp_path: Path) -> None:
    writer: Any = JsonDataSource({"path": str(tmp_path)}).streamWriter(SPARK_SCHEMA, False)
    with pytest.raises(SinkCommitRejectedError, match="another sink: it has a ModelMessage"):
        writer.commit([ModelMessage([]), None], 0)


def test_a_record_of_the_far_future_is_shown() -> None:
    far = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    batch = pa.RecordBatch.from_arrays([far], names=["day"])
    bad = BadRecords("dead-letter", lambda: Origin("tail[in]", 0, {"a": 1}))
    bad.begin(0, EpochCounters())
    bad.sift(lambda _: 1 / 0, batch)  # type: ignore[arg-type,return-value]
    (letter,) = bad.letters().to_pylist()
    assert "day" in json.loads(letter["record"])


def test_an_offset_of_many_files_does_not_swell_what_is_told_of_a_record() -> None:
    offset = {f"f{number:05}.log": number for number in range(10_000)}
    origin = Origin("tail[in]", 0, offset)
    batch = pa.RecordBatch.from_pydict({"n": range(1000)})

    def failing(_: pa.RecordBatch) -> Any:
        raise ValueError("too bad")

    strict = BadRecords("fail", lambda: origin)
    with pytest.raises(
        TransformError, match=r'the offset {"f00000.log":0,.*\.\.\., is {"n": 0}'
    ) as err:
        strict.sift(failing, batch)
    assert len(str(err.value)) < 1000
    keeping = BadRecords("dead-letter", lambda: origin)
    keeping.begin(0, EpochCounters())
    keeping.sift(failing, batch)
    keeping.unreadable(BadRecordError("not JSON", record="{", offset=offset))
    letters = keeping.letters().to_pylist()
    assert len(letters) == 1001
    (told,) = {letter["offset"] for letter in letters}
    assert told == f"{json.dumps(offset, separators=(',', ':'))[:EXCERPT_CHARACTERS]}..."


def test_letters_go_on_in_their_folder_after_epochs_without_any(tmp_path: Path) -> None:
    query = Query(tmp_path, "dead-letter")
    for name, policy in (("a", "dead-letter"), ("b", "skip"), ("c", "skip"), ("d", "dead-letter")):
        query.policy = policy
        query.feed(f"{name}.json", LINES)
        run = query.start()
        run.processAllAvailable()
        run.drain(WAIT_S)
    assert values(query.committed("out")) == [100, 20, 25] * 4
    assert len(query.committed("letters")) == 6

"""A query over files that may be changed, and whose first epoch is prepared and not committed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

from engine.errors import ConfigError, PreparedEpochLostError, SinkUnavailableError
from engine.execution.definition import StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.handle import ContinuousQuery
from engine.sources.files.data_source import JsonSource
from tests.model import SCHEMA, Feed, ModelMessage, ModelSink, definition

WAIT_S = 120
FILES = 24
COLUMNS = StructType().add("partition", IntegerType()).add("seq", LongType())


@dataclass
class HalfSink(ModelSink):
    """Once it loses what all tasks but the first one have written."""

    drops: bool = True
    mayDropPrepared = True

    def commit(self, messages: list[ModelMessage], epoch: int) -> None:
        kept = messages[:1] if self.drops else messages
        have = self.committed.setdefault(epoch, [])
        have += [(p, seq) for message in kept for p, seq in message.rows]
        if self.drops and all(message.rows for message in messages):
            self.drops = False
            raise PreparedEpochLostError("They have timed out.", done=[0])


@dataclass
class Files:
    folder: Path
    sink: ModelSink

    def start(self, partitions: int) -> ContinuousQuery:
        given = {"path": str(self.folder / "in"), "numPartitions": str(partitions)}
        stream = StreamBinding(
            Pipeline(SourceRelation("json", given, SCHEMA), (), SCHEMA),
            JsonSource(given).continuousReader(COLUMNS),
            "files",
        )
        made = definition(Feed(1), self.sink, self.folder / "checkpoint", allow_changed_query=True)
        execution = ContinuousExecution(replace(made, streams=(stream,)), ThreadLauncher())
        execution.start()
        return ContinuousQuery(execution, str)

    def finish(self, partitions: int) -> None:
        query = self.start(partitions)
        query.processAllAvailable()
        query.drain(WAIT_S)
        assert query.exception() is None
        assert sorted(self.sink.rows()) == [(number, 0) for number in range(FILES)]


def with_files(folder: Path, sink: ModelSink) -> Files:
    (folder / "in").mkdir()
    for number in range(FILES):
        row = {"partition": number, "seq": 0}
        (folder / "in" / f"{number}.json").write_text(json.dumps(row))
    return Files(folder, sink)


def test_what_it_has_read_by_then_is_not_forgotten(tmp_path: Path) -> None:
    files = with_files(tmp_path, ModelSink(fail_commit={0: SinkUnavailableError("It is away.")}))
    with pytest.raises(SinkUnavailableError):
        files.start(4).awaitTermination(WAIT_S)

    files.finish(2)


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_who_reads_the_rest_of_an_epoch_must_read_the_same_files(
    tmp_path: Path, partitions: int
) -> None:
    """Another partition would have others of them."""
    files = with_files(tmp_path, HalfSink())
    with pytest.raises(PreparedEpochLostError):
        files.start(4).awaitTermination(WAIT_S)
    assert 0 < len(files.sink.rows()) < FILES

    with pytest.raises(ConfigError, match=r"some rows of epoch \d+ already.*with the partitions"):
        files.start(partitions).awaitTermination(WAIT_S)

    files.finish(4)  # as it says
    files.finish(partitions)

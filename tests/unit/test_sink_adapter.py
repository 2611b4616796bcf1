"""Other people's stream writers: called as Spark calls them, and what their messages may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.rewindable import NOT_REWINDABLE
from engine.errors import ConfigError
from engine.query.binding import _as_spark_calls_it, bind_writer
from engine.sinks.adapter import WriterCopies, message_modules
from engine.sinks.contract import ContinuousWriter, DriverSink
from engine.sinks.noop import NoopWriter
from tests.spark.other_messages import Counted

BATCH = pa.RecordBatch.from_pydict({"id": [1, 2]})


class Gathering(DataSourceStreamWriter):
    def __init__(self) -> None:
        self.rows: list[int] = []
        self.commits: list[int] = []

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        self.rows.extend(row.id for row in iterator)
        return Counted(0, self.rows)

    def commit(self, messages: Any, batchId: int) -> None:
        self.commits.append(batchId)
        messages.append(list(self.commits))

    def abort(self, messages: Any, batchId: int) -> None:
        raise AssertionError


class GatheringArrow(DataSourceStreamArrowWriter):
    rows = 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self.rows += sum(batch.num_rows for batch in iterator)
        return Counted(0, [self.rows])


@pytest.mark.parametrize(("writer", "rows"), [(Gathering(), [1, 2]), (GatheringArrow(), [2])])
def test_each_epoch_is_written_by_a_fresh_copy(writer: Any, rows: list[int]) -> None:
    copies = WriterCopies(writer)
    for _ in range(2):
        assert copies.write(iter([BATCH])) == Counted(0, rows)


def test_a_writer_that_cannot_travel_is_refused() -> None:
    writer = Gathering()
    writer.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="Gathering cannot be pickled"):
        WriterCopies(writer)


class OfAnotherContract(Gathering):
    """Its methods have our names, and mean something else."""

    path = "/v1/rows"

    def validate(self, row: Any) -> bool:
        return bool(row)

    def bind(self, address: str, port: int) -> None:
        raise AssertionError

    def rewind(self) -> None:
        raise AssertionError


class OfOurs(ContinuousWriter, OfAnotherContract):
    delivery = "exactly once"


def bound(writer: Any) -> DriverSink:
    return _as_spark_calls_it(writer, bind_writer(writer, "registered")).driver


def test_methods_of_a_stranger_that_are_named_as_ours_are_not_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = bound(OfAnotherContract())
    assert (sink.validate, sink.bind, sink.rewindable) == (None, None, NOT_REWINDABLE)
    assert "OfAnotherContract has methods or attributes of the names" in caplog.text
    caplog.clear()
    bound(Gathering())
    assert not caplog.records


def test_a_writer_that_says_so_means_ours() -> None:
    sink = bound(OfOurs())
    assert sink.validate is not None
    assert sink.bind is not None
    assert sink.rewindable.rewind is not None
    assert sink.delivery == "exactly once"


def test_a_message_may_be_of_a_module_that_the_writers_imports_it_from() -> None:
    modules = message_modules(Gathering)
    assert modules == {__name__, Counted.__module__}
    codec = MessageCodec({}, modules)
    assert codec.decode(codec.encode([Counted(1, [2])])) == Counted(1, [2])


def test_the_engines_own_writers_name_their_messages() -> None:
    assert message_modules(NoopWriter) == set()

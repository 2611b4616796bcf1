from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.checkpoint.logs.codec import MessageCodec
from engine.errors import ConfigError
from engine.sinks import memory
from engine.sinks.contract import DriverSink
from engine.sinks.memory import MemoryDataSource, MemoryWriter

IDS = StructType().add("id", "long", nullable=False)


def ids(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(values, pa.int64())})


def message(sink: MemoryWriter, *batches: pa.RecordBatch) -> Any:
    made = pickle.loads(pickle.dumps(sink.taskWriter())).write(0, iter(batches))
    codec = MessageCodec(sink.messageTypes)
    return codec.decode(codec.encode([made]))


def test_committed_epochs_are_seen_once_and_in_order() -> None:
    sink = MemoryWriter("m1", IDS)
    assert memory.rows("m1") == []
    assert sink.latestEpoch() is None
    sink.commit([message(sink, ids(1), ids(2)), message(sink), message(sink, ids(3))], 0)
    sink.commit([message(sink, ids(9))], 0)
    sink.commit([message(sink)], 1)
    sink.commit([None, message(sink, ids(4))], 2)
    sink.commit([message(sink, ids(9))], 1)
    assert memory.rows("m1") == [Row(id=1), Row(id=2), Row(id=3), Row(id=4)]
    assert memory.table("m1").schema == pa.schema([pa.field("id", pa.int64(), nullable=False)])
    assert sink.latestEpoch() == 2
    assert DriverSink.of(sink).delivery == "exactly once"


def test_a_complete_result_takes_the_place_of_the_one_before() -> None:
    sink = MemoryWriter("m7", IDS, replaces=True)
    sink.commit([message(sink, ids(1)), message(sink, ids(2))], 0)
    sink.commit([message(sink), None], 1)  # nothing was new
    assert memory.rows("m7") == [Row(id=1), Row(id=2)]
    sink.commit([message(sink, ids(3)), message(sink)], 2)
    assert memory.rows("m7") == [Row(id=3)]
    sink.commit([message(sink, ids(9))], 2)
    assert memory.rows("m7") == [Row(id=3)]
    options = CaseInsensitiveDict({"queryName": "m8"})
    writer = MemoryDataSource(options).streamWriter(IDS, overwrite=True)
    for epoch in (0, 1):
        writer.commit([message(writer, ids(epoch))], epoch)
    assert memory.rows("m8") == [Row(id=1)]


def test_a_new_query_of_the_same_name_begins_anew() -> None:
    first = MemoryWriter("m2", IDS)
    first.commit([message(first, ids(1))], 0)
    MemoryWriter("m2", IDS)
    assert memory.rows("m2") == []


def test_an_epoch_that_the_view_refuses_comes_again() -> None:
    """Spark may have taken a part of it, so the view is written anew."""
    sink = MemoryWriter("m6", IDS)
    seen: list[int] = []
    failing = True

    class View:
        def append(self, tables: list[pa.Table]) -> None:
            for table in tables:
                seen.extend(table["id"].to_pylist())
                if failing and 2 in seen:
                    raise RuntimeError("the JVM is out of memory")

        def clear(self) -> None:
            seen.clear()

    sink._view = View()  # type: ignore[assignment]
    sink.commit([message(sink, ids(1))], 0)
    with pytest.raises(RuntimeError):
        sink.commit([message(sink, ids(2)), message(sink, ids(3))], 1)
    assert sink.latestEpoch() == 0
    failing = False
    sink.commit([message(sink, ids(2)), message(sink, ids(3))], 1)
    assert seen == [1, 2, 3]
    assert sink.latestEpoch() == 1


def test_the_sink_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="queryName"):
        MemoryDataSource(CaseInsensitiveDict({})).streamWriter(IDS, overwrite=False)
    source = MemoryDataSource(CaseInsensitiveDict({"queryName": "m3"}))
    source.streamWriter(IDS, overwrite=False)
    assert memory.rows("m3") == []
    with pytest.raises(KeyError):
        memory.rows("m4")


def test_a_rewind_drops_what_came_later() -> None:
    sink = MemoryWriter("m6", IDS)
    sink.rewind(5)
    assert sink.latestEpoch() is None
    for epoch in range(4):
        sink.commit([message(sink, ids(epoch))], epoch)
    sink.rewind(1)
    sink.rewind(1)
    assert memory.rows("m6") == [Row(id=0), Row(id=1)]
    assert sink.latestEpoch() == 1
    sink.commit([message(sink, ids(7))], 2)
    assert memory.rows("m6") == [Row(id=0), Row(id=1), Row(id=7)]

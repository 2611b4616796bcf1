from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import LongType, StructField, StructType

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ClusterEndedError, ConfigError
from engine.expressions.types import schema_to_spark
from engine.sinks.adapter import task_writer
from engine.sinks.contract import DriverSink
from engine.sinks.epoch_context import EpochContext
from engine.sinks.foreach import ForeachWriter
from engine.sinks.foreach_batch import BatchContext, ForeachBatchArrowWriter, ForeachBatchWriter
from engine.sinks.memory import MemoryWriter
from engine.sinks.noop import NoMessage, NoopWriter
from engine.sinks.pyspark_rows import rows_of
from engine.spark.answers import ask_jvm
from tests.unit.malformed_columns import BATCH, ROW

IDS = StructType().add("id", "long")


def ids(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(values, pa.int64())})


@pytest.fixture(autouse=True)
def _epoch() -> Iterator[None]:
    EpochContext.set(EpochContext("q", "r", 0, partition=2, epoch=5))
    yield
    EpochContext.set(None)


class Handler:
    def __init__(self, wanted: bool = True) -> None:
        self.calls: list[Any] = []
        self.wanted = wanted

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self.calls.append(("open", partition_id, epoch_id))
        return self.wanted

    def process(self, row: Row) -> None:
        if row.id < 0:
            raise ValueError("negative")
        self.calls.append(row.id)

    def close(self, error: BaseException | None) -> None:
        self.calls.append(("close", error))


def test_a_function_gets_every_row() -> None:
    seen: list[Row] = []
    writer = task_writer(ForeachWriter(seen.append, IDS))
    assert isinstance(writer.write(0, iter([ids(1, 2), ids(3)])), NoMessage)
    assert seen == [Row(id=1), Row(id=2), Row(id=3)]


def test_a_function_of_the_user_s_script_travels() -> None:
    seen: list[int] = []
    sink = ForeachWriter(lambda row: seen.append(row.id), IDS)
    copy = cloudpickle.loads(cloudpickle.dumps(task_writer(sink)))
    copy.write(0, iter([ids(1)]))
    assert seen == []  # the copy has its own list


def test_a_function_gets_every_row_without_columns() -> None:
    seen: list[Row] = []
    task_writer(ForeachWriter(seen.append, StructType())).write(0, iter([ids(1, 2).select([])]))
    assert seen == [Row(), Row()]


def test_open_process_close() -> None:
    handler = Handler()
    ForeachWriter(handler, IDS).write(iter([ids(1), ids(2)]))
    assert handler.calls == [("open", 2, 5), 1, 2, ("close", None)]


def test_an_epoch_without_rows_is_opened_and_closed() -> None:
    handler = Handler()
    ForeachWriter(handler, IDS).write(iter([]))
    assert handler.calls == [("open", 2, 5), ("close", None)]


def test_an_epoch_that_is_not_wanted_is_skipped_whole() -> None:
    handler = Handler(wanted=False)
    batches = iter([ids(1), ids(2)])
    ForeachWriter(handler, IDS).write(batches)
    assert handler.calls == [("open", 2, 5), ("close", None)]
    assert next(batches, None) is None


def test_close_gets_the_error() -> None:
    handler = Handler()
    with pytest.raises(ValueError, match="negative") as error:
        ForeachWriter(handler, IDS).write(iter([ids(1, -1, 3)]))
    assert handler.calls == [("open", 2, 5), 1, ("close", error.value)]


def test_an_epoch_that_is_given_up_is_no_success() -> None:
    class Leave(BaseException):
        pass

    def batches() -> Iterator[pa.RecordBatch]:
        yield ids(1)
        raise Leave

    handler = Handler()
    with pytest.raises(Leave):
        ForeachWriter(handler, IDS).write(batches())
    assert isinstance(handler.calls[-1][1], Leave)


def test_open_and_close_are_optional() -> None:
    class Process:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def process(self, row: Row) -> None:
            self.seen.append(row.id)

    handler = Process()
    ForeachWriter(handler, IDS).write(iter([ids(1)]))
    assert handler.seen == [1]


def test_what_cannot_take_rows_is_refused() -> None:
    class Odd:
        process = "no method"

    for function in (3, Odd()):
        with pytest.raises(ConfigError, match="process"):
            ForeachWriter(function, IDS)
    with pytest.raises(ConfigError, match="foreachBatch takes a function"):
        ForeachBatchWriter(3, None, IDS)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="foreachBatchArrow takes a function"):
        ForeachBatchArrowWriter(3, IDS)  # type: ignore[arg-type]


TWICE = pa.struct([("a", pa.int32()), ("a", pa.int32())])


def spark_schema(*columns: tuple[str, pa.DataType]) -> StructType:
    return StructType.fromJson(schema_to_spark(pa.schema(columns)))


@pytest.mark.parametrize("dtype", [TWICE, pa.list_(pa.map_(pa.int32(), pa.struct([("x", TWICE)])))])
def test_structs_with_two_fields_of_one_name_are_refused_at_the_start(dtype: pa.DataType) -> None:
    schema = spark_schema(("id", pa.int64()), ("s", dtype))
    starts: dict[str, Callable[[], object]] = {
        "foreach": lambda: ForeachWriter(print, schema),
        "foreachBatch": lambda: ForeachBatchWriter(print, SimpleNamespace(), schema),  # type: ignore[arg-type]
        "memory": lambda: MemoryWriter("q", schema),
    }
    for name, start in starts.items():
        with pytest.raises(ConfigError, match=f"sink {name}: .*column s.* two fields a") as error:
            start()
        assert "another name" in str(error.value.hint)
    ForeachBatchArrowWriter(print, schema)
    once = pa.struct([("a", pa.int32()), ("A", pa.int32())])
    ForeachWriter(print, spark_schema(("id", pa.int64()), ("id", once)))


def test_a_foreach_batch_function_asks_whose_epoch_it_commits() -> None:
    seen: list[BatchContext | None] = []
    session: Any = SimpleNamespace(createDataFrame=lambda rows, schema: rows)
    writer = ForeachBatchWriter(lambda rows, epoch: seen.append(BatchContext.get()), session, IDS)
    message = writer.write(iter([ids(1)]))
    writer.commit([message], 7)
    writer.bind(SinkContext("q", "r", generation=2, timeline=0))
    writer.commit([message], 7)
    writer.bind(SinkContext("q", "s", generation=4, timeline=3))
    writer.commit([message], 8)
    assert seen == [None, BatchContext("q", "r", 2, 0, 7), BatchContext("q", "s", 4, 3, 8)]
    assert BatchContext.get() is None


def test_a_column_that_an_earlier_start_did_not_have_may_be_null_once() -> None:
    made: list[tuple[list[Any], bool]] = []

    def create(rows: pa.Table, schema: StructType) -> None:
        made.append((rows.column("more").to_pylist(), schema["more"].nullable))

    session: Any = SimpleNamespace(createDataFrame=create)
    was = ForeachBatchWriter(lambda rows, epoch: None, session, IDS).write(iter([ids(1)]))
    wider = StructType([*IDS, StructField("more", LongType(), nullable=False)])
    writer = ForeachBatchWriter(lambda rows, epoch: None, session, wider)
    writer.commit([was], 7)
    batch = ids(2)
    writer.commit([writer.write(iter([batch.append_column("more", batch.column(0))]))], 8)
    assert made == [([None], True), ([2], False)]


def test_a_foreach_batch_function_that_fails_leaves_no_context_behind() -> None:
    def fail(rows: Any, epoch: int) -> None:
        assert BatchContext.get() is not None
        raise ValueError("no")

    session: Any = SimpleNamespace(createDataFrame=lambda rows, schema: rows)
    writer = ForeachBatchWriter(fail, session, IDS)
    writer.bind(SinkContext("q", "r", generation=0, timeline=0))
    with pytest.raises(ValueError, match="no"):
        writer.commit([writer.write(iter([ids(1)]))], 0)
    assert BatchContext.get() is None


def test_a_foreach_batch_function_fails_for_good_when_spark_has_ended() -> None:
    """Else the sink would count as one that is down for a while, and be tried for hours."""

    class Gone:
        def __getattr__(self, name: str) -> Any:
            raise ConnectionRefusedError(111, "Connection refused")

    session: Any = Gone()
    writer = ForeachBatchWriter(
        lambda rows, epoch: None, session, IDS, check=lambda: ask_jvm(session)
    )
    with pytest.raises(ClusterEndedError, match="Spark has ended"):
        writer.commit([writer.write(iter([ids(1)]))], 0)


def test_an_arrow_function_gets_the_table_of_an_epoch_and_whose_it_is() -> None:
    seen: list[tuple[list[int], BatchContext]] = []
    writer = ForeachBatchArrowWriter(
        lambda table, context: seen.append((table["id"].to_pylist(), context)), IDS
    )
    tasks = [writer.write(iter([ids(1, 2), ids(3)])), writer.write(iter([])), None]
    writer.bind(SinkContext("q", "r", generation=1, timeline=0))
    writer.checkLogged(6)
    writer.commit([*tasks, writer.write(iter([ids(4)]))], 6)
    writer.commit([writer.write(iter([ids(5)]))], 7)
    writer.commit([writer.write(iter([]))], 8)
    assert seen == [
        ([1, 2, 3, 4], BatchContext("q", "r", 1, 0, 6, is_replay=True)),
        ([5], BatchContext("q", "r", 1, 0, 7, is_replay=False)),
    ]
    assert DriverSink.of(writer).task_slots == 0


def test_functions_of_an_epoch_get_as_many_rows_without_columns_as_there_are() -> None:
    seen: list[int] = []
    session: Any = SimpleNamespace(createDataFrame=lambda rows, schema: rows)
    batch = ids(1, 2).select([])
    for sink in (
        ForeachBatchWriter(lambda rows, epoch: seen.append(rows.num_rows), session, StructType()),
        ForeachBatchArrowWriter(lambda rows, context: seen.append(rows.num_rows), StructType()),
    ):
        sink.bind(SinkContext("q", "r", generation=0, timeline=0))
        sink.commit([sink.write(iter([batch, batch])), None, sink.write(iter([batch]))], 0)
    assert seen == [6, 6]


def test_rows_have_pyspark_s_values() -> None:
    utc = pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        [
            ("t", utc), ("n", pa.timestamp("us")), ("d", pa.date32()), ("m", pa.decimal128(5, 2)),
            ("b", pa.binary()), ("a", pa.list_(pa.int64())),
            ("s", pa.struct([("x", pa.int32()), ("at", utc)])),
            ("k", pa.map_(pa.string(), pa.struct([("y", pa.int32())]))),
            ("l", pa.list_(utc)), ("v", pa.null()),
        ]
    )  # fmt: skip
    moment = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=timezone.utc)
    local = moment.astimezone().replace(tzinfo=None)
    value = {
        "t": moment, "n": datetime(2024, 1, 1), "d": date(2024, 1, 2), "m": Decimal("1.50"),
        "b": b"x", "a": [1, None], "s": {"x": 1, "at": moment}, "k": [("k", {"y": 2}), ("l", None)],
        "l": [moment, None],
    }  # fmt: skip
    first, second = rows_of(pa.RecordBatch.from_pylist([value, {}], schema))
    assert first == Row(
        t=local, n=datetime(2024, 1, 1), d=date(2024, 1, 2), m=Decimal("1.50"), b=b"x",
        a=[1, None], s=Row(x=1, at=local), k={"k": Row(y=2), "l": None}, l=[local, None], v=None,
    )  # fmt: skip
    assert first.s.at.tzinfo is None
    assert second == Row(*schema.names)(*[None] * len(schema))


def test_texts_that_are_no_utf_8_are_what_java_reads() -> None:
    (row,) = rows_of(BATCH)
    assert row.asDict(recursive=True) == ROW
    assert isinstance(row.s, Row)


class RowSink(DataSourceStreamWriter):
    """As someone else would write it, without knowing this engine."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        self.seen = list(iterator)
        return WriterCommitMessage()


def test_a_writer_of_rows_gets_rows() -> None:
    sink = RowSink()
    writer = task_writer(sink)
    pickle.dumps(writer)
    assert isinstance(writer.write(0, iter([ids(1), ids(2)])), WriterCommitMessage)
    assert sink.seen == [Row(id=1), Row(id=2)]
    assert DriverSink.of(sink).delivery == "at least once"


def test_noop_consumes_everything() -> None:
    batches = iter([ids(1), ids(2)])
    task_writer(NoopWriter()).write(0, batches)
    assert next(batches, None) is None


def test_what_is_no_stream_writer_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a DataSourceStreamWriter"):
        task_writer(object())

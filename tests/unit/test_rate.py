from __future__ import annotations

import itertools
import json
import pickle
import threading
import time
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.errors import ConfigError, SourceError
from engine.sources.contract import Offset, PartitionReader
from engine.sources.rate import BATCH_ROWS, Pace, RateDataSource, RateReader

# The end offset of epoch 7 of a checkpoint that Spark 4.3 wrote, its keys in Spark's order.
SPARKS = '{"1":{"value":23,"runTimeMs":1795174660561},"0":{"value":22,"runTimeMs":1795174660561}}'


def source(**options: str) -> RateDataSource:
    return RateDataSource(CaseInsensitiveDict(options))


def reader(**options: str) -> RateReader:
    return source(**options).continuousReader(StructType())


def at(start_ms: int, partitions: int) -> Offset:
    """The initial offset of a stream that was created then."""
    return {str(i): {"value": i - partitions, "runTimeMs": start_ms} for i in range(partitions)}


def rows_of(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    """(microseconds since 1970, value)."""
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return list(zip(times, batch.column("value").to_pylist(), strict=True))


def read_all(partition: PartitionReader) -> list[tuple[int, int]]:
    rows = []
    while not partition.exhausted:
        batch = partition.read(1.0)
        assert batch is not None
        rows += rows_of(batch)
    return rows


def test_spark_s_rows_from_spark_s_offset() -> None:
    # Spark's continuous mode: values i-n exclusive, every second a step of the period.
    start_ms = 1_795_174_654_561
    driver = reader(rowsPerSecond="4", numPartitions="2")
    until = json.loads(SPARKS)
    first, second = (driver.open(each, until) for each in driver.partitions(at(start_ms, 2)))
    expected = [(start_ms + 500 * k) * 1000 for k in range(1, 13)]
    assert read_all(first) == list(zip(expected, range(0, 24, 2), strict=True))
    assert read_all(second) == list(zip(expected, range(1, 24, 2), strict=True))
    assert driver.mergeOffsets([first.offset, second.offset]) == until


def test_a_checkpoint_of_spark_goes_on_behind_its_last_row() -> None:
    driver = reader(rowsPerSecond="4", numPartitions="2")
    partition = driver.open(driver.partitions(json.loads(SPARKS))[1])
    # Those times are over: the rows of the pause come at once.
    batch = partition.read(1.0)
    assert batch is not None
    assert rows_of(batch)[:2] == [(1_795_174_661_061_000, 25), (1_795_174_661_561_000, 27)]


GOLDEN = Path(__file__).parents[1] / "golden/checkpoints/spark-4.3-rate-continuous/offsets"


@pytest.mark.parametrize("epoch", range(8))
def test_every_epoch_of_spark_s_checkpoint_can_be_continued(epoch: int) -> None:
    offset = json.loads((GOLDEN / str(epoch)).read_text().splitlines()[-1])
    driver = reader(rowsPerSecond="4", numPartitions="2")
    for each in driver.partitions(offset):
        partition = driver.open(each)
        assert partition.offset == {str(each.index): offset[str(each.index)]}
        batch = partition.read(1.0)
        assert batch is not None
        before = offset[str(each.index)]
        assert rows_of(batch)[0] == ((before["runTimeMs"] + 500) * 1000, before["value"] + 2)


def test_the_initial_offset_is_spark_s() -> None:
    before_ms = time.time_ns() // 1_000_000
    offset = reader(numPartitions="3").initialOffset()
    assert {index: each["value"] for index, each in offset.items()} == {"0": -3, "1": -2, "2": -1}
    (run_time_ms,) = {each["runTimeMs"] for each in offset.values()}
    assert before_ms <= run_time_ms <= time.time_ns() // 1_000_000


@settings(deadline=None)
@given(
    rate=st.integers(1, 3_000_000_000),
    partitions=st.integers(1, 7),
    reads=st.lists(st.integers(1, 50_000), min_size=1, max_size=6),
)
def test_rows_are_exact_however_they_are_batched(
    rate: int, partitions: int, reads: list[int]
) -> None:
    pace = Pace(rate, partitions)
    period_us = Fraction(partitions * 1_000_000, rate)
    row = 1
    for rows in reads:
        times = pace.due_us_of(row, rows)
        assert len(times) == rows
        for index in {0, rows // 2, rows - 1}:
            exact = int((row + index) * period_us)
            assert int(times[index]) == exact == pace.due_us(row + index)
            assert pace.rows_due(exact) >= row + index > pace.rows_due(exact - 1)
        row += rows


@settings(deadline=None)
@given(rate=st.integers(1, 100_000), partitions=st.integers(1, 5), rows=st.integers(0, 100_000))
def test_a_restart_goes_on_with_exactly_the_next_row(rate: int, partitions: int, rows: int) -> None:
    driver = RateReader(rate, partitions)
    start_ms = 1_700_000_000_000
    index = partitions - 1
    one_go = driver.open(driver.partitions(at(start_ms, partitions))[index])
    before = [] if rows == 0 else rows_of(one_go._produce(min(rows, BATCH_ROWS)))
    offsets = at(start_ms, partitions) | one_go.offset
    restarted = driver.open(driver.partitions(json.loads(json.dumps(offsets)))[index])
    expected = rows_of(one_go._produce(100))
    assert rows_of(restarted._produce(100)) == expected
    assert restarted.offset == one_go.offset
    assert len(before) == min(rows, BATCH_ROWS)


def test_a_batch_has_the_declared_schema_and_is_bounded() -> None:
    driver = reader(rowsPerSecond="1000000000", numPartitions="2")
    partition = driver.open(pickle.loads(pickle.dumps(driver.partitions(at(0, 2))[0])))
    batch = partition.read(0.0)
    assert batch is not None
    assert batch.num_rows == BATCH_ROWS
    batch.validate(full=True)
    assert batch.schema == pa.schema(
        [("timestamp", pa.timestamp("us", tz="UTC")), ("value", pa.int64())]
    )
    following = partition.read(0.0)
    assert following is not None
    assert following.column("value")[0].as_py() == 2 * BATCH_ROWS
    assert batch.column("value")[0].as_py() == 0  # earlier batches stay as they were


def test_a_row_is_never_early_and_nothing_due_is_kept_back() -> None:
    driver = reader(rowsPerSecond="1000", numPartitions="1")
    partition = driver.open(driver.partitions(driver.initialOffset())[0])
    for _ in range(200):
        before_us = time.time_ns() // 1000
        batch = partition.read(60.0)
        assert batch is not None
        newest_us, _ = rows_of(batch)[-1]
        assert newest_us <= time.time_ns() // 1000
        assert newest_us + 1_000 > before_us, "the next row was due already"


def test_a_read_ends_in_time_when_nothing_is_due() -> None:
    driver = reader(rowsPerSecond="1", numPartitions="1")
    in_an_hour_ms = time.time_ns() // 1_000_000 + 3_600_000
    partition = driver.open(driver.partitions(at(in_an_hour_ms, 1))[0])
    got: list[object] = []
    reading = threading.Thread(target=lambda: got.append(partition.read(0.01)), daemon=True)
    reading.start()
    reading.join(60)
    assert got == [None]
    assert not partition.exhausted


def test_the_engine_s_parallelism_is_the_default_of_partitions() -> None:
    assert len(reader(__default_parallelism="5").initialOffset()) == 5
    assert len(reader(__default_parallelism="5", numPartitions="3").initialOffset()) == 3


def test_another_number_of_partitions_is_refused_in_spark_s_words() -> None:
    with pytest.raises(SourceError) as error:
        reader(numPartitions="3").partitions(json.loads(SPARKS))
    assert (
        "The previous run contained 2 partitions, but 3 partitions are currently configured. "
        "The numPartitions option cannot be changed." in str(error.value)
    )


def test_an_offset_of_micro_batches_is_named_as_such() -> None:
    with pytest.raises(SourceError, match="micro-batch rate source, which counts seconds"):
        reader(numPartitions="2").partitions(17)


@pytest.mark.parametrize(
    "offset",
    [None, [], {"0": 3}, {"x": {"value": 1, "runTimeMs": 1}}, {"0": {"value": 1}}],
)
def test_what_is_no_offset_is_refused(offset: Offset) -> None:
    with pytest.raises(SourceError):
        reader(numPartitions="1").partitions(offset)


def test_a_value_of_another_partition_is_refused() -> None:
    offset = {"0": {"value": 3, "runTimeMs": 1}, "1": {"value": 3, "runTimeMs": 1}}
    with pytest.raises(SourceError, match="partition 0 cannot have produced the value 3"):
        reader(numPartitions="2").partitions(offset)


@pytest.mark.parametrize(
    "options",
    [{"rowsPerSecond": "0"}, {"numPartitions": "none"}, {"rowPerSecond": "5"}],
)
def test_bad_options(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        source(**options)


def test_spark_s_ramp_up_is_taken() -> None:
    source(rampUpTime="5s")


def test_micro_batches_read_exactly_what_is_between_two_offsets() -> None:
    stream = source(rowsPerSecond="100", numPartitions="2").streamReader(
        StructType().add("timestamp", "timestamp").add("value", "long")
    )
    start = at(int(time.time() * 1000) - 1_000, 2)
    end = stream.latestOffset(start, None)
    assert stream.partitions(start, start) == []
    values = [
        value
        for partition in stream.partitions(start, end)
        for batch in stream.read(pickle.loads(pickle.dumps(partition)))
        for value in batch.column("value").to_pylist()
    ]
    assert sorted(values) == list(range(len(values)))
    assert len(values) >= 100
    assert max(each["value"] for each in end.values()) == len(values) - 1


def test_the_end_of_a_micro_batch_is_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = reader(rowsPerSecond="1000", numPartitions="2")
    start = stream.initialOffset()
    seconds = itertools.count(time.time_ns() // 1_000_000_000 + 60)
    monkeypatch.setattr(time, "time_ns", lambda: next(seconds) * 1_000_000_000)
    ends = [part["value"] for part in stream.latestOffset(start).values()]
    assert abs(ends[0] - ends[1]) == 1


def test_it_has_caught_up_unless_more_is_due_than_a_batch_has() -> None:
    driver = reader(rowsPerSecond="1000000", numPartitions="1")
    minute_ago_ms = time.time_ns() // 1_000_000 - 60_000
    (partition,) = driver.partitions(at(minute_ago_ms, 1))
    made = driver.open(partition)
    batch = made.read(1.0)
    assert batch is not None
    assert batch.num_rows == BATCH_ROWS
    assert not made.caught_up
    slow = reader(rowsPerSecond="1", numPartitions="1")
    made = slow.open(slow.partitions(at(minute_ago_ms, 1))[0])
    assert made.read(1.0) is not None
    assert made.caught_up

from __future__ import annotations

import pickle
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.base.clock import ManualClock
from engine.errors import (
    BadRecordError,
    ConfigError,
    SourceError,
    SourceUnavailableError,
)
from engine.execution.shares import names_of
from engine.sources.contract import Offset, PartitionReader
from engine.sources.tail import tail_files
from engine.sources.tail.data_source import TailDataSource, TailReader
from engine.sources.tail.ends import latest_offset
from engine.sources.tail.name_filter import NameFilter
from engine.sources.tail.watched_folder import Folder
from tests.waiting import wait_until

ID = StructType().add("id", "long")
TEXT = StructType().add("value", "string")
DEADLINE_S = 60.0


def reader(folder: Path, schema: StructType = ID, /, **options: Any) -> TailReader:
    given = {"path": str(folder), "fileFormat": "json", **options}
    source = TailDataSource(CaseInsensitiveDict({k: str(v) for k, v in given.items()}))
    return source.continuousReader(schema)


def open_one(driver: TailReader, start: Offset = None, until: Offset = None) -> PartitionReader:
    (partition,) = driver.partitions(start or {})
    return pickle.loads(pickle.dumps(driver)).open(pickle.loads(pickle.dumps(partition)), until)


def positions(offset: Offset) -> dict[str, int]:
    """The next byte of each file, without what tells the files apart."""
    return {name: position for name, position in offset.items() if name != "/"}


def write_ids(path: Path, *ids: int, end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("\n".join(f'{{"id":{i}}}' for i in ids) + end)


def ids_of(batch: pa.RecordBatch | None) -> list[int]:
    return [] if batch is None else batch.column(0).to_pylist()


def read_rows(partition: PartitionReader, count: int) -> list[Any]:
    """Read until there are so many rows."""
    rows: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(rows) < count:
        assert time.monotonic() < deadline, f"only {rows}"
        rows += ids_of(partition.read(0.1))
    return rows


def test_what_is_there_comes_in_the_order_of_the_names(tmp_path: Path) -> None:
    write_ids(tmp_path / "b.json", 3, 4)
    write_ids(tmp_path / "a.json", 1, 2)
    partition = open_one(reader(tmp_path))
    assert read_rows(partition, 4) == [1, 2, 3, 4]
    assert partition.read(0.0) is None
    assert positions(partition.offset) == {"a.json": 18, "b.json": 18}


def test_new_files_and_appended_lines_come_as_they_arrive(tmp_path: Path) -> None:
    partition = open_one(reader(tmp_path))
    assert partition.read(0.0) is None
    write_ids(tmp_path / "z.json", 1)
    assert read_rows(partition, 1) == [1]
    write_ids(tmp_path / "z.json", 2)
    assert read_rows(partition, 1) == [2]
    write_ids(tmp_path / "a.json", 3)
    assert read_rows(partition, 1) == [3]


def test_partitions_among_others_are_others(tmp_path: Path) -> None:
    """What a sink has of an epoch is left out by their names when it is run again."""
    one, two, again, three = (
        set(names_of(0, reader(tmp_path, numPartitions=count).partitions({})))
        for count in (1, 2, 2, 3)
    )
    assert two == again
    assert len(one | two | three) == 6


def test_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    partition = open_one(reader(tmp_path))
    write_ids(file, 1, 2, end="")
    assert read_rows(partition, 1) == [1]
    assert partition.read(0.05) is None
    assert positions(partition.offset) == {"a.json": 9}
    with file.open("a") as appended:
        appended.write("\n")
    assert read_rows(partition, 1) == [2]


def test_an_appended_line_is_there_within_milliseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a clock that only a reader's own waits move."""
    clock, due = ManualClock(), list[int]()
    file = tmp_path / "a.json"

    class Waits:
        def wait(self, seconds: float) -> bool:
            while due:  # it comes just behind a look
                write_ids(file, due.pop())
            clock.advance(seconds)
            return False

    monkeypatch.setattr(tail_files, "Event", Waits)
    monkeypatch.setattr(tail_files, "time", SimpleNamespace(monotonic=clock.monotonic_s))
    write_ids(file, 0)
    partition = open_one(reader(tmp_path))
    assert ids_of(partition.read(1.0)) == [0]
    for i in range(30):
        due.append(i)
        began_s = clock.monotonic_s()
        assert ids_of(partition.read(1.0)) == [i]
        assert clock.monotonic_s() - began_s < 0.05


def test_a_reader_that_starts_at_an_offset_returns_exactly_the_rest(tmp_path: Path) -> None:
    write_ids(tmp_path / "a.json", 1, 2)
    driver = reader(tmp_path)
    first = open_one(driver)
    read_rows(first, 2)
    write_ids(tmp_path / "a.json", 3)
    write_ids(tmp_path / "b.json", 4)
    assert read_rows(open_one(driver, start=first.offset), 2) == [3, 4]
    assert read_rows(open_one(driver), 4) == [1, 2, 3, 4]


def test_a_replay_stops_where_it_must(tmp_path: Path) -> None:
    write_ids(tmp_path / "a.json", 1, 2, 3)
    write_ids(tmp_path / "b.json", 4)
    write_ids(tmp_path / "c.json", 5)
    partition = open_one(reader(tmp_path), start={"a.json": 9}, until={"a.json": 18, "c.json": 9})
    assert not partition.exhausted
    assert read_rows(partition, 2) == [2, 5]
    assert partition.exhausted
    assert partition.read(0.0) is None
    assert partition.offset == {"a.json": 18, "c.json": 9}


def test_a_replay_of_nothing_is_exhausted_at_once(tmp_path: Path) -> None:
    write_ids(tmp_path / "a.json", 1)
    partition = open_one(reader(tmp_path), start={"a.json": 9}, until={"a.json": 9})
    assert partition.exhausted


def test_each_file_belongs_to_one_partition(tmp_path: Path) -> None:
    for i in range(20):
        write_ids(tmp_path / f"{i}.json", i)
    driver = reader(tmp_path, numPartitions=3)
    open_ones = [driver.open(each) for each in driver.partitions({})]
    parts = [ids_of_all(each) for each in open_ones]
    assert sorted(i for part in parts for i in part) == list(range(20))
    assert sum(map(bool, parts)) > 1  # by the numbers of their inodes: one may have none
    merged = driver.mergeOffsets([each.offset for each in open_ones])
    assert positions(merged) == {f"{i}.json": 9 if i < 10 else 10 for i in range(20)}
    # And so it does after a restart with another number of partitions.
    again = reader(tmp_path, numPartitions=2)
    assert [ids_of_all(again.open(each)) for each in again.partitions(merged)] == [[], []]


def test_what_all_partitions_know_is_told_once(tmp_path: Path) -> None:
    for i in range(20):
        write_ids(tmp_path / f"{i}.log", i)

    def pickled_bytes(partitions: int) -> int:
        driver = reader(tmp_path, pathGlobFilter="*.log", numPartitions=partitions)
        return len(pickle.dumps(driver.partitions({})))

    assert pickled_bytes(100) < 100 * 50 + pickled_bytes(1)


def ids_of_all(partition: PartitionReader) -> list[int]:
    rows = []
    while (batch := partition.read(0.0)) is not None:
        rows += ids_of(batch)
    return rows


def test_hidden_files_and_folders_and_other_names_are_ignored(tmp_path: Path) -> None:
    for name in (".a.json", "_b.json", "c.json.tmp", "d.json"):
        write_ids(tmp_path / name, 1)
    (tmp_path / "folder.json").mkdir()
    partition = open_one(reader(tmp_path, pathGlobFilter="*.json"))
    ids_of_all(partition)
    assert positions(partition.offset) == {"d.json": 9}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("{a,b}.log", ["a.log", "b.log"]),
        ("{a,{b,c}?}.log", ["a.log", "b1.log"]),
        ("{a}*.log", ["a.log"]),
        ("[^a].log", ["^.log", "b.log"]),
        ("[!ab].log", ["^.log"]),
        ("[a^].log", ["^.log", "a.log"]),
        ("[a-b]*.log", ["a.log", "b.log", "b1.log"]),
        ("^.log", ["^.log"]),
        ("?.log", ["^.log", "a.log", "b.log"]),
        ("a,b", ["a,b"]),
        ("a}", ["a}"]),
        (r"\{a,b\}.log", ["{a,b}.log"]),
        ("?a?b?.log", ["{a,b}.log"]),
        ("a.lo", []),
        (".log", []),
    ],
)
def test_a_pattern_means_what_it_means_to_spark(pattern: str, names: list[str]) -> None:
    there = ["a.log", "b.log", "b1.log", "^.log", "a,b", "a}", "{a,b}.log", "_a.log", ".log"]
    assert sorted(filter(NameFilter(pattern), there)) == names


def test_large_files_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_files, "CHUNK_BYTES", 32)
    write_ids(tmp_path / "a.json", *range(100))
    (tmp_path / "b.json").write_text('{"id":100,"pad":"' + "x" * 1000 + '"}\n{"id":101}\n')
    partition = open_one(reader(tmp_path))
    batches = []
    while (batch := partition.read(0.0)) is not None:
        batches.append(batch)
        assert partition.offset["a.json"] <= (tmp_path / "a.json").stat().st_size
    assert [i for batch in batches for i in ids_of(batch)] == list(range(102))
    assert max(batch.num_rows for batch in batches) <= 4


def test_a_file_that_grows_all_the_time_does_not_keep_the_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_files, "CHUNK_BYTES", 9)
    write_ids(tmp_path / "a.json", 1, 2)
    write_ids(tmp_path / "b.json", 3)
    partition = open_one(reader(tmp_path))
    rows = []
    while 3 not in rows:
        rows += ids_of(partition.read(1.0))
        write_ids(tmp_path / "a.json", 1)
        assert len(rows) < 10


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match=r"Cannot read .*/none: No such file"):
        latest_offset(Folder(tmp_path / "none", NameFilter("*")), {})


def test_a_bad_line_is_named_with_its_place_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_ids(file, *range(50))
    start = file.stat().st_size
    with file.open("a") as appended:
        appended.write('{"id":\n{"id":51}\n')
    partition = open_one(reader(tmp_path))
    with pytest.raises(BadRecordError) as error:
        read_rows(partition, 52)
    assert f"{file}, byte {start}" in str(error.value)
    assert 'The line is: {"id":' in str(error.value)
    assert partition.offset == {}


def test_a_long_bad_line_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("x" * 5_000 + "\n")
    with pytest.raises(BadRecordError) as error:
        open_one(reader(tmp_path)).read(1.0)
    assert len(str(error.value)) < 600
    assert str(error.value).count("x" * 200 + "...") == 1


def test_throttled_rows_are_spread_over_time(tmp_path: Path) -> None:
    write_ids(tmp_path / "a.json", *range(1_000))
    began = time.monotonic()
    partition = open_one(reader(tmp_path, maxRowsPerSecond=500))
    rows = read_rows(partition, 100)
    took_s = time.monotonic() - began
    assert rows == list(range(len(rows)))
    assert len(rows) <= 500 * took_s + 2
    assert positions(partition.offset) == {"a.json": len("".join(f'{{"id":{i}}}\n' for i in rows))}


def test_text_has_one_column_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("ä\r\n\nb\n".encode())
    source = TailDataSource(CaseInsensitiveDict({"path": str(tmp_path), "fileFormat": "text"}))
    assert source.schema() == "value STRING"
    partition = open_one(source.continuousReader(TEXT))
    assert read_rows(partition, 3) == ["ä", "", "b"]


def test_the_header_of_each_file_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    (tmp_path / "b.csv").write_text("id\n")
    partition = open_one(reader(tmp_path, fileFormat="csv", header="true"))
    assert read_rows(partition, 2) == [1, 2]
    assert partition.read(0.0) is None
    assert positions(partition.offset) == {"a.csv": 7, "b.csv": 3}
    with (tmp_path / "b.csv").open("a") as file:
        file.write("3\n")
    assert read_rows(partition, 1) == [3]


def test_a_schema_is_required(tmp_path: Path) -> None:
    source = TailDataSource(CaseInsensitiveDict({"path": str(tmp_path), "fileFormat": "json"}))
    with pytest.raises(ConfigError, match="needs a schema"):
        source.schema()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"path": " "}, "path"),
        ({"path": "s3://bucket/x"}, "s3://bucket/x"),
        ({"fileFormat": "xml"}, "json, csv, text"),
        ({"numPartitions": "0"}, "numPartitions"),
        ({"fileFromat": "json"}, "fileFormat"),
        ({"maxRowsPerSecond": "-1"}, "maxRowsPerSecond"),
        ({"header": "maybe"}, "header"),
        ({"sep": "::"}, "sep"),
        ({"pathGlobFilter": "{a,b.log"}, "pathGlobFilter"),
        ({"pathGlobFilter": "[a.log"}, "pathGlobFilter"),
        ({"pathGlobFilter": "[z-a].log"}, "pathGlobFilter"),
        ({"pathGlobFilter": "a\\"}, "pathGlobFilter"),
        *(
            ({name: value}, f"{name} .* must be left out with fileFormat json: it is for csv")
            for name, value in (
                ("header", "true"),
                ("sep", ";"),
                ("delimiter", ";"),
                ("nullValue", "NA"),
            )
        ),
        ({"fileFormat": "text", "header": "true"}, "left out with fileFormat text: it is for csv"),
        ({"fileFormat": "text", "timeZone": "UTC"}, "left out .* it is for csv and json"),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, str], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        reader(tmp_path, **options)


@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_a_zone_is_for_what_has_times(tmp_path: Path, file_format: str) -> None:
    reader(tmp_path, fileFormat=file_format, timeZone="Europe/Berlin")


def test_the_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        reader(tmp_path / "none")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        reader(file)


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    write_ids(folder / "x.json", 1)
    driver = reader(tmp_path, path=folder.as_uri())
    assert read_rows(open_one(driver), 1) == [1]


@pytest.mark.parametrize(
    "offset",
    [3, ["a"], {"a": -1}, {"a": "9"}, {"a": True}, {"a": 1, "/": {"a": "x"}}, {"/": 1}],
)
def test_what_is_no_offset_is_refused(tmp_path: Path, offset: Offset) -> None:
    with pytest.raises(SourceError, match="not one of a tail source"):
        reader(tmp_path).partitions(offset)


def test_micro_batches_end_at_whole_lines(tmp_path: Path) -> None:
    write_ids(tmp_path / "a.json", 1, 2, end="")
    write_ids(tmp_path / "b.json", 3)
    write_ids(tmp_path / "c.json", 4, end="")
    source = TailDataSource(CaseInsensitiveDict({"path": str(tmp_path), "fileFormat": "json"}))
    stream = source.streamReader(ID)
    end = stream.latestOffset(stream.initialOffset(), None)
    assert positions(end) == {"a.json": 9, "b.json": 9}
    (partition,) = stream.partitions({}, end)
    assert [i for batch in stream.read(partition) for i in ids_of(batch)] == [1, 3]
    assert stream.partitions(end, end) == []
    write_ids(tmp_path / "a.json", end="\n")
    (partition,) = stream.partitions(end, stream.latestOffset(end, None))
    assert [i for batch in stream.read(partition) for i in ids_of(batch)] == [2]


def test_a_machine_without_the_folder_is_named(tmp_path: Path) -> None:
    driver = reader(tmp_path)
    (partition,) = driver.partitions({})
    tmp_path.rmdir()
    with pytest.raises(SourceUnavailableError, match=f"not on {socket.gethostname()}, where a ta"):
        driver.open(partition)


def test_files_that_are_read_one_behind_another_are_in_no_order(tmp_path: Path) -> None:
    write_ids(tmp_path / "a.json", 1)
    partition = open_one(reader(tmp_path))
    assert read_rows(partition, 1) == [1]
    assert (partition.caught_up, partition.in_order) == (True, True)
    for name in "ab":
        write_ids(tmp_path / f"{name}.json", 2)
    seen = []
    while len(seen) < 2:
        if partition.read(0.1) is not None:
            seen.append((partition.caught_up, partition.in_order))
    assert seen == [(False, False), (True, False)]


def test_a_file_that_grows_while_others_are_read_is_known_to_have_more(tmp_path: Path) -> None:
    write_ids(tmp_path / "a.json", 1)
    partition = open_one(reader(tmp_path))
    assert read_rows(partition, 1) == [1]
    assert not partition.has_more
    write_ids(tmp_path / "a.json", 2)
    wait_until(lambda: partition.has_more, "another look")
    assert not partition.caught_up
    assert read_rows(partition, 1) == [2]
    assert not partition.has_more

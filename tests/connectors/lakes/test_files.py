"""Spark's file source, without Spark."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import ConfigError, SourceUnavailableError
from engine.sources.files import losses
from engine.sources.files.data_source import (
    FORMATS,
    CsvSource,
    JsonSource,
    ParquetSource,
    TextSource,
)
from engine.sources.files.looking import FolderLook
from engine.sources.files.source_log import FileSourceLog, LoggedFile, path_of, url_of
from engine.sources.tail.name_filter import NameFilter
from tests.connectors.lakes.folders import VALUES, Case
from tests.connectors.lakes.queries import WAIT_S, Kept, all_read, committed, failure, start

GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoints" / "spark-4.3-files-availablenow"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_files_are_read_once_over_restarts_and_compactions(case: Case) -> None:
    for start_number in range(3):
        query = case.start()
        for number in range(4):
            case.put(f"{start_number}-{number}.json", 2)
            query.processAllAvailable()
        all_read(query)
    assert case.sink.values() == list(range(case.count))
    assert committed(case.checkpoint) == {"logOffset": 11}
    names = {each.name for each in (case.checkpoint / "sources/0").iterdir()}
    assert names == {*map(str, range(12))} - {"9"} | {"9.compact"}


def test_an_empty_folder_is_waited_for(case: Case) -> None:
    query = case.start()
    assert query.awaitEpoch(0, WAIT_S)
    all_read(query)
    assert committed(case.checkpoint) == {"logOffset": -1}
    assert not (case.checkpoint / "sources").exists()
    case.put("a")
    case.read()
    assert case.sink.values() == [0]


def test_a_rewound_query_reads_the_same_files_in_the_same_epochs(case: Case) -> None:
    query = case.start()
    for number in range(11):
        case.put(f"{number}.json")
        query.processAllAvailable()
    all_read(query)
    checkpoint = Checkpoint(str(case.checkpoint))
    target = next(
        epoch for epoch in checkpoint.epochs()
        if checkpoint.committed_offsets(epoch) == ({"logOffset": 3},)
    )  # fmt: skip
    checkpoint.rewind(target, accept_repeats=True)
    case.sink.epochs = {e: rows for e, rows in case.sink.epochs.items() if e <= target}
    case.put("last.json")
    case.read()
    assert case.sink.values() == list(range(12))
    assert case.epochs()[-8:] == [1] * 8


def test_thousands_of_files(case: Case) -> None:
    for number in range(1_500):
        (case.folder / f"in/{number}.json").write_text(f'{{"value":{number}}}')
    query = case.start()
    query.processAllAvailable()
    (case.folder / "in/more.json").write_text('{"value":1500}')
    all_read(query)
    assert case.sink.values() == list(range(1_501))
    case.read()
    assert len(case.sink.rows) == 1_501


def test_an_epoch_has_so_many_files_at_most(case: Case) -> None:
    for number in range(10):
        case.put(f"{number}.json", 2)
    case.read(maxFilesPerTrigger="3")
    assert case.sink.values() == list(range(20))
    assert max(case.epochs()) <= 6


def test_an_epoch_has_so_many_bytes_at_most_or_one_file(case: Case) -> None:
    for number in range(6):
        case.put(f"{number}.json", 10)
    size = (case.folder / "in/5.json").stat().st_size
    case.read(maxBytesPerTrigger=str(2 * size + 1))
    assert case.sink.values() == list(range(60))
    assert max(case.epochs()) <= 20


def test_the_newest_come_first_if_wanted(case: Case) -> None:
    now_s = time.time()
    for number in range(4):
        case.put(f"{number}.json", modified_s=now_s - 100 * number)
    case.read(latestFirst="true", maxFilesPerTrigger="1")
    assert [row["value"] for row in case.sink.rows] == [0, 1, 2, 3]
    other = Case(case.folder / "other") if (case.folder / "other").mkdir() is None else case
    for number in range(4):
        other.put(f"{number}.json", modified_s=now_s - 100 * number)
    other.read(maxFilesPerTrigger="1")
    assert [row["value"] for row in other.sink.rows] == [3, 2, 1, 0]


def test_what_is_too_old_is_left_out_aloud(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.put("new.json")
    case.read(maxFileAge="1h")
    case.put("old.json", modified_s=time.time() - 7200)
    case.put("newer.json")
    case.read(maxFileAge="1h")
    assert case.sink.values() == [0, 2]
    assert "older than option maxFileAge allows" in caplog.text


def test_names_decide_if_wanted(case: Case) -> None:
    case.put("a.json")
    case.read(fileNameOnly="true", recursiveFileLookup="true")
    case.put("sub/a.json")
    case.put("sub/b.json")
    case.put("c.txt")
    case.read(fileNameOnly="true", recursiveFileLookup="true", pathGlobFilter="*.json")
    assert case.sink.values() == [0, 2]


def test_a_file_that_vanishes_is_an_error_or_left_out(case: Case) -> None:
    case.put("a.json")
    case.read()
    log = FileSourceLog(LocalStorage(str(case.checkpoint)), "sources/0")
    log.load()
    gone = str(case.folder / "in/gone.json")
    log.add([(gone, 1)])
    assert f"{gone} was there when it was found, and is gone" in failure(case.start())
    case.put("b.json")
    case.read(ignoreMissingFiles="true")
    assert case.sink.values() == [0, 1]
    assert committed(case.checkpoint) == {"logOffset": 2}


@pytest.mark.parametrize("leaves_folder", [True, False])
def test_a_folder_that_is_away_is_waited_for(case: Case, leaves_folder: bool) -> None:
    folder, aside = case.folder / "in", case.folder / "aside"
    options = {"path": str(folder), "ignoreMissingFiles": "true"}
    reader = JsonSource(options).continuousReader(VALUES)
    path = case.put("a.json")
    case.put("b.json")
    read = reader.unit_reader()
    folder.rename(aside)
    if leaves_folder:
        folder.mkdir()
    with pytest.raises(SourceUnavailableError, match="is not there where this task runs"):
        list(read(str(path)))
    if leaves_folder:
        folder.rmdir()
    aside.rename(folder)
    assert [content.num_rows for content in read(str(path))] == [1]
    path.unlink()
    assert list(read(str(path))) == []


def test_a_file_that_was_away_when_it_was_looked_for_is_not_left_out(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"path": str(case.folder / "in"), "ignoreMissingFiles": "true"}
    reader = JsonSource(options).continuousReader(VALUES)
    path, aside = case.put("a.json"), case.folder / "aside"
    case.put("b.json")
    path.rename(aside)
    seen = losses.check_there

    def there(root: str, name: str) -> None:
        if aside.exists():
            aside.rename(path)
        seen(root, name)

    monkeypatch.setattr(losses, "check_there", there)
    with pytest.raises(SourceUnavailableError, match="was away"):
        list(reader.unit_reader()(str(path)))


@pytest.mark.parametrize("leaves_folder", [True, False])
def test_nothing_counts_as_read_because_the_folder_is_away(case: Case, leaves_folder: bool) -> None:
    folder, aside = case.folder / "in", case.folder / "aside"
    reader = JsonSource({"path": str(folder)}).continuousReader(VALUES)
    path = case.put("a.json")
    case.put(".keep")
    reader.openLog(LocalStorage(str(case.checkpoint)), "sources/0")
    start = reader.initialOffset()
    reader.handingOut(start)
    end = reader.latestOffset(start)
    folder.rename(aside)
    if leaves_folder:
        folder.mkdir()
    assert not reader.hasReached(start, end)
    if leaves_folder:
        folder.rmdir()
    aside.rename(folder)
    assert not reader.hasReached(start, end)
    path.unlink()
    assert reader.hasReached(start, end)


def test_a_file_in_the_place_of_one_that_is_too_old_is_waited_for(case: Case) -> None:
    now_s = time.time()
    case.put("a.json", modified_s=now_s - 9_000)
    case.read(maxFileAge="1h")
    case.put("b.json", modified_s=now_s - 4_000)
    case.read(maxFileAge="1h")
    case.put("a.json", modified_s=now_s)
    query = case.start(maxFileAge="1h")
    query.processAllAvailable()
    assert case.sink.values() == [0, 1, 2]
    query.stop()


def test_names_need_not_be_utf_8(case: Case) -> None:
    name = os.fsdecode(b"\xe9 50%")
    archive = case.folder / "archive"
    options = {"cleanSource": "archive", "sourceArchiveDir": str(archive)}
    case.put(f"{name}.json", 2)
    packed = case.put(f"{name}.json.gz", 2)
    packed.write_bytes(gzip.compress(packed.read_bytes()))
    case.read()
    case.put(f"sub{name}/p=1/more{name}.json")
    case.read(recursiveFileLookup="true", **options)
    assert case.sink.values() == [0, 1, 2, 3, 4]
    assert len(list(archive.rglob(f"more{name}.json"))) == 1
    (case.folder / f"in/bad{name}.json").write_text('{"value":5}\n{"value":"no"}')
    assert "in/bad/e9 50%.json cannot be read" in failure(case.start(mode="FAILFAST"))


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_names_of_files_with_columns_need_not_be_utf_8(tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    path, sink = tmp_path / "in" / os.fsdecode(b"\xe9"), Kept()
    write = {"parquet": parquet.write_table, "orc": orc.write_table}[kind]
    with path.open("wb") as file:
        write(pa.table({"value": pa.array([1], pa.int64())}), file)
    source = FORMATS[kind]({"path": str(tmp_path / "in")})
    all_read(start(source, VALUES, tmp_path / "checkpoint", sink))
    assert sink.values() == [1]
    path.with_name(os.fsdecode(b"\xe8")).write_bytes(b"half a file")
    told = failure(start(source, VALUES, tmp_path / "checkpoint", sink))
    assert f"in//e8 cannot be read as {kind}" in told


def test_a_folder_that_tells_what_is_no_utf_8_is_named(case: Case) -> None:
    case.put(os.fsdecode(b"p=\xe9/x.json"))
    schema = StructType([*VALUES, StructField("p", StringType())])
    assert "in/p=/e9/x.json tells p=" in failure(case.start(schema))


def test_files_are_cleaned_up_when_their_rows_are_committed(case: Case) -> None:
    archive = case.folder / "archive"
    case.put("p=1/a.json")
    case.read(cleanSource="archive", sourceArchiveDir=str(archive))
    kept = archive / str(case.folder).lstrip("/") / "in/p=1/a.json"
    assert kept.read_text() == '{"value": 0}'
    path = case.put("b.json")
    case.read(cleanSource="delete")
    assert not path.exists()
    assert case.sink.values() == [0, 1]


def test_a_bad_record_is_named_and_can_be_skipped(case: Case) -> None:
    (case.folder / "in/a.json").write_text('{"value":1}\n{"value":"no"}\n{"value":3}')
    told = failure(case.start(mode="FAILFAST"))
    assert "the line at byte 12 of" in told
    assert "in/a.json" in told
    all_read(case.start(mode="FAILFAST", engine=EngineOptions(on_bad_record="skip")))
    assert case.sink.values() == [1, 3]
    (case.folder / "in/b.json").write_text('{"value":4}\n{"value":"no"}')
    case.read(mode="DROPMALFORMED")
    assert case.sink.values() == [1, 3, 4]


def test_folders_tell_columns(case: Case) -> None:
    schema = StructType([*VALUES, StructField("p", IntegerType()), StructField("Q", StringType())])
    case.put("p=1/q=a%20b/x.json")
    case.put("p=__HIVE_DEFAULT_PARTITION__/q=c/x.json")
    case.put("_temporary/p=1/x.json")
    all_read(case.start(schema))
    assert sorted((row["value"], row["p"], row["Q"]) for row in case.sink.rows) == [
        (0, 1, "a b"), (1, None, "c"),
    ]  # fmt: skip
    case.put("p=none/q=a/x.json")
    assert "tells p='none', which is no INT" in failure(case.start(schema))


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.parquet").write_bytes(b"half a file")
    source = ParquetSource({"path": str(tmp_path / "in")})
    told = failure(start(source, VALUES, tmp_path / "checkpoint", Kept()))
    assert "in/a.parquet cannot be read as parquet" in told


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": "/data/*/in"}, "reads one folder, not a pattern"),
        ({"path": "s3://bucket/in"}, "works on local or mounted folders"),
        ({"path": "/no/such"}, "is not a folder"),
        ({"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"}, "both"),
        ({"maxFileAge": "soon"}, "maxFileAge"),
        ({"multiLine": "true"}, "must be false"),
        ({"modifiedAfter": "2020-01-01"}, "no option 'modifiedafter'"),
        ({"cleanSource": "archive"}, "sourceArchiveDir"),
        ({"sourceArchiveDir": "/a"}, "must be left out unless cleanSource is archive"),
        ({"sourceArchiveDir": "/a", "cleanSource": "delete"}, "left out unless cleanSource is"),
        ({"cleanSource": "archive", "sourceArchiveDir": "."}, "one is in the other"),
        ({"dateFormat": "yyyy"}, "no option 'dateformat'"),
    ],
)
def test_options_are_refused_aloud(tmp_path: Path, options: dict[str, str], text: str) -> None:
    if options.get("sourceArchiveDir") == ".":
        options = {**options, "sourceArchiveDir": str(tmp_path / "sub")}
    with pytest.raises(ConfigError, match=text):
        JsonSource({"path": str(tmp_path), **options}).continuousReader(VALUES)


def test_options_without_effect_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for source in (CsvSource, TextSource):
        source({"path": str(tmp_path), "maxCachedFiles": "5"})
    assert caplog.text.count("maxCachedFiles") == 2


# -- the log --------------------------------------------------------------------------------------


def test_sparks_log_is_read() -> None:
    log = FileSourceLog(LocalStorage(str(GOLDEN)), "sources/0")
    assert [file.entry for file in log.load()] == list(range(6))
    assert log.latest == 5


def test_a_line_is_sparks() -> None:
    line = '{"path":"file:///data/in/part-1.json","timestamp":1795174791828,"batchId":0}'
    assert LoggedFile.of_line(line).line() == line
    for name, text in {
        "with space": "with%20space", "50%25": "50%2525", "größe": "größe", "東京": "東京",
        "q?[x]{y}#": "q%3F%5Bx%5D%7By%7D%23", "a+b=c": "a+b=c",
    }.items():  # fmt: skip
        assert url_of(f"/in/{name}") == f"file:///in/{text}"
        assert path_of(url_of(f"/in/{name}")) == f"/in/{name}"


def test_an_entry_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    one, other = (FileSourceLog(LocalStorage(str(tmp_path)), "sources/0") for _ in range(2))
    for log in (one, other):
        log.load()
    assert one.add([("/a", 1)]) == 0
    with pytest.raises(SourceUnavailableError, match="is there already"):
        other.add([("/b", 1)])
    other.load()
    assert other.add([("/b", 1)]) == 1


def test_a_folder_that_has_settled_is_not_listed_again(tmp_path: Path) -> None:
    look = FolderLook(tmp_path, NameFilter("*"), recursive=False)
    (tmp_path / "p=1").mkdir()
    (tmp_path / "p=1/a").touch()
    long_ago = time.time() - 100
    os.utime(tmp_path / "p=1", (long_ago, long_ago))
    assert [Path(each.path).name for each in look.look()] == ["a"]
    assert look.look() == []
    (tmp_path / "p=1/b").touch()
    assert [Path(each.path).name for each in look.look()] == ["b"]

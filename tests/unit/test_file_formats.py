"""Files as the file source reads them, where Spark refuses or counts them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import SourceError
from engine.sources.files.file_formats import LineFiles, ParquetFiles


def test_a_double_is_not_made_less_precise(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1 / 3]}), tmp_path / "x.parquet")
    with pytest.raises(
        SourceError, match=r"column x .* is double, and the query's schema has FLOAT"
    ):
        list(
            ParquetFiles().batches(
                str(tmp_path / "x.parquet"), pa.schema([("x", pa.float32())]), ()
            )
        )


@pytest.mark.parametrize("name", ["x.json.snappy", "x.json.deflate"])
def test_what_is_compressed_otherwise_is_not_taken_for_lines(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\x01\n")
    with pytest.raises(SourceError, match="compressed"):
        list(
            LineFiles("json", "UTC").batches(
                str(tmp_path / name), pa.schema([("x", pa.int64())]), ()
            )
        )


TIMES = pa.schema(
    [
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.date32()),
        ("more", pa.list_(pa.struct([("t", pa.timestamp("us", tz="UTC"))]))),
        ("i", pa.int32()),
        ("bad", pa.string()),
    ]
)


def read(tmp_path: Path, text: str, lines: LineFiles, schema: pa.Schema) -> pa.Table:
    (tmp_path / "x").write_text(text)
    batches = list(lines.batches(str(tmp_path / "x"), schema, ()))
    found = pa.Table.from_batches([each for each in batches if isinstance(each, pa.RecordBatch)])
    found.validate(full=True)
    return found


def test_times_of_any_year_stay_in_a_line_that_does_not_fit(tmp_path: Path) -> None:
    seconds, text = 1767225600000, "+57971-01-01"
    line = f'{{"t":{seconds},"d":"{text}","more":[{{"t":{seconds}}},null],"i":"no"}}'
    json = LineFiles("json", "UTC", corrupt="bad")
    table = read(tmp_path, f'{line}\n{{"t":1,"i":2}}\n', json, TIMES)
    rows = table.sort_by([("i", "descending")])
    micros = rows["t"].cast(pa.int64()).to_pylist()
    assert micros == [1_000_000, seconds * 1_000_000]
    years = (57971 - 1970) * 366
    assert rows["d"].cast(pa.int32()).to_pylist()[1] in range(years - 60_000, years)
    assert rows["more"].combine_chunks().flatten().field("t").cast(pa.int64()).to_pylist() == [
        seconds * 1_000_000, None,
    ]  # fmt: skip
    assert rows["i"].to_pylist() == [2, None]
    assert rows["bad"].to_pylist() == [None, line]


def test_times_of_any_year_stay_in_a_line_of_csv_that_does_not_fit(tmp_path: Path) -> None:
    schema = pa.schema([TIMES.field("t"), TIMES.field("d"), TIMES.field("i"), TIMES.field("bad")])
    csv = LineFiles("csv", "UTC", corrupt="bad", written=("t", "d", "i"))
    line = "+57971-01-01T00:00:00Z,+57971-01-01,no"
    table = read(tmp_path, f"{line}\n2026-01-01T00:00:00Z,2026-01-01,2\n", csv, schema)
    assert table.num_rows == 2
    rows = table.sort_by([("i", "descending")])
    days = rows["d"].cast(pa.int32()).to_pylist()
    assert rows["t"].cast(pa.int64()).to_pylist() == [each * 86_400_000_000 for each in days]
    assert rows["bad"].to_pylist() == [None, line]


def test_a_line_that_is_nested_too_deeply_is_a_bad_one(tmp_path: Path) -> None:
    text = "[" * 1_000 + '\n{"i":1}\n'
    table = read(tmp_path, text, LineFiles("json", "UTC", corrupt="bad"), TIMES)
    assert sorted(table["i"].to_pylist(), key=repr) == [1, None]
    lines = LineFiles("json", "UTC", mode="failfast")
    found = list(lines.batches(str(tmp_path / "x"), TIMES, ()))
    assert [type(each).__name__ for each in found if not isinstance(each, pa.RecordBatch)] == [
        "BadRecordError"
    ]

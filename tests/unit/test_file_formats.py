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

"""The files sink on storage that is not shared, and with more files than may be open."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import (
    ConfigError,
    ContinuousError,
    SinkCommitRejectedError,
    SinkUnavailableError,
)
from engine.sinks.epoch_context import EpochContext
from tests.unit.test_files_sink import committed, data_files, rows, writer

MANY = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from tests.unit.test_files_sink import commit, writer
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
schema = pa.schema([("k", pa.int64()), ("id", pa.int64())])
sink = writer(Path(sys.argv[1]), schema, sys.argv[2], __partition_by='["k"]')
ids = list(range(4_000))
batch = pa.RecordBatch.from_pydict({"k": [i % 2_000 for i in ids], "id": ids}, schema)
commit(sink, 0, batch)
"""


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_more_partition_values_than_files_may_be_open(tmp_path: Path, kind: str) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", MANY, str(tmp_path), kind]
    subprocess.run(command, check=True, cwd=root, timeout=300)
    files = data_files(tmp_path)
    assert len(files) == 2_000
    if kind == "parquet":
        ids = [i for each in files for i in pq.ParquetFile(each).read()["id"].to_pylist()]
        assert sorted(ids) == list(range(4_000))


def test_files_that_were_closed_early_go_too_if_the_epoch_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sinks.files.row_files.OPEN_FILES_MAX", 2)
    monkeypatch.setattr("engine.sinks.files.row_files.BUFFER_BYTES", 1)
    schema = pa.schema([("k", pa.int64()), ("id", pa.int64())])
    sink = writer(tmp_path, schema, __partition_by='["k"]')

    def failing():  # type: ignore[no-untyped-def]
        for k in (1, 2, 3, 1, 4):
            yield pa.RecordBatch.from_pydict({"k": [k], "id": [k]}, schema)
        assert len(data_files(tmp_path)) == 5
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sink.write(failing())
    assert data_files(tmp_path) == []


@pytest.mark.parametrize("change", ["gone", "shorter"])
def test_files_that_the_driver_does_not_see_are_not_committed(tmp_path: Path, change: str) -> None:
    sink = writer(tmp_path)
    message = sink.write(iter([rows(1)]))
    (path,) = data_files(tmp_path)
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(b"")
    with pytest.raises(SinkCommitRejectedError, match=f"task on {socket.gethostname()} ") as error:
        sink.commit([message], 0)
    assert str(path) in str(error.value)
    assert "storage that the driver and all executors see" in (error.value.hint or "")
    assert sink.latestEpoch() is None


def test_an_epoch_that_is_committed_is_not_looked_at_again(tmp_path: Path) -> None:
    sink = writer(tmp_path)
    message = sink.write(iter([rows(1)]))
    sink.commit([message], 0)
    (path,) = committed(sink)
    path.unlink()
    writer(tmp_path).commit([message], 0)


@pytest.mark.parametrize(("epoch", "kind"), [(0, ConfigError), (3, SinkUnavailableError)])
@pytest.mark.parametrize("batches", [[], [rows(1)]])
def test_a_task_that_does_not_see_the_folder(
    tmp_path: Path, epoch: int, kind: type[ContinuousError], batches: list[pa.RecordBatch]
) -> None:
    """Before anything was committed, nobody ever saw it there; later, a mount may come back."""
    sink = writer(tmp_path / "out")
    sink.validate()
    shutil.rmtree(tmp_path / "out")
    EpochContext.set(EpochContext("q", "r", 2, 7, epoch))
    try:
        with pytest.raises(kind, match=f"not on {socket.gethostname()}, where a task runs"):
            sink.write(iter(batches))
    finally:
        EpochContext.set(None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("7d", 604_800_000), ("90", 90), (" 12H ", 43_200_000), ("5m", 300_000)],
)
def test_retention(tmp_path: Path, text: str, milliseconds: int) -> None:
    assert writer(tmp_path, retention=text).log._retention_ms == milliseconds


@pytest.mark.parametrize("text", ["", "-1d", "7 weeks", "d"])
def test_a_retention_that_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="retention"):
        writer(tmp_path, retention=text)

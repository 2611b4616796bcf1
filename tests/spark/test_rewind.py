"""What Spark sees of a files sink that was rewound, and a whole query taken back by the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.commands.command_line import main
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.query.writer import write_stream
from engine.sinks.files.data_source import ParquetDataSource

pytestmark = pytest.mark.spark
WAIT_S = 60


def epochs_seen(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(str(folder)).collect())


@pytest.mark.parametrize("interval", [3, 10])
def test_spark_reads_a_rewound_log(interval: int, spark: SparkSession, tmp_path: Path) -> None:
    schema = spark.range(0).schema
    options = CaseInsensitiveDict({"path": str(tmp_path), "compactInterval": str(interval)})
    sink: Any = ParquetDataSource(options).streamWriter(schema, overwrite=False)
    arrow = to_arrow(schema, "test")

    def write(*epochs: int) -> None:
        for epoch in epochs:
            batch = pa.record_batch([pa.array([epoch])], schema=arrow)
            sink.commit([sink.write(iter([batch]))], epoch)

    write(*range(13))
    for target in (11, 8, 7, 2, 0):
        sink.checkRewind(target)
        sink.rewind(target)
        assert epochs_seen(spark, tmp_path) == list(range(target + 1))
    write(*range(1, 30))
    assert epochs_seen(spark, tmp_path) == list(range(30))
    # As from a pin, after the log's older part was compacted and removed.
    position = sink.rewindPosition(4)
    for entry in (tmp_path / "_spark_metadata").iterdir():
        epoch = re.sub(r"\D", "", entry.name)  # of a checksum file, too
        if entry.is_file() and int(epoch) < 20 - 20 % interval - 1:
            entry.unlink()
    sink.rewind(4, position)
    assert epochs_seen(spark, tmp_path) == list(range(5))
    for epoch in range(5, 5 + 2 * interval):
        write(epoch)
        assert epochs_seen(spark, tmp_path) == list(range(epoch + 1))


def test_a_query_taken_back(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location, out = tmp_path / "checkpoint", tmp_path / "out"

    def run(condition: str, folder: Path = out, **options: str) -> None:
        rate = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
        writer = write_stream(rate.where(condition)).format("parquet").options(**options)
        writer.option("checkpointLocation", str(location)).trigger(continuous="100 milliseconds")
        query: Any = writer.start(str(folder))
        assert query.awaitEpoch(query.status["epoch"] + 4, WAIT_S)
        query.drain(WAIT_S)

    run("value >= 0")
    checkpoint = Checkpoint(str(location))
    parts = read_fingerprint(checkpoint.storage)
    assert parts is not None
    (source,) = parts["sources"]
    assert source["steps"] == ["Filter (value >= 0L)"]
    assert parts["schema"] == {"timestamp": "TIMESTAMP", "value": "BIGINT"}
    assert parts["sink"] == {"format": "parquet", "options": {"path": str(out)}}
    assert source["options"] == {}

    assert main(["rewind", str(location), "--to-epoch", "1"]) == 0
    assert "The sink has taken back what came later" in capsys.readouterr().out
    run("value >= 0 AND true")
    read = [row.value for row in spark.read.parquet(str(out)).select("value").collect()]
    offsets = checkpoint.committed_offsets()
    assert offsets is not None
    expected = sorted(
        value
        for partition, position in offsets[0].items()
        for value in range(int(partition), position["value"] + 1, 2)
    )
    assert sorted(read) == expected

    with pytest.raises(ConfigError, match=r"sink\.options\.path: .*out → .*else"):
        run("value >= 0", tmp_path / "else")
    run("value >= 0", tmp_path / "else", allowChangedQuery="true")


def test_a_query_of_spark_goes_on_behind_a_rewind_without_a_loss(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark's sink of files skips a batch that its folder has, though more is in it by then."""
    out, spec = tmp_path / "out", tmp_path / "query.json"
    (tmp_path / "in").mkdir()
    sink = {"format": "json", "options": {"path": str(out)}}
    named = {"source": {"format": "rate"}, "sink": sink, "checkpoint_location": "/unused"}
    spec.write_text(json.dumps(named))

    def run(arrives: int, checkpoint: str = "checkpoint") -> list[int]:
        (tmp_path / "in" / f"{arrives}.json").write_text(json.dumps({"id": arrives}))
        files = spark.readStream.schema("id BIGINT").json(str(tmp_path / "in"))
        writer = files.writeStream.format("json").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.start(str(out)).awaitTermination()
        return sorted(row.id for row in spark.read.json(str(out)).collect())

    assert [run(0), run(1)] == [[0], [0, 1]]
    back = ["rewind", str(tmp_path / "checkpoint"), "--to-epoch", "0"]
    assert main([*back, "--accept-repeats"]) == 2
    assert "would be lost" in capsys.readouterr().err
    assert main([*back, "--spec", str(spec)]) == 0
    assert run(2) == [0, 1, 2]

    copy = str(tmp_path / "copy")
    assert main(["copy", str(tmp_path / "checkpoint"), copy, "--to-epoch", "0"]) == 0
    assert f"continuous rewind {copy} --to-epoch 0 --spec SPEC" in capsys.readouterr().out
    assert main(["rewind", copy, "--to-epoch", "0", "--spec", str(spec)]) == 0
    assert run(3, "copy") == [0, 1, 2, 3]

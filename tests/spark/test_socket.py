"""Spark's own socket source in a plan, read by the engine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import ConfigError
from engine.query.writer import write_stream
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 60


def test_lines_come_from_a_socket(spark: SparkSession, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_S)
        host, port = listener.getsockname()
        lines = spark.readStream.format("socket").options(host=host, port=port)
        df = lines.option("includeTimestamp", "true").load()
        query = (
            write_stream(df.selectExpr("upper(value) AS value", "timestamp IS NULL AS none"))
            .format("memory")
            .queryName("from_a_socket")
            .trigger(continuous="50 milliseconds")
            .start()
        )
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"a\nb\n")
            table = spark.table("from_a_socket")  # an epoch may end between the two lines
            wait_until(lambda: table.count() == 2, "the rows", WAIT_S)
            query.drain(WAIT_S)
            found = table.collect()
        assert [tuple(row) for row in found] == [("A", False), ("B", False)]
        with pytest.raises(ConfigError, match=r"source socket\[.* cannot be read again"):
            write_stream(df).format("parquet").start(str(tmp_path / "out"))

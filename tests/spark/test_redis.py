"""A query of Spark's plan from a stream of Redis into another one, started twice."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("redis", reason="needs the extra redis")

from pyspark.sql import SparkSession

from engine.checkpoint.checkpoint import Checkpoint
from engine.query.registration import register
from engine.query.writer import write_stream
from tests.servers.process import NoServerError
from tests.servers.redis import running_redis

pytestmark = pytest.mark.spark
WAIT_S = 60


def test_entries_go_from_one_stream_to_another(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    checkpoint = str(tmp_path / "checkpoint")
    try:
        with running_redis(tmp_path / "redis") as server, server.client() as client:
            df = spark.readStream.format("redis").option("url", server.url)
            df = df.option("streams", "in").option("startingOffsets", "earliest").load()
            for start in (0, 100):
                query = (
                    write_stream(df.selectExpr("CAST(fields['n'] AS STRING) AS n", "stream"))
                    .format("redis")
                    .options(url=server.url, stream="out", checkpointLocation=checkpoint)
                    .trigger(continuous="50 milliseconds")
                    .start()
                )
                for number in range(start, start + 100):
                    client.xadd("in", {"n": number})
                query.processAllAvailable()
                query.drain(WAIT_S)
            found = [(int(each[b"n"]), each[b"stream"]) for _, each in client.xrange("out")]
            (last, _) = client.xrevrange("in", count=1)[0]
    except NoServerError as exc:
        pytest.skip(str(exc))
    assert found == [(number, b"in") for number in range(200)]
    milliseconds, number = last.decode().split("-")
    offsets = Checkpoint(checkpoint).committed_offsets()
    assert offsets == ({"in": f"{milliseconds}-{int(number) + 1}"},)

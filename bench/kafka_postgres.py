"""Kafka → filter, upper → PostgreSQL, 3,000,000 records that are there: ours by COPY, exactly once;
Spark's micro-batches by its JDBC writer from foreachBatch, at least once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.kafka import ENGINE, MICRO_BATCH, Setting
from bench.kafka_tables import measure
from tests.servers.jars import jars
from tests.servers.postgresql import PostgreSQL, running_postgresql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENGINES = (ENGINE, MICRO_BATCH)
DRIVER = "org.postgresql:postgresql:42.7.8"
TABLE = "results"


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    conf = {"spark.jars": ",".join(map(str, jars(DRIVER).glob("*.jar")))}
    with running_postgresql() as server:
        with server.connect() as connection:
            connection.execute(f"CREATE TABLE {TABLE} (value text)")
        measure(engine, partial(_start, server), conf)


def _start(server: PostgreSQL, here: Setting, df: DataFrame) -> Any:
    if here.is_ours:
        return here.start_to(df, "postgres", **server.options, table=TABLE)
    # Without this setting each row is an INSERT of its own.
    url = f"jdbc:{server.url}?reWriteBatchedInserts=true"
    options = {
        **server.options,
        "url": url,
        "dbtable": TABLE,
        "batchsize": "10000",
        "driver": "org.postgresql.Driver",
    }

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format("jdbc").options(**options).mode("append").save()

    writer = df.writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", str(here.checkpoint)).start()

"""``toTable``: where the files of a table of the session catalog are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import ConfigError
from engine.sinks.builtin_sinks import FILE_FORMATS

if TYPE_CHECKING:
    from engine.query.write_request import WriteRequest


def table_location(request: WriteRequest, table: str) -> tuple[str, str]:
    """The format and the path of a table's files; an absent table is created, as Spark does.

    :raises ConfigError: the table is a view, or its format is none of the files sink's.
    """
    spark = request.df.sparkSession
    if not spark.catalog.tableExists(table):
        wanted = request.sink_format or spark.conf.get("spark.sql.sources.default") or "parquet"
        _refuse_other(table, wanted)
        empty = spark.createDataFrame([], request.df.schema)
        writer = empty.write.format(wanted)
        if request.partition_columns:
            writer = writer.partitionBy(*request.partition_columns)
        writer.saveAsTable(table)
    facts = {
        row["col_name"]: row["data_type"]
        for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    }
    if facts.get("Type") == "VIEW":
        raise ConfigError(f"{table} is a view.", hint="Name a table.")
    provider = str(facts.get("Provider", "")).lower()
    _refuse_other(table, provider)
    return provider, str(facts["Location"])


def _refuse_other(table: str, provider: str) -> None:
    if provider not in FILE_FORMATS:
        raise ConfigError(
            f"Table {table} has the format {provider or 'unknown'!r}, which cannot be written to "
            "continuously.",
            hint=f"Use one of {', '.join(FILE_FORMATS)}, or trigger(processingTime=...).",
        )

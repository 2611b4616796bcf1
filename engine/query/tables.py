"""``toTable``: a table of the session catalog, and where its files are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError
from engine.query.spark_refusals import refusals_of_spark
from engine.sinks.builtin_sinks import FILE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.query.write_request import WriteRequest

_OF_SESSION = "CreateDataSourceTableCommand"
"""What Spark plans for a table of the session catalog alone."""


@dataclass(frozen=True)
class FilesTable:
    """A table that the files sink can write.

    :param format: of its files.
    :param path: their folder.
    :param missing: the statement that creates it; None if it is there.
    """

    spark: SparkSession
    format: str
    path: str
    missing: str | None = None

    def create(self) -> None:
        """Create it, if it is missing.

        :raises ConfigError: Spark refuses it.
        """
        if self.missing is not None:
            with refusals_of_spark():
                self.spark.sql(self.missing)


def files_table(request: WriteRequest, table: str) -> FilesTable:
    """Look the table up; nothing is created.

    :raises ConfigError: Spark refuses it, or would; it is a view, or its format is none of the
        files sink's.
    """
    spark = request.df.sparkSession
    with refusals_of_spark():
        if not spark.catalog.tableExists(table):
            wanted = _format(request)
            _refuse_other(table, wanted)
            statement = _statement(request, table, wanted)
            return FilesTable(spark, wanted, _place(spark, table, statement), statement)
        facts = {
            row["col_name"]: row["data_type"]
            for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
        }
    if facts.get("Type") == "VIEW":
        raise ConfigError(f"{table} is a view.", hint="Name a table.")
    provider = str(facts.get("Provider", "")).lower()
    _refuse_other(table, provider)
    return FilesTable(spark, provider, str(facts["Location"]))


def refuse_table(request: WriteRequest, table: str) -> None:
    """:raises ConfigError: the table is missing, and Spark would not create it."""
    spark = request.df.sparkSession
    with refusals_of_spark():
        if not spark.catalog.tableExists(table):
            planned = _planned(spark, _statement(request, table, _format(request)))
            if _is_of_session(planned):
                _location(spark, planned)


def _format(request: WriteRequest) -> str:
    named = request.sink_format or request.df.sparkSession.conf.get("spark.sql.sources.default")
    return named or "parquet"


def _statement(request: WriteRequest, table: str, wanted: str) -> str:
    columns = request.df._jdf.schema().asNullable().toDDL()
    names = ", ".join(_quoted(each) for each in request.partition_columns)
    folders = f" PARTITIONED BY ({names})" if names else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING {_quoted(wanted)}{folders}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _place(spark: SparkSession, table: str, statement: str) -> str:
    """Where Spark would put the files of the table."""
    planned = _planned(spark, statement)
    if not _is_of_session(planned):
        raise ConfigError(
            f"Table {table} is missing, and not of the session catalog.",
            hint="Create it before, or name a table of the session catalog.",
        )
    name = str(planned.table().identifier().table())
    if re.fullmatch(r"\w+", name, re.ASCII) is None:
        raise ConfigError(
            f"Spark creates no table of the name {name!r}.",
            hint="Use letters from a to z, digits and _.",
        )
    return _location(spark, planned)


def _planned(spark: SparkSession, statement: str) -> Any:
    """What Spark would do for a statement, which is not done."""
    jvm, state = spark._jvm, spark._jsparkSession.sessionState()
    assert jvm is not None
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    execution = state.executePlan(state.sqlParser().parsePlan(statement), skip)
    execution.assertAnalyzed()
    return execution.analyzed()


def _is_of_session(planned: Any) -> bool:
    return str(planned.getClass().getSimpleName()) == _OF_SESSION


def _location(spark: SparkSession, planned: Any) -> str:
    """As DESCRIBE tells it, once the table is there."""
    jvm, tables = spark._jvm, spark._jsparkSession.sessionState().catalog()
    assert jvm is not None
    place = tables.defaultTablePath(planned.table().identifier())
    return str(jvm.org.apache.spark.sql.catalyst.catalog.CatalogUtils.URIToString(place))


def _refuse_other(table: str, provider: str) -> None:
    if provider not in FILE_FORMATS:
        raise ConfigError(
            f"Table {table} has the format {provider or 'unknown'!r}, which cannot be written to "
            "continuously.",
            hint=f"Use one of {', '.join(FILE_FORMATS)}, or trigger(processingTime=...).",
        )

"""A query here and in Spark, and what differs.

Append and complete results are Spark's; what updates come to in the end is, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.base.options import KEYS_STAY_IN_PARTITIONS
from engine.errors import ContinuousError, UnsupportedQueryError
from engine.plan.planner import plan_query
from tests.parity.stateful.in_partitions import InSeveral
from tests.parity.stateful.own_side import OwnQuery
from tests.parity.stateful.spark_side import run_in_spark
from tests.parity.stateful.steps import EVENTS, OTHERS, Step
from tests.parity.stateful.templates import TEMPLATES, Template
from tests.spark.queries import compare_tables
from tests.spark.values import plain_values, same

_HINT = re.compile(r"/\*\+ (dedup|within)\((.*?)\) \*/ ")
_Outcome = list[pa.Table] | Exception


class NothingToCompare(Exception):
    """Neither has a row: such a query shows nothing."""


@dataclass(frozen=True)
class Case:
    """A query in one output mode, ANSI or not."""

    template: Template
    mode: str
    ansi: bool

    @property
    def name(self) -> str:
        return f"{self.template.name}-{self.mode}-{'ansi' if self.ansi else 'legacy'}"


def cases() -> list[Case]:
    """All there are."""
    return [
        Case(template, mode, ansi)
        for number, template in enumerate(TEMPLATES)
        for place, mode in enumerate(template.modes)
        for ansi in ((number + place) % 2 == 0, (number + place) % 2 == 1)
    ]


def views(spark: SparkSession, folder: Path) -> None:
    """What the queries read; two streams are files in ``folder``."""
    for name, schema, view, time, delay in (
        ("events", EVENTS, "e", "at", "5 minutes"),
        ("others", OTHERS, "o", "at2", "10 minutes"),
    ):
        (folder / name).mkdir()
        empty = spark.createDataFrame(schema.empty_table())
        df = spark.readStream.schema(empty.schema).parquet(str(folder / name))
        df.createOrReplaceTempView(f"{view}0")
        df.withWatermark(time, delay).createOrReplaceTempView(view)
    names = spark.createDataFrame(
        [(0, "nought"), (1, "one"), (1, "uno")], "number INT, name STRING"
    )
    names.createOrReplaceTempView("names")
    spark.udf.register("plus_one", lambda x: None if x is None else x + 1, "bigint")


def differences(
    spark: SparkSession, folder: Path, case: Case, given: list[Step], *, keys_stay: bool = False
) -> list[str]:
    """In words; none if the results are the same, or both fail.

    :param keys_stay: whether each key is in one partition, and its state kept there.
    :raises ContinuousError: it fails here, and not in Spark.
    :raises NothingToCompare: neither has a row; or keys of such a query cannot stay.
    """
    template, mode = case.template, case.mode
    spark.conf.set("spark.sql.ansi.enabled", str(case.ansi).lower())
    df = made(spark, template.sql)
    mine = _attempt(lambda: run_here(df, mode, given, keys_stay=keys_stay))
    if isinstance(mine, UnsupportedQueryError) and KEYS_STAY_IN_PARTITIONS in str(mine):
        raise NothingToCompare
    theirs = _attempt(lambda: run_in_spark(df, mode, folder, given))
    if isinstance(theirs, Exception):
        return [] if isinstance(mine, Exception) else [f"Spark fails: {theirs}"]
    if isinstance(mine, Exception):
        raise mine
    if mode == "complete":
        theirs, mine = theirs[-1:], mine[-1:]
    elif mode == "update" and "dedup" not in template.sql:
        theirs = last_of_each(theirs, template.keys)
        mine = last_of_each(mine, template.keys)
    if not theirs and not mine:
        raise NothingToCompare
    if not theirs:
        return [f"no row in Spark, {pa.concat_tables(mine).num_rows} here"]
    left = pa.concat_tables(theirs)
    right = pa.concat_tables(mine) if mine else left.schema.empty_table()
    return _compared(left, right.cast(left.schema), template.ulps)


def made(spark: SparkSession, sql: str) -> DataFrame:
    """The query; SQL has no words for deduplication, so a comment has."""
    found = _HINT.search(sql)
    df = spark.sql(_HINT.sub("", sql))
    if found is None:
        return df
    columns = found[2].split(", ")
    if found[1] == "within":
        return df.dropDuplicatesWithinWatermark(columns)
    return df.dropDuplicates(columns)


def last_of_each(tables: list[pa.Table], keys: int) -> list[pa.Table]:
    """The last row of each key."""
    if not tables:
        return []
    table = pa.concat_tables(tables).combine_chunks()
    columns = [plain_values(column) for column in table.columns[:keys]]
    places = {repr(key): row for row, key in enumerate(zip(*columns, strict=True))}
    return [table.take(sorted(places.values()) if keys else [table.num_rows - 1])]


def _attempt(run: Callable[[], list[pa.Table]]) -> _Outcome:
    try:
        return run()
    except InSeveral:
        raise NothingToCompare from None
    except (ContinuousError, PySparkException) as error:
        return error


def run_here(
    df: DataFrame, mode: str, given: list[Step], *, keys_stay: bool = False
) -> list[pa.Table]:
    """The rows of each epoch that had some."""
    policy = df.sparkSession.conf.get("spark.sql.streaming.multipleWatermarkPolicy")
    planned = plan_query(df, exact_math=True, output_mode=mode, keys_stay=keys_stay)
    query = OwnQuery(planned, policy=str(policy))
    epochs: list[pa.Table] = []
    for number, step in enumerate(given):
        epochs += query.step(step)
        query.rescale((3, 1, 2)[number % 3])
    return epochs


def _compared(theirs: pa.Table, mine: pa.Table, ulps: int) -> list[str]:
    """The differences; DOUBLEs that may differ are compared in the order of the other columns."""
    if not ulps and (theirs.schema != mine.schema or theirs.num_rows != mine.num_rows):
        return compare_tables(theirs, mine)
    of = slice(None, -1 if ulps else None)
    left, right = (
        sorted(zip(*map(plain_values, table.columns), strict=True), key=lambda row: repr(row[of]))
        for table in (theirs, mine)
    )
    if len(left) != len(right):
        return [f"{len(left)} rows in Spark, {len(right)} here"]
    names = theirs.schema.names
    return [
        f"{', '.join(_columns(names, a, b, ulps))} of {a[:3]}"
        for a, b in zip(left, right, strict=True)
        if not same(a, b, ulps)
    ]


def _columns(names: list[str], theirs: Any, mine: Any, ulps: int) -> Iterator[str]:
    """Those of a row that differ."""
    for name, a, b in zip(names, theirs, mine, strict=True):
        if not same(a, b, ulps):
            yield f"{name}: {a!r} in Spark, {b!r} here"

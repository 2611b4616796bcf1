"""Whole queries with Python functions; see :mod:`tests.spark.whole_queries`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf, pandas_udf, udf

from tests.spark.queries import Query


def _events(df: DataFrame) -> DataFrame:
    schema = "id BIGINT, type STRING, price DOUBLE, tags ARRAY<STRING>"
    return df.select("offset", F.from_json("value", schema).alias("e")).select("offset", "e.*")


def parse_in_python(df: DataFrame) -> DataFrame:
    @udf("struct<id: bigint, tags: array<string>, error: string>")
    def parse(value):  # type: ignore[no-untyped-def]  # hints would make it another kind
        try:
            event = json.loads(value or "null") or {}
            return {"id": event.get("id"), "tags": event.get("tags"), "error": None}
        except ValueError as error:
            return {"error": str(error), "id": None, "tags": None}

    return df.select("offset", parse("value").alias("p")).select("offset", "p.*")


def score(df: DataFrame) -> DataFrame:
    @pandas_udf("double")
    def scored(price: pd.Series, offset: pd.Series) -> pd.Series:
        return (price.fillna(0) / (offset + 1)).round(6)

    return _events(df).withColumn("score", scored("price", "offset")).where("score > 0.5")


def normalize(df: DataFrame) -> DataFrame:
    @arrow_udf("string")
    def clean(text: pa.Array) -> pa.Array:
        return pc.utf8_upper(pc.utf8_trim_whitespace(text))

    return _events(df).select(clean("type").alias("type"), F.length("type").alias("n"))


def filter_rows(df: DataFrame) -> DataFrame:
    wanted = udf(lambda kind, price: kind == "buy" and price is not None, "boolean")
    return _events(df).where(wanted("type", "price")).select("id", "price")


def pipeline_of_functions(df: DataFrame) -> DataFrame:
    words = udf(lambda text: (text or "").split(), "array<string>")
    length = udf(lambda word: len(word), "int", useArrow=False)
    return (
        df.select("offset", F.explode(words("value")).alias("word"))
        .withColumn("length", length("word"))
        .where("length > 3")
    )


def model_per_epoch(df: DataFrame) -> DataFrame:
    @pandas_udf("double")
    def predict(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        weight = 0.5  # where a model would be loaded
        for batch in batches:
            yield batch * weight

    return _events(df).select("id", predict("price").alias("p")).where("p IS NOT NULL")


def map_in_arrow(df: DataFrame) -> DataFrame:
    def keep_even(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pc.equal(pc.bit_wise_and(batch["offset"], 1), 0))

    return df.mapInArrow(keep_even, df.schema).select("offset", F.length("value"))


def map_in_pandas(df: DataFrame) -> DataFrame:
    def explode_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            twice = pd.concat([frame[["offset"]], frame[["offset"]] * 10])
            yield twice.assign(text=twice["offset"].astype(str))

    return df.where("offset < 9").mapInPandas(explode_frames, "offset BIGINT, text STRING")


FUNCTIONS: Final[dict[str, Query]] = {
    "JSON parsed by a function": parse_in_python,
    "a score by pandas": score,
    "texts cleaned by Arrow": normalize,
    "a filter in Python": filter_rows,
    "functions, explode, functions": pipeline_of_functions,
    "a model over iterators": model_per_epoch,
    "mapInArrow": map_in_arrow,
    "mapInPandas": map_in_pandas,
}
"""All of them over the input ``raw``."""

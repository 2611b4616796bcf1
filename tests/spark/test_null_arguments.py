"""What Spark calls in Java gets no arguments behind one that is NULL: they are not even evaluated.

That is so in compiled code. What interprets expressions evaluates all of them, and with it the
comparison of errors in :mod:`tests.spark.expressions`: it cannot see this.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import configured
from tests.spark.interpreted import CONF
from tests.spark.queries import assert_same_query
from tests.spark.since import since

pytestmark = pytest.mark.spark

_NUMBER = "CAST(CAST(word AS INT) AS STRING)"
"""Fails for a word."""
_VECTORS = since("4.2", "functions of vectors")


@pytest.mark.parametrize(
    "expression",
    [
        f"aes_encrypt(text, rpad({_NUMBER}, 16, 'k'), 'ECB')",
        pytest.param(
            "vector_inner_product(IF(text IS NULL, NULL, array(1F)), array(CAST(word AS FLOAT)))",
            marks=_VECTORS,
        ),
        # What Spark does not compile among the arguments says nothing about the call.
        pytest.param(
            "vector_inner_product(array_sort(IF(text IS NULL, NULL, array(1F))), "
            "array(CAST(word AS FLOAT)))",
            marks=_VECTORS,
        ),
    ],
)
def test_are_not_evaluated_behind_null(spark: SparkSession, expression: str) -> None:
    table = pa.table({"text": ["a", None], "word": ["1", "none"]})
    with configured(spark, {**CONF, "spark.sql.ansi.enabled": "true"}):
        assert_same_query(spark, table, lambda df: df.selectExpr(f"{expression} AS v"))

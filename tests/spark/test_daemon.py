"""The daemon that forks the Python workers."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_workers_have_pyspark_from_files_whose_bytecode_is_kept(spark: SparkSession) -> None:
    of_workers = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark_here()).first()
    assert of_workers == pyspark.__file__


def pyspark_here() -> str:
    import pyspark

    return pyspark.__file__

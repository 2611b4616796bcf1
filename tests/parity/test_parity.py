"""A small part of the oracle: a few rows of the first expression of every name; of names that
have changed since the last long run all expressions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tests.parity.measure import changed
from tests.parity.measurements import load
from tests.parity.oracle import DAMAGED, Report, Setting, run
from tests.parity.templates import Family, families
from tests.servers.jars import NoJarsError

pytestmark = pytest.mark.spark

_FAMILIES = list(families())


@pytest.mark.parametrize("family", _FAMILIES, ids=lambda family: family.name)
def test_as_in_spark(spark: SparkSession, family: Family) -> None:
    first = {name: texts[:1] for name, texts in family.templates.items()}
    few = {**first, **changed(family, load()["names"])}
    setting = Setting(7, 24, _FAMILIES.index(family) % 2 == 0, "Europe/Berlin")
    report = Report()
    try:
        run(spark, [replace(family, templates=few)], setting, report)
    except NoJarsError as exc:
        pytest.skip(str(exc))
    assert report.differences == []
    in_both_ways = [texts for name, texts in few.items() if name in family.near]
    assert report.cases == 24 * sum(map(len, [*few.values(), *in_both_ways]))


@pytest.mark.parametrize(
    ("expression", "spark", "chance"),
    [
        ("kll_sketch_get_n_float(f)", "raises [java.lang.OutOfMemoryError: Java heap space]", True),
        ("kll_sketch_to_string_float(f)", "raises KLL_SKETCH_INCOMPATIBLE", True),
        ("kll_sketch_get_n_float(f)", "is 7", False),
        ("hll_sketch_estimate(f)", "raises [java.lang.OutOfMemoryError: Java heap space]", False),
    ],
)
def test_what_spark_reads_beside_a_damaged_sketch(
    expression: str, spark: str, chance: bool
) -> None:
    text = f"{expression}: {{'f': b'\\n'}} {spark} in Spark, KLL_INVALID_INPUT_SKETCH_BUFFER here"
    assert bool(DAMAGED.search(text)) is chance

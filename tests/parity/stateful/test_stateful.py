"""Of all queries the suite plays a few; ``python -m tests.parity.stateful`` plays them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.parity.stateful.comparing import Case, NothingToCompare, cases, differences, views
from tests.parity.stateful.inventing import invented
from tests.parity.stateful.steps import steps

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.sampled(0.01)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_stateful_queries(session: SparkSession, tmp_path: Path, case: Case) -> None:
    views(session, tmp_path)
    told = differences(session, tmp_path, case, steps())
    assert not told, "\n".join(told)


def test_a_correlation_divides_as_the_session_does(session: SparkSession, tmp_path: Path) -> None:
    """Of equal values there is none: an error in ANSI mode."""
    views(session, tmp_path)
    (case,) = (each for each in cases() if each.name == "corr(n, id)-append-ansi")
    assert differences(session, tmp_path, case, steps()) == []


@pytest.mark.sampled(0.005)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_keys_that_stay_in_their_partitions(
    session: SparkSession, tmp_path: Path, case: Case
) -> None:
    views(session, tmp_path)
    try:
        told = differences(session, tmp_path, case, steps(), keys_stay=True)
    except NothingToCompare:
        return
    assert not told, "\n".join(told)


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("number", range(4))
def test_random_queries(session: SparkSession, tmp_path: Path, number: int) -> None:
    views(session, tmp_path)
    case = invented(3, number)
    try:
        told = differences(session, tmp_path, case, steps(3))
    except NothingToCompare:
        return
    assert not told, "\n".join([case.template.sql, *told])

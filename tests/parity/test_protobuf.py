"""``from_protobuf`` and ``to_protobuf`` as in Spark, where its package can be had."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.parity import protobuf_templates as templates
from tests.parity.columns import COLUMNS
from tests.parity.oracle import Report, Setting, run
from tests.parity.templates import Family
from tests.servers.jars import NoJarsError

pytestmark = pytest.mark.spark

_FAMILY = Family(
    "protobuf",
    templates.TEMPLATES,
    {**COLUMNS, **templates.COLUMNS},
    ulps={},
    near={},
    jars=templates.JARS,
)


@pytest.mark.parametrize("ansi", [True, False])
def test_as_in_spark(spark: SparkSession, ansi: bool) -> None:
    report = Report()
    try:
        run(spark, [_FAMILY], Setting(11, 60, ansi, "Europe/Berlin"), report)
    except NoJarsError as exc:
        pytest.skip(str(exc))
    assert report.differences == []
    assert report.cases == 60 * sum(map(len, templates.TEMPLATES.values()))

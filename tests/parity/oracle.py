"""Runs the templates in Spark and here, over generated columns, and collects what differs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.parity.columns import table
from tests.parity.jars import add_jars
from tests.parity.templates import Family
from tests.spark.expressions import Difference, compare, configured
from tests.spark.interpreted import CONF

_AT_ONCE = 60
"""Expressions per Spark query."""
DAMAGED = re.compile(
    r"kll_sketch_.* raises (\w+|\[java\.lang\.OutOfMemoryError.*\]) in Spark, "
    r"KLL_INVALID_INPUT_SKETCH_BUFFER here$",
    re.DOTALL,
)
"""Of a sketch that promises more than it holds, or of another type, Spark reads what stands beside
it: the document of expressions says that it is an error here."""


@dataclass
class Report:
    """What has been compared.

    :param cases: compared values: rows times expressions.
    :param names: SQL names of the functions and operators compared.
    :param wrong: those that differ.
    :param damaged: values for which Spark fails otherwise, see :data:`DAMAGED`.
    """

    cases: int = 0
    names: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)
    differences: list[str] = field(default_factory=list)
    mismatches: int = 0
    damaged: int = 0


@dataclass(frozen=True)
class Setting:
    """How a session is set up, and what goes through it.

    :param timezone: the session's time zone.
    """

    seed: int
    rows: int
    ansi: bool
    timezone: str

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings."""
        return {
            "spark.sql.ansi.enabled": str(self.ansi).lower(),
            "spark.sql.session.timeZone": self.timezone,
            **CONF,
        }


def run(
    spark: SparkSession, families: Collection[Family], setting: Setting, report: Report
) -> None:
    """Compare every template of the families on every row."""
    with configured(spark, setting.conf):
        for family in families:
            add_jars(spark, family.jars)
            rows = table(family.columns, setting.rows, setting.seed)
            for part in _parts(family.templates, family.ulps):
                _compare(spark, rows, part, setting, report)
            near = {name: texts for name, texts in family.templates.items() if name in family.near}
            for part in _parts(near, family.near):
                _compare(spark, rows, part, setting, report, exact_math=False)


def _parts(
    templates: Mapping[str, list[str]], ulps: Mapping[str, int]
) -> Iterator[list[tuple[str, str, int]]]:
    """SQL name, expression and tolerance, so many at once."""
    every = [(name, text, ulps.get(name, 0)) for name, texts in templates.items() for text in texts]
    for start in range(0, len(every), _AT_ONCE):
        yield every[start : start + _AT_ONCE]


def _compare(
    spark: SparkSession,
    rows: pa.Table,
    part: Sequence[tuple[str, str, int]],
    setting: Setting,
    report: Report,
    *,
    exact_math: bool = True,
) -> None:
    texts, ulps = [text for _, text, _ in part], [ulps for _, _, ulps in part]
    every = compare(spark, rows, texts, setting.timezone, ulps, exact_math=exact_math)
    found = [each for each in every if not DAMAGED.search(each.text)]
    report.damaged += len(every) - len(found)
    report.cases += rows.num_rows * len(part)
    report.names |= {name for name, _, _ in part}
    report.mismatches += len(found)
    differing = {difference.expression for difference in found}
    report.wrong |= {name for name, text, _ in part if text in differing}
    for text in dict.fromkeys(difference.expression for difference in found):
        alike = [difference for difference in found if difference.expression == text]
        report.differences += [
            f"{setting}: {each}"
            for each in _shrunk(spark, rows, alike, setting, exact_math=exact_math)
        ]


def _shrunk(
    spark: SparkSession,
    rows: pa.Table,
    alike: list[Difference],
    setting: Setting,
    *,
    exact_math: bool,
) -> Iterator[str]:
    """The simplest rows on which an expression differs, and whether it does on that row alone."""
    for difference in sorted(alike, key=lambda each: len(each.text))[:2]:
        text = difference.text
        if difference.row is not None:
            one = rows.take([difference.row])  # PySpark cannot read slices of lists
            text_alone = difference.expression
            if not compare(spark, one, [text_alone], setting.timezone, exact_math=exact_math):
                text += " (but not when the row is alone)"
        yield text

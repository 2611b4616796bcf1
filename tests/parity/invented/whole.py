"""``python -m tests.parity.invented.whole --pipelines N --seed S``: random whole queries in both
engines; prints every difference made small, and a last line of JSON; exits with 1 if anything
differs.

Where one engine raises, the other one has to, too; which of several rows raises first is open.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.errors import TransformError, UnsupportedQueryError
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import Pipeline
from engine.plan.planner import plan_query
from tests.parity.columns import table
from tests.parity.invented.columns import COLUMNS
from tests.parity.invented.grammar import Grammar, grammar_of
from tests.parity.invented.java_texts import writes_floating
from tests.parity.invented.pipelines import INPUT, STATIC, TABLE, Invented, draw_pipeline, smaller
from tests.parity.invented.player import draw_setting
from tests.parity.invented.quiet import start_quietly
from tests.parity.oracle import Setting
from tests.parity.templates import families
from tests.spark.expressions import configured
from tests.spark.queries import compare_tables, run, stream_of, table_of

_AT_ONCE: Final = 20
"""Pipelines in one setting."""
_ROWS: Final = 12
_ATTEMPTS_MAX: Final = 60
"""To make a pipeline smaller."""


@dataclass
class Found:
    """What a run has played and found."""

    pipelines: int = 0
    raising: int = 0
    differing: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    redrawn: Counter[str] = field(default_factory=Counter)


class WholePlayer:
    """Compares pipelines on the rows of one table, in one setting of the session."""

    def __init__(self, spark: SparkSession, setting: Setting) -> None:
        rows = table(COLUMNS, _ROWS, setting.seed)
        self._rows = rows.append_column("row_number", pa.array(range(_ROWS), pa.int32()))
        self._spark = spark
        self._table: DataFrame = table_of(spark, self._rows)
        self._stream: DataFrame = stream_of(spark, self._rows.schema)
        table_of(spark, STATIC).createOrReplaceTempView(TABLE)

    def difference(self, pipeline: Invented, found: Found) -> str | None:
        """How the engines differ; None if they do not, or if one does not take the query."""
        try:
            theirs = self._query(self._table, pipeline)
            plans = plan_query(self._query(self._stream, pipeline), exact_math=True)
        except (AnalysisException, ParseException) as error:
            found.redrawn[error.getCondition() or type(error).__name__] += 1
            return None
        except UnsupportedQueryError as error:
            found.refused.update(str(problem)[-60:] for problem in error.problems)
            return None
        if any(
            writes_floating(self._spark, each)
            for plan in plans
            for each in _expressions(plan.steps)
        ):
            found.refused["Java before 19 writes floating numbers differently"] += 1
            return None
        found.pipelines += 1
        left, right = self._theirs(theirs), self._ours(plans)
        if isinstance(left, str) or isinstance(right, str):
            if isinstance(left, str) and isinstance(right, str):
                found.raising += 1
                return None
            return f"in Spark: {left}" if isinstance(left, str) else f"here: {right}"
        return "; ".join(compare_tables(left, right)[:2]) or None

    def _query(self, rows: DataFrame, pipeline: Invented) -> DataFrame:
        rows.createOrReplaceTempView(INPUT)
        return self._spark.sql(pipeline.sql)

    def _theirs(self, query: DataFrame) -> pa.Table | str:
        try:
            return query.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            return f"raises {str(error)[:200]}"

    def _ours(self, plans: tuple[Pipeline, ...]) -> pa.Table | str:
        try:
            return pa.concat_tables(run(plan, self._rows, rows=5) for plan in plans)
        except TransformError as error:
            return f"raises {str(error)[:200]}"


def _expressions(value: Any) -> Iterator[Expr]:
    """All that are in the steps of a pipeline."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _expressions(each)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _expressions(getattr(value, each.name))


def shrink(
    player: WholePlayer, grammar: Grammar, pipeline: Invented, text: str
) -> tuple[Invented, str]:
    """The smallest one that still differs, as far as some attempts lead."""
    attempts = 0
    candidates = sorted(smaller(grammar, pipeline), key=lambda each: each.size)
    while candidates and attempts < _ATTEMPTS_MAX:
        attempts += 1
        other = candidates.pop(0)
        difference = player.difference(other, Found())
        if difference:
            pipeline, text = other, difference
            candidates = sorted(smaller(grammar, pipeline), key=lambda each: each.size)
    return pipeline, text


def main(spark: SparkSession, pipelines: int, seed: int) -> int:
    """:return: the exit code."""
    found, known, begun = Found(), set[frozenset[str]](), time.monotonic()
    every = list(families())
    for first in range(0, pipelines, _AT_ONCE):
        setting, _ = draw_setting(random.Random(f"{seed} setting {first}"))
        with configured(spark, setting.conf):
            grammar = grammar_of(spark, every)
            player = WholePlayer(spark, setting)
            for number in range(first, min(first + _AT_ONCE, pipelines)):
                pipeline = draw_pipeline(grammar, random.Random(f"{seed} {number}"))
                text = player.difference(pipeline, found)
                if text is None:
                    continue
                found.differing += 1
                if pipeline.names not in known:
                    pipeline, text = shrink(player, grammar, pipeline, text)
                    known.add(pipeline.names)
                    print(f"DIFFERENCE {pipeline.sql}\n  {text}\n  {number}, {setting}", flush=True)
        rate = found.pipelines / (time.monotonic() - begun)
        print(f"{found.pipelines} pipelines, {found.differing} differ, {rate:.1f}/s", flush=True)
    print(
        json.dumps(
            {
                "seed": seed,
                "pipelines": found.pipelines,
                "raising": found.raising,
                "differing": found.differing,
                "refused": sum(found.refused.values()),
                "redrawn": dict(found.redrawn.most_common(5)),
            }
        )
    )
    return 1 if found.differing else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.parity.invented.whole")
    parser.add_argument("--pipelines", type=int, default=500, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="gives all pipelines")
    arguments = parser.parse_args()
    session = start_quietly()
    code = main(session, arguments.pipelines, arguments.seed)
    session.stop()
    sys.exit(code)

"""Plays trees: in Spark and here, on the same rows, in one setting of the session."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from tests.parity.columns import table
from tests.parity.invented.analysis import checked, resolved
from tests.parity.invented.columns import COLUMNS
from tests.parity.invented.constants import raises_before_any_row
from tests.parity.invented.ends_of_lines import may_read_on
from tests.parity.invented.java_texts import writes_floating
from tests.parity.invented.kinds import names_a_field_twice
from tests.parity.invented.modes import Mode
from tests.parity.invented.reading import quick_reading
from tests.parity.invented.snapshots import snapshots
from tests.parity.invented.trees import Tree, sql, ulps
from tests.parity.oracle import DAMAGED, Setting
from tests.spark.analyzed import Analyzed
from tests.spark.expressions import (
    Asked,
    Difference,
    compare_trees,
    configured,
    frame_of,
    read_analyzed,
)

_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
_ROWS = (1, 2, 40, 400)
_NAMELESS = re.compile(
    r"raises (\[(java|org)\.[\w.$]+(: | ).*\] in Spark, [A-Z_][A-Z0-9_]+"
    r"|java\.util\.regex\.PatternSyntaxException in Spark, INVALID_PARAMETER_VALUE"
    r"|\[java\.lang\.StackOverflowError\] in Spark, [A-Z][A-Z0-9_]+"
    r"|_LEGACY_ERROR_TEMP_\d+ in Spark, .*) here$",
    re.DOTALL,
)
_BEYOND = re.compile(
    r" is '(?P<ours>.*\\udc[c-f][0-9a-f].{0,24})(?:\\.{3,5}|.){1,5}' in Spark, '(?P=ours)' here$"
)
"""Of a text that ends amid a character, Spark's ``substring`` copies what stands behind it in the
memory."""
_UNCOMPILED = re.compile(
    r"(no row explains why Spark fails: .*|raises \[java\.util\.concurrent\.ExecutionException: .*)"
    "CompileException"
)
"""Spark itself cannot run it: ``typeof`` for one, unless it is optimized away."""
_LEFT_OVER = re.compile(
    r"no row explains why Spark fails: .*'from' can only be called with a fresh "
    "ArrayBasedMapBuilder"
)
"""Of a map whose keys were refused, inside of what takes that for NULL, Spark's builder keeps some:
the next row's is an error that nothing catches."""
_REFUSED_LATE = re.compile(
    r"(aggregate\(\) made a NULL inside of .* says that there is none"
    r"|, the pattern ('.*'|\".*\") is not supported: .*) here$",
    re.DOTALL,
)
"""A row shows it: Spark reads there what is not there; or the row has a pattern with ``\\X``."""
_MARKED = re.compile(r"from_csv\(.*(\\ufeff|\ufeff).* in Spark, .* here$", re.DOTALL)
"""Of the first text of a task Spark's reader of CSV leaves out a mark of the byte order."""
_EXPLAINED = (_NAMELESS, DAMAGED, _BEYOND, _UNCOMPILED, _LEFT_OVER, _REFUSED_LATE, _MARKED)


@dataclass
class Counts:
    """What was played.

    :param constants: trees left out for a constant that raises, see :mod:`.constants`.
    :param nameless: where Spark raises a plain Java exception, or one with a name that is to go,
        and we another error; with what Spark cannot compile, reads from beyond a text, or by its
        place in the task; what our side refuses when a row shows it.
    :param redrawn: what Spark's analyzer refuses, by its error class.
    :param refused: what our side refuses, by reason.
    """

    trees: int = 0
    constants: int = 0
    nameless: int = 0
    values: int = 0
    redrawn: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def draw_setting(rng: random.Random) -> tuple[Setting, bool]:
    """A setting, and whether our side gets the end of a longer batch."""
    seed, rows, ansi = rng.getrandbits(32), rng.choice(_ROWS), rng.random() < 0.5
    return Setting(seed, rows, ansi, rng.choice(_ZONES)), rng.random() < 0.5


class Player:
    """Compares trees on the rows of one table.

    :param rows: the table; if None, that of the setting.
    """

    def __init__(
        self,
        spark: SparkSession,
        setting: Setting,
        sliced: bool,
        mode: Mode,
        rows: pa.Table | None = None,
    ) -> None:
        self.table = table(COLUMNS, setting.rows, setting.seed) if rows is None else rows
        self.setting = setting
        self.sliced = sliced
        self.mode = mode
        self._spark = spark
        self.analyzed = Analyzed(frame_of(spark, self.table))
        self._numbers: dict[str, int] = {}

    def with_rows(self, numbers: Sequence[int]) -> Player:
        """On some of the rows only."""
        rows = self.table.take(list(numbers))
        return Player(self._spark, self.setting, self.sliced, self.mode, rows)

    def in_mode(self, mode: Mode) -> Player:
        """With all rows, in a session that is set up for this mode."""
        return Player(self._spark, self.setting, self.sliced, mode, self.table)

    def accepted(self, trees: Sequence[Tree], counts: Counts | None = None) -> list[bool]:
        """Which of the trees Spark's analyzer takes."""
        texts = [sql(tree) for tree in trees]
        found = resolved(self.analyzed, texts)
        if counts is not None:
            counts.redrawn.update(each for each in found if isinstance(each, str))
        resolved_ones = [each for each in found if not isinstance(each, str)]
        taken = set(checked(self.analyzed, resolved_ones))
        for text, number in zip(texts, found, strict=True):
            if not isinstance(number, str) and number in taken:
                self._numbers[text] = number
        return [number in taken for number in found]

    def differences(
        self, trees: Sequence[Tree], counts: Counts | None = None
    ) -> dict[int, list[Difference]]:
        """Position of a tree → how it differs. Spark's analyzer takes all of the trees."""
        texts = [sql(tree) for tree in trees]
        counts = counts or Counts()
        context = Context(self.setting.timezone)
        chosen: list[Asked] = []
        found: list[Difference] = []
        for tree, text, read in zip(trees, texts, self._read(texts), strict=True):
            if isinstance(read, Difference):
                found.append(read)
                continue
            expr, problems = read
            if problems:
                counts.refused.update({_reason(problem) for problem in problems})
            elif writes_floating(self._spark, expr):
                counts.refused["Java before 19 writes floating numbers differently"] += 1
            elif may_read_on(expr, self.table):
                counts.refused["Spark reads the CSV behind a U+FFFF from another place"] += 1
            elif names_a_field_twice(expr.dtype):
                counts.refused["Spark has no Arrow struct with two fields of one name"] += 1
            elif self.mode.optimized and raises_before_any_row(expr, context):
                counts.constants += 1
            else:
                chosen.append(Asked(self._numbers[text], text, expr, ulps(tree)))
        counts.trees += len(chosen)
        counts.values += len(chosen) * self.table.num_rows
        if chosen:
            found += self._compared(chosen)
        if not self.mode.optimized:
            failed = {each.expression for each in found if _UNCOMPILED.search(each.text)}
            found = [each for each in found if each.expression not in failed]
            if failed:
                found += self._optimized([each for each in chosen if each.text in failed])
        named = [each for each in found if not any(of.search(each.text) for of in _EXPLAINED)]
        counts.nameless += len(found) - len(named)
        every = {
            number: [each for each in named if each.expression == text]
            for number, text in enumerate(texts)
        }
        differing = {n: alike for n, alike in every.items() if alike}
        constants = [n for n in differing if self._optimizer_fails(texts[n])]
        counts.constants += len(constants)
        return {n: alike for n, alike in differing.items() if n not in constants}

    def _optimized(self, asked: Sequence[Asked]) -> Iterator[Difference]:
        """How those differ when Spark optimizes them."""
        with configured(self._spark, Mode(self.mode.compiled, True).rules):
            every = [each for each in asked if not self._optimizer_fails(each.text)]
            again = self._read([each.text for each in every]) if every else []
            chosen = []
            for each, read in zip(every, again, strict=True):
                if isinstance(read, Difference):
                    yield read
                elif not read[1]:
                    chosen.append(replace(each, tree=read[0]))
            yield from self._compared(chosen) if chosen else ()

    def _optimizer_fails(self, text: str) -> bool:
        """Whether a constant raises that Spark's rules compute, though others take it away."""
        try:
            plan: Any = self.analyzed.rows([self._numbers[text]])._jdf
            plan.queryExecution().optimizedPlan()
        except (PySparkException, Py4JJavaError):
            return True
        return False

    def _compared(self, chosen: Sequence[Asked]) -> list[Difference]:
        """What makes the comparison itself fail is a difference of the expression."""
        try:
            return compare_trees(
                self.analyzed,
                self.table,
                chosen,
                self.setting.timezone,
                sliced=self.sliced,
                compiled=self.mode.compiled,
            )
        except Exception as error:
            if len(chosen) == 1:
                reason = f"cannot be compared: {type(error).__name__}: {error}"
                return [Difference(chosen[0].text, reason[:500])]
        half = len(chosen) // 2
        return self._compared(chosen[:half]) + self._compared(chosen[half:])

    def _analyzed_now(self, texts: Sequence[str]) -> list[int]:
        """The numbers of what the analyzer takes, whoever has asked it."""
        new = list(dict.fromkeys(text for text in texts if text not in self._numbers))
        if new:
            numbers = self.analyzed.add(new)
            self._numbers |= dict(zip(new, numbers, strict=True))
        return [self._numbers[text] for text in texts]

    def _nodes(self, expressions: Any) -> Iterator[Any]:
        return snapshots(self._spark, expressions)

    def _read(self, texts: Sequence[str]) -> list[tuple[Expr, list[str]] | Difference]:
        """The trees and why they are refused; what fails otherwise is a difference."""
        try:
            numbers = self._analyzed_now(texts)
            with quick_reading(self._spark):
                zone = self.setting.timezone
                return list(read_analyzed(self.analyzed, numbers, zone, self._nodes))
        except Exception as error:
            if len(texts) == 1:
                reason = f"{texts[0]}: cannot be read: {type(error).__name__}: {error}"
                return [Difference(texts[0], reason[:500])]
        half = len(texts) // 2
        return self._read(texts[:half]) + self._read(texts[half:])


def _reason(problem: str) -> str:
    """Without the expression, which is another each time."""
    parts = problem.split(": ")[-2:]
    why = ": ".join(part for part in parts if not part.startswith("the expression "))
    return re.sub(r"'[^']*'|\d+", "_", why)[:160]

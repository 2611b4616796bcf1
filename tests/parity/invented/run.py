"""A run: batches of trees, each batch in a setting of its own, and what differs in them.

The tree of a number depends on the seed and that number alone, and on what Spark's analyzer takes:
what it refuses is drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tests.parity.invented.drawing import draw_tree
from tests.parity.invented.grammar import Grammar, grammar_of
from tests.parity.invented.modes import Mode, draw_mode
from tests.parity.invented.player import Counts, Player, draw_setting
from tests.parity.invented.shrink import shrink
from tests.parity.invented.trees import Tree, operators, sql
from tests.parity.templates import Family
from tests.spark.expressions import configured

AT_ONCE = 150
"""Trees in a batch."""
_TRIES = 6
_COMPILED_ONLY = {
    # What Spark cannot compile it interprets otherwise, without a word.
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    "spark.sql.codegen.fallback": "false",
    "spark.sql.subexpressionElimination.enabled": "false",
}
_ALIKE_MAX = 4
"""So many differences with the same operators are made small, the others are counted."""


@dataclass(frozen=True)
class Finding:
    """A difference, made small.

    :param number: the tree's.
    :param text: its rows and both results.
    """

    number: int
    seed: int
    setting: str
    expression: str
    text: str
    operators: frozenset[str]

    def __str__(self) -> str:
        where = f"seed {self.seed}, tree {self.number}, {self.setting}"
        return f"DIFFERENCE {self.expression}\n  {self.text}\n  {where}"


@dataclass
class Result:
    """What a run has found.

    :param findings: one for each set of operators.
    :param differing: how many trees differ.
    :param missing: names of templates that this Spark does not take.
    :param interpreted: what does not differ where Spark compiles it alone: expression → how.
    """

    counts: Counts = field(default_factory=Counts)
    findings: dict[frozenset[str], Finding] = field(default_factory=dict)
    differing: int = 0
    missing: list[str] = field(default_factory=list)
    interpreted: dict[str, str] = field(default_factory=dict)
    alike: dict[frozenset[str], int] = field(default_factory=dict)


def differs_compiled(spark: SparkSession, player: Player, tree: Tree) -> bool:
    """Spark's two ways to compute do not agree on everything: queries go the compiled one.

    There, what stands twice in a projection is computed first, in front of the NULL that keeps it
    from being computed: that depends on the other columns, and a tree is compared by itself."""
    mode = Mode(True, player.mode.optimized)
    with configured(spark, mode.conf | _COMPILED_ONLY):
        return bool(player.in_mode(mode).differences([tree]))


class Run:
    """Plays trees one batch after the other.

    :param families: whose templates the trees are made of.
    """

    def __init__(self, spark: SparkSession, seed: int, families: Collection[Family]) -> None:
        self._spark = spark
        self._seed = seed
        self._families = families
        self.result = Result()

    def play(self, batch: int, trees: int, report: Callable[[Finding], None]) -> None:
        """Draw and compare one batch.

        :param trees: so many of its trees.
        :param report: is told every finding that is the first of its operators.
        """
        rng = random.Random(f"{self._seed} batch {batch}")
        setting, sliced = draw_setting(rng)
        mode = draw_mode(rng)
        with configured(self._spark, setting.conf | mode.conf):
            grammar = self.grammar()
            player = Player(self._spark, setting, sliced, mode)
            numbers = range(batch * AT_ONCE, batch * AT_ONCE + trees)
            drawn = self.draw(grammar, player, numbers)
            order = list(drawn)
            found = player.differences([drawn[n] for n in order], self.result.counts)
            for position, differences in found.items():
                self.result.differing += 1
                tree = drawn[order[position]]
                if self._known(operators(tree)):
                    continue
                if not mode.compiled and not differs_compiled(self._spark, player, tree):
                    self.result.differing -= 1
                    self.result.interpreted[sql(tree)] = differences[0].text
                    continue
                small, difference, rows = shrink(player, grammar, tree, differences)
                names = operators(small)
                if not differs_compiled(self._spark, rows, small):
                    self.result.differing -= 1
                    self.result.interpreted[sql(small)] = difference.text
                    continue
                self.result.alike[names] = self.result.alike.get(names, 0) + 1
                if names not in self.result.findings:
                    finding = Finding(
                        order[position],
                        self._seed,
                        f"{setting}{' sliced' if sliced else ''} {mode}",
                        sql(small),
                        difference.text,
                        names,
                    )
                    self.result.findings[names] = finding
                    report(finding)

    def grammar(self) -> Grammar:
        """That of the session's ANSI mode."""
        grammar = grammar_of(self._spark, self._families)
        self.result.missing = sorted({*self.result.missing, *grammar.missing})
        return grammar

    def draw(self, grammar: Grammar, player: Player, numbers: Collection[int]) -> dict[int, Tree]:
        """Number → tree; without those that Spark refuses however often they are drawn."""
        drawn: dict[int, Tree] = {}
        missing = list(numbers)
        for attempt in range(_TRIES):
            if not missing:
                break
            tried = [
                draw_tree(grammar, random.Random(f"{self._seed} {number} {attempt}"))
                for number in missing
            ]
            taken = player.accepted(tried, self.result.counts)
            drawn |= {n: t for n, t, ok in zip(missing, tried, taken, strict=True) if ok}
            missing = [number for number in missing if number not in drawn]
        return dict(sorted(drawn.items()))

    def _known(self, names: frozenset[str]) -> bool:
        return any(count >= _ALIKE_MAX and of <= names for of, count in self.result.alike.items())

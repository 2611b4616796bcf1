"""``python -m tests.parity.invented.every_type [--names NAME,...] [--all] [--plain]
[--trees N] [--seed S]``: every name, with arguments of every type that the analyzer takes for it.

Each must be equal, or refused when the query starts. In a template one column, or all columns of a
kind, give way to values of another kind; also of kinds that no table has, such as VOID. Prints what
differs, and a last line of JSON; exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from tests.parity.invented.analysis import resolved, type_of
from tests.parity.invented.forms import AROUND, OF_ITEMS, TAKING
from tests.parity.invented.grammar import Grammar, form, grammar_of
from tests.parity.invented.kinds import DAYS, MONTHS
from tests.parity.invented.modes import Mode
from tests.parity.invented.player import Counts, Player
from tests.parity.invented.quiet import start_quietly
from tests.parity.invented.run import differs_compiled
from tests.parity.invented.trees import Hole, Leaf, Node, Production, sql
from tests.parity.oracle import Setting
from tests.parity.templates import families
from tests.spark.expressions import configured

_AT_ONCE: Final = 60
_ROWS: Final = 12
_DAYS: Final = ("make_dt_interval(n, m)", "make_dt_interval(m, n)")
_MONTHS: Final = ("make_ym_interval(n, m)", "make_ym_interval(m, n)")
_OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "void": ("NULL", "NULL"),
    DAYS: _DAYS,
    MONTHS: _MONTHS,
    "interval day": ("INTERVAL '1' DAY * n", "INTERVAL '1' DAY * m"),
    "array<interval day>": ("array(INTERVAL '1' DAY * n)", "array(INTERVAL '1' DAY * m)"),
    "interval month": ("INTERVAL '1' MONTH * n", "INTERVAL '1' MONTH * m"),
    "array<interval month>": ("array(INTERVAL '1' MONTH * n)", "array(INTERVAL '1' MONTH * m)"),
    "array<void>": ("array()", "array(NULL, NULL)"),
    **{
        f"{name}<{kind}>": tuple(text.format(*pair) for text in texts)
        for kind, pair in ((DAYS, _DAYS), (MONTHS, _MONTHS), ("void", ("NULL", "NULL")))
        for name, texts in {
            "array": ("array({0}, {1})", "array({1})"),
            "struct": ("named_struct('a', {0}, 'b', n)", "named_struct('a', {1}, 'b', m)"),
            "map": ("map('k', {0})", "map('k', {1}, 'l', {0})"),
        }.items()
        if (kind, name) != ("void", "array")
    },
    "map<days, int>": (f"map(coalesce({_DAYS[0]}, INTERVAL '1' DAY), n)",) * 2,
    "map<months, int>": (f"map(coalesce({_MONTHS[0]}, INTERVAL '1' MONTH), n)",) * 2,
    "map<date, int>": ("map(coalesce(dt, DATE'2020-01-01'), n)",) * 2,
    "map<double, int>": ("map(coalesce(d, 0D), n)", "map(coalesce(d2, -0D), m)"),
    "map<binary, int>": ("map(coalesce(bin, X''), n)",) * 2,
    "map<array<int>, int>": ("map(array(n), m)", "map(array(m), n)"),
    "map<struct, int>": ("map(named_struct('a', n), m)", "map(named_struct('a', m), n)"),
    "array<map>": ("array(counts, counts2)", "array(counts2)"),
    "struct<map>": ("named_struct('a', counts)", "named_struct('a', counts2)"),
    "map<string, map>": ("map('k', counts)", "map('k', counts2)"),
    "struct<>": ("named_struct()", "named_struct()"),
    "array<timestamp_ntz>": ("array(ntz, ntz2)", "array(ntz2)"),
    "array<decimal(38,38)>": ("array(dec_38_38)", "array(dec_38_38, NULL)"),
    # What the engine does not have.
    "interval": ("make_interval(0, n)", "make_interval(0, m)"),
    "time": ("TIME'10:20:30'", "TIME'11:20:30'"),
    "variant": ("parse_json('1')", "parse_json('[1]')"),
    "collated": ("collate(s, 'UTF8_LCASE')", "collate(s2, 'UTF8_LCASE')"),
    "array<collated>": ("array(collate(s, 'UNICODE'))", "array(collate(s2, 'UNICODE'))"),
}
"""Kinds that no column has, and two expressions of each."""
_NEVER_ALONE: Final = ("void", "interval year", "interval month", "struct<>")
"""Spark has no Arrow columns of these, nor of what has them inside."""


def attempts(
    grammar: Grammar, names: Collection[str] | None, every: bool, plain: bool
) -> Iterator[Node]:
    """The templates with arguments of other kinds.

    :param names: SQL names; None for all.
    :param every: all templates of a name, not only one for the kinds that it takes.
    :param plain: with the columns' kinds, too.
    """
    operands = {kind: tuple((columns * 2)[:2]) for kind, columns in grammar.columns.items()}
    kinds = {**(operands if plain else {}), **_OTHERS}
    if names is None:
        yield from _forms(kinds, operands)
    for name in sorted(grammar.names if names is None else set(names) & set(grammar.names)):
        known: set[tuple[str, ...]] = set()
        for production in grammar.of_name(name):
            taken = tuple(hole.kind for hole in production.holes.values())
            if taken and (every or taken not in known):
                known.add(taken)
                yield from _with_others(production, kinds, operands)


def _forms(
    kinds: Mapping[str, tuple[str, ...]], columns: Mapping[str, tuple[str, ...]]
) -> Iterator[Node]:
    """What fits every type, with each of the kinds."""
    for pool in (AROUND, OF_ITEMS, *TAKING.values()):
        for name, texts in pool.items():
            for text, kind in itertools.product(texts, kinds):
                production = form(name, text, kind, "")
                first, second = (Leaf(each, kind, kind in columns) for each in kinds[kind])
                given = {"a": first, "b": second, "c": first}
                others = {
                    hole: Leaf(columns[of.kind][0], of.kind)
                    for hole, of in production.holes.items()
                    if hole not in given
                }
                yield Node(production, {**given, **others})


def _with_others(
    production: Production,
    kinds: Mapping[str, tuple[str, ...]],
    columns: Mapping[str, tuple[str, ...]],
) -> Iterator[Node]:
    as_written = {
        name: Leaf(columns[hole.kind][0], hole.kind) for name, hole in production.holes.items()
    }
    for places in _places(production):
        for kind, pair in kinds.items():
            if all(production.holes[place].kind == kind for place in places):
                continue
            is_column = kind in columns
            given = {
                place: Leaf(pair[index % 2], kind, is_column) for index, place in enumerate(places)
            }
            yield Node(production, {**as_written, **given})


def _places(production: Production) -> list[tuple[str, ...]]:
    """Each hole, those of one kind, all of them."""
    holes = production.holes
    alike = [
        tuple(name for name, hole in holes.items() if hole.kind == kind)
        for kind in {hole.kind: None for hole in holes.values()}
    ]
    return list(dict.fromkeys([*((name,) for name in holes), *alike, tuple(holes)]))


def comparable(tree: Node, dtype: DataType) -> Node:
    """The tree, or whether it is NULL where Spark cannot hand its values over."""
    if any(name in dtype.simpleString() for name in _NEVER_ALONE):
        around = Production("is null", ("", Hole("a", ""), " is null"), "boolean")
        return Node(around, {"a": tree})
    return tree


def play(
    spark: SparkSession, setting: Setting, trees: Sequence[Node], counts: Counts
) -> Iterator[str]:
    """What differs."""
    player = Player(spark, setting, False, Mode(False, False))
    for start_at in range(0, len(trees), _AT_ONCE):
        part = trees[start_at : start_at + _AT_ONCE]
        found = resolved(player.analyzed, [sql(tree) for tree in part])
        taken = [
            comparable(tree, type_of(player.analyzed.expression(each)))
            for tree, each in zip(part, found, strict=True)
            if not isinstance(each, str)
        ]
        taken = [tree for tree, ok in zip(taken, player.accepted(taken), strict=True) if ok]
        for number, found in player.differences(taken, counts).items():
            if differs_compiled(spark, player, taken[number]):
                yield f"{sql(taken[number])}\n  {found[0].text}"


@dataclass(frozen=True)
class Choice:
    """What is tried: see the command's options."""

    seed: int
    trees: int = 0
    names: tuple[str, ...] | None = None
    every: bool = False
    plain: bool = False


def run(spark: SparkSession, choice: Choice, counts: Counts) -> Iterator[str]:
    """What differs, in both ANSI modes."""
    every = list(families())
    for ansi in (True, False):
        setting = Setting(choice.seed, _ROWS, ansi, "Europe/Berlin")
        with configured(spark, setting.conf | Mode(False, False).conf):
            grammar = grammar_of(spark, every)
            trees = list(attempts(grammar, choice.names, choice.every, choice.plain))
            random.Random(choice.seed).shuffle(trees)
            yield from play(spark, setting, trees[: choice.trees or None], counts)


def main(spark: SparkSession, choice: Choice) -> int:
    """:return: the exit code."""
    counts, differing = Counts(), 0
    for text in run(spark, choice, counts):
        differing += 1
        print(f"DIFFERENCE {text}", flush=True)
    summary = {
        "trees": counts.trees,
        "values": counts.values,
        "differing": differing,
        "refused": dict(counts.refused.most_common()),
    }
    print(json.dumps(summary))
    return 1 if differing else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.parity.invented.every_type")
    parser.add_argument("--names", help="only these, with commas between them")
    parser.add_argument("--all", action="store_true", help="all templates of a name")
    parser.add_argument("--plain", action="store_true", help="with the types of columns, too")
    parser.add_argument("--trees", type=int, default=0, help="so many in each mode")
    parser.add_argument("--seed", type=int, default=1, help="gives rows and trees")
    options = parser.parse_args()
    session = start_quietly()
    chosen = tuple(options.names.split(",")) if options.names else None
    code = main(session, Choice(options.seed, options.trees, chosen, options.all, options.plain))
    session.stop()
    sys.exit(code)

"""Random whole queries: columns, filters, explodes, joins with a table and unions, one on top of
the other, out of random trees. Each step keeps the columns of those below it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pyarrow as pa

from tests.parity.invented.drawing import draw_tree, draw_tree_of
from tests.parity.invented.grammar import Grammar
from tests.parity.invented.shrink import smaller_trees
from tests.parity.invented.trees import Tree, size, sql

_Item = TypeVar("_Item")
INPUT: Final = "input_rows"
TABLE: Final = "static_rows"
STATIC: Final = pa.table(
    {
        "key": pa.array([0, 1, 1, -1, 7, None], pa.int32()),
        "word": pa.array(["zero", "one", "uno", None, "", "nothing"], pa.string()),
    }
)
"""What streams are joined with: a key that is there twice, and one that is NULL."""
_STEPS: Final = (1, 1, 2, 2, 3, 4)


@dataclass(frozen=True)
class Step:
    """A query around a query.

    :param name: what it does.
    :param render: from the SQL below, the SQL of the tree, and the step's number in the pipeline.
    :param kind: of the tree, as in :mod:`.kinds`; empty if any will do.
    :param column: how the column that it adds is called; empty if it adds none.
    """

    name: str
    render: Callable[[str, str, int], str]
    kind: str
    column: str = ""


def _explode(function: str, outer: str = "") -> Callable[[str, str, int], str]:
    position = "pos{0}, " if function == "posexplode" else ""
    return lambda below, tree, n: (
        f"SELECT * FROM ({below}) LATERAL VIEW {outer}{function}({tree}) view{n}"
        f" AS {position.format(n)}item{n}"
    )


def _join(how: str) -> Callable[[str, str, int], str]:
    return lambda below, tree, n: (
        f"SELECT * FROM (SELECT *, {tree} AS own{n} FROM ({below})) {how} JOIN"
        f" (SELECT key AS key{n}, word AS word{n} FROM {TABLE}) ON own{n} = key{n}"
    )


_ARRAYS: Final = ("array<int>", "array<string>", "array<double>")
_KINDS_OF_STEPS: Final = (
    Step("column", lambda below, tree, n: f"SELECT *, {tree} AS new{n} FROM ({below})", "", "new"),
    Step("filter", lambda below, tree, n: f"SELECT * FROM ({below}) WHERE {tree}", "boolean"),
    Step(
        "union",
        lambda below, tree, n: (
            f"SELECT *, 1 AS part{n} FROM ({below}) UNION ALL"
            f" SELECT *, 2 AS part{n} FROM ({below}) WHERE {tree}"
        ),
        "boolean",
        "part",
    ),
    Step("inner join", _join("INNER"), "int", "word"),
    Step("left join", _join("LEFT"), "int", "word"),
    Step("semi join", _join("LEFT SEMI"), "int", "own"),
    Step("anti join", _join("LEFT ANTI"), "int", "own"),
    *(Step("explode", _explode("explode"), kind, "item") for kind in _ARRAYS),
    Step("explode outer", _explode("explode", "OUTER "), "array<int>", "item"),
    Step("posexplode", _explode("posexplode"), "array<string>", "item"),
)


@dataclass(frozen=True)
class Invented:
    """A pipeline.

    :param steps: the lowest first, each with its tree.
    :param results: trees over the columns of the input, computed at the top.
    """

    steps: tuple[tuple[Step, Tree], ...]
    results: tuple[Tree, ...]

    @property
    def sql(self) -> str:
        """The query."""
        text, columns = f"SELECT * FROM {INPUT}", ["row_number"]
        for number, (step, tree) in enumerate(self.steps):
            text = step.render(text, sql(tree), number)
            columns += [f"{step.column}{number}"] if step.column else []
        columns += [f"{sql(tree)} AS result{n}" for n, tree in enumerate(self.results)]
        return f"SELECT {', '.join(columns)} FROM ({text})"

    @property
    def names(self) -> frozenset[str]:
        """What its steps do."""
        return frozenset(step.name for step, _ in self.steps)

    @property
    def size(self) -> int:
        """Smaller ones are easier to read."""
        trees = [*(tree for _, tree in self.steps), *self.results]
        return 1_000 * (len(self.steps) + len(self.results)) + sum(map(size, trees))


def draw_pipeline(grammar: Grammar, rng: random.Random) -> Invented:
    """One to four steps, and what is computed on top of them."""
    steps = []
    for _ in range(rng.choice(_STEPS)):
        step = rng.choice(_KINDS_OF_STEPS)
        tree = draw_tree_of(grammar, rng, step.kind) if step.kind else draw_tree(grammar, rng)
        steps.append((step, tree))
    return Invented(tuple(steps), tuple(draw_tree(grammar, rng) for _ in range(rng.choice((0, 1)))))


def smaller(grammar: Grammar, pipeline: Invented) -> Iterator[Invented]:
    """Without a step, without a result, or with a smaller tree in one of them."""
    for number in range(len(pipeline.steps)):
        yield replace(pipeline, steps=_without(pipeline.steps, number))
    for number in range(len(pipeline.results)):
        yield replace(pipeline, results=_without(pipeline.results, number))
    for number, (step, tree) in enumerate(pipeline.steps):
        for other in smaller_trees(grammar, tree):
            if not step.kind or other.kind == step.kind:
                yield replace(pipeline, steps=_with(pipeline.steps, number, (step, other)))
    for number, tree in enumerate(pipeline.results):
        for other in smaller_trees(grammar, tree):
            yield replace(pipeline, results=_with(pipeline.results, number, other))


def _without(items: Sequence[_Item], number: int) -> tuple[_Item, ...]:
    return (*items[:number], *items[number + 1 :])


def _with(items: Sequence[_Item], number: int, item: _Item) -> tuple[_Item, ...]:
    return (*items[:number], item, *items[number + 1 :])

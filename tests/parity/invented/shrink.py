"""Makes a differing tree as small as it can be, and its rows as few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.parity.invented.grammar import Grammar
from tests.parity.invented.literals import null
from tests.parity.invented.player import Player
from tests.parity.invented.trees import Leaf, Node, Tree, nodes, size, sql
from tests.spark.expressions import Difference

_AT_ONCE = 80


def shrink(
    player: Player, grammar: Grammar, tree: Tree, found: list[Difference]
) -> tuple[Tree, Difference, Player]:
    """The smallest tree that still differs, how it does, and the rows: one if that is enough."""
    player, found = _fewest_rows(player, tree, found)
    while True:
        smaller = _first_that_differs(player, grammar, tree)
        if smaller is None:
            return tree, found[0], player
        tree, found = smaller


def _fewest_rows(
    player: Player, tree: Tree, found: list[Difference]
) -> tuple[Player, list[Difference]]:
    rows = [difference.row for difference in found if difference.row is not None]
    for row in sorted(set(rows))[:2]:
        alone = player.with_rows([row])
        still = alone.differences([tree]).get(0)
        if still:
            return alone, still
    more = "differs only among other rows: "
    return player, [replace(each, text=more + each.text) for each in found]


def _first_that_differs(
    player: Player, grammar: Grammar, tree: Tree
) -> tuple[Tree, list[Difference]] | None:
    by_text = {sql(each): each for each in smaller_trees(grammar, tree)}
    candidates = sorted(by_text.values(), key=lambda each: (size(each), len(sql(each)), sql(each)))
    for start in range(0, len(candidates), _AT_ONCE):
        part = candidates[start : start + _AT_ONCE]
        taken = [each for each, ok in zip(part, player.accepted(part), strict=True) if ok]
        differing = player.differences(taken) if taken else {}
        if differing:
            first = min(differing)
            return taken[first], differing[first]
    return None


def smaller_trees(grammar: Grammar, tree: Tree) -> Iterator[Tree]:
    """Trees with a node replaced by something smaller of its kind; the root by any child."""
    if not isinstance(tree, Node):
        return
    for child in tree.children.values():
        if isinstance(child, Node):
            yield child
    yield from _below(grammar, tree)


def _below(grammar: Grammar, tree: Node) -> Iterator[Node]:
    for name, child in tree.children.items():
        for other in _instead(grammar, name, child):
            if size(other) < size(child):
                yield replace(tree, children={**tree.children, name: other})


def _instead(grammar: Grammar, hole: str, child: Tree) -> Iterator[Tree]:
    columns = grammar.columns.get(child.kind, [])
    yield from (Leaf(column, child.kind) for column in [c for c in columns if c == hole] or columns)
    yield Leaf(null(grammar.types[child.kind]), child.kind, False)
    if isinstance(child, Node):
        yield from (each for each in nodes(child) if each is not child and each.kind == child.kind)
        yield from _below(grammar, child)

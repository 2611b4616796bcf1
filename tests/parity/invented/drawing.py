"""Draws a tree."""

from __future__ import annotations

import random
from typing import Final

from tests.parity.invented.grammar import Grammar
from tests.parity.invented.kinds import NEVER_ROOT
from tests.parity.invented.literals import literal
from tests.parity.invented.trees import Leaf, Node, Production, Tree

DEPTH_MAX: Final = 4
_PRODUCTIONS_MAX: Final = 12
_FORM_SHARE: Final = 0.3
_COLUMN_SHARE: Final = 0.7


def draw_tree(grammar: Grammar, rng: random.Random) -> Node:
    """A tree of depth 1 to 4, whose root is a template or a form."""
    return _Drawing(grammar, rng).root()


def draw_tree_of(grammar: Grammar, rng: random.Random, kind: str) -> Tree:
    """A tree with a result of the kind, of depth 1 to 3."""
    return _Drawing(grammar, rng).tree(kind, rng.choice([1, 1, 2, 3]))


class _Drawing:
    def __init__(self, grammar: Grammar, rng: random.Random) -> None:
        self._grammar = grammar
        self._rng = rng
        self._left = _PRODUCTIONS_MAX

    def root(self) -> Node:
        depth = self._rng.choice([1, 2, 2, 3, 3, 4])
        production = self._grammar.root(self._rng)
        if self._rng.random() < _FORM_SHARE and not production.ulps:
            form = self._grammar.form(self._rng, production.kind)
            production = form if form.kind not in NEVER_ROOT else production
        return self._node(production, depth)

    def tree(self, kind: str, depth: int) -> Tree:
        if depth == 0 or self._left <= 0:
            return self._leaf(kind)
        production = None
        if self._rng.random() >= _FORM_SHARE:
            production = self._grammar.production(self._rng, kind)
        return self._node(production or self._grammar.form(self._rng, kind), depth)

    def _node(self, production: Production, depth: int) -> Node:
        """One hole at least is filled to the depth, the others less so."""
        self._left -= 1
        names = list(production.holes)
        deepest = self._rng.choice(names) if names else ""
        depths = {
            name: depth - 1 if name == deepest else self._rng.choice([0, 0, 0, depth // 2])
            for name in names
        }
        return Node(
            production,
            {name: self.tree(production.holes[name].kind, depths[name]) for name in names},
        )

    def _leaf(self, kind: str) -> Leaf:
        columns = self._grammar.columns.get(kind)
        if columns and self._rng.random() < _COLUMN_SHARE:
            return Leaf(self._rng.choice(columns), kind)
        return Leaf(literal(self._rng, self._grammar.types[kind]), kind, False)

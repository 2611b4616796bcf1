"""A grammar's productions, and the trees made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Hole:
    """A place in a production.

    :param kind: of what fills it.
    :param within: how what fills it is kept in bounds, ``{}`` for it; empty if any value will do.
    """

    name: str
    kind: str
    within: str = ""


@dataclass(frozen=True)
class Production:
    """A text with holes; those of one name are filled with the same.

    :param name: the SQL name of the function or operator.
    :param kind: of the result.
    :param ulps: by how many units in the last place results may differ.
    """

    name: str
    parts: tuple[str | Hole, ...]
    kind: str
    ulps: int = 0

    @cached_property
    def holes(self) -> Mapping[str, Hole]:
        """By name, from left to right."""
        return {part.name: part for part in self.parts if isinstance(part, Hole)}


@dataclass(frozen=True)
class Leaf:
    """A column or a literal."""

    text: str
    kind: str
    is_column: bool = True


@dataclass(frozen=True)
class Node:
    """A production whose holes are filled."""

    production: Production
    children: Mapping[str, Tree]

    @property
    def kind(self) -> str:
        """Of the result."""
        return self.production.kind


Tree = Leaf | Node


def sql(tree: Tree) -> str:
    """The tree as SQL."""
    if isinstance(tree, Leaf):
        return tree.text
    return "".join(
        part if isinstance(part, str) else _filled(part, tree.children[part.name])
        for part in tree.production.parts
    )


def _filled(hole: Hole, child: Tree) -> str:
    text = sql(child)
    if isinstance(child, Leaf) and child.is_column:
        return hole.within.format(text) if hole.within and text not in _SMALL else text
    return hole.within.format(text) if hole.within else f"({text})"


_SMALL = {"n", "m", "few"}
"""Columns that are in bounds by themselves."""


def nodes(tree: Tree) -> Iterator[Tree]:
    """The tree and all below it, parents first."""
    yield tree
    if isinstance(tree, Node):
        for child in tree.children.values():
            yield from nodes(child)


def size(tree: Tree) -> int:
    """The number of productions, of leaves that are no columns, of leaves."""
    weights = (100 if isinstance(n, Node) else 1 if n.is_column else 2 for n in nodes(tree))
    return sum(weights)


def operators(tree: Tree) -> frozenset[str]:
    """The names of the productions."""
    return frozenset(n.production.name for n in nodes(tree) if isinstance(n, Node))


def ulps(tree: Tree) -> int:
    """The tolerance: only a root may have one."""
    return tree.production.ulps if isinstance(tree, Node) else 0

"""A pattern as a tree. Flags are no part of it: the parser has heeded them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from engine.expressions.texts.java_regex.char_sets import CharSet

Greed = Literal["greedy", "lazy", "possessive"]
Place = Literal[
    "start", "line start", "unix line start",
    "end", "last line end", "unix last line end", "line end", "unix line end",
]  # fmt: skip


@dataclass(frozen=True)
class Chars:
    """One character of a set."""

    set: CharSet


@dataclass(frozen=True)
class Sequence:
    """One after the other; nothing at all if there are none."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """The first that fits."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Group:
    """In parentheses.

    :param number: from 1; 0 if it does not capture.
    """

    body: Node
    number: int


@dataclass(frozen=True)
class Repeat:
    """So many times.

    :param high: inclusive; None for any number.
    """

    body: Node
    low: int
    high: int | None
    greed: Greed


@dataclass(frozen=True)
class Look:
    """Look-ahead or look-behind."""

    body: Node
    ahead: bool
    negative: bool


@dataclass(frozen=True)
class Atomic:
    """A group that is never entered again."""

    body: Node


@dataclass(frozen=True)
class Anchor:
    """A place between characters."""

    place: Place


@dataclass(frozen=True)
class Boundary:
    """``\\b`` or ``\\B``.

    :param unicode: the flag U was set.
    """

    unicode: bool
    negative: bool


@dataclass(frozen=True)
class BackReference:
    """What a group has captured, once more; what matches never if there is no such group."""

    number: int
    ignore_case: bool


@dataclass(frozen=True)
class LineBreak:
    """``\\R``."""


Node = (
    Chars
    | Sequence
    | Choice
    | Group
    | Repeat
    | Look
    | Atomic
    | Anchor
    | Boundary
    | BackReference
    | LineBreak
)
NOTHING = Sequence(())


def children(node: Node) -> tuple[Node, ...]:
    """What a node is made of."""
    if isinstance(node, Sequence):
        return node.parts
    if isinstance(node, Choice):
        return node.options
    if isinstance(node, Group | Repeat | Look | Atomic):
        return (node.body,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def least(node: Node) -> int:
    """The least number of characters that it takes."""
    if isinstance(node, Chars | LineBreak):
        return 1
    if isinstance(node, Sequence):
        return sum(map(least, node.parts))
    if isinstance(node, Choice):
        return min(map(least, node.options))
    if isinstance(node, Group | Atomic):
        return least(node.body)
    if isinstance(node, Repeat):
        return node.low * least(node.body)
    return 0


def captures(node: Node) -> bool:
    """Whether there is a capturing group in it."""
    return any(isinstance(each, Group) and each.number for each in walk(node))

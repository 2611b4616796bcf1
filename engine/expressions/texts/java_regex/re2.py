"""Tree → pattern of RE2, for whether it is found at all."""

from __future__ import annotations

from typing import Final

from engine.expressions.texts.java_regex import set_writer
from engine.expressions.texts.java_regex.syntax import (
    Anchor,
    Boundary,
    Chars,
    Choice,
    Group,
    Node,
    Repeat,
    Sequence,
)

_REPEAT_MAX: Final = 1000
"""So often at most is anything repeated, repetitions within repetitions included."""
_RANGES_MAX: Final = 200
_PLACES: Final = {"start": "\\A", "end": "\\z"}


class _NotRegularError(Exception):
    pass


def for_re2(root: Node) -> str | None:
    """The pattern; None if RE2 knows no such, or may not find the same."""
    try:
        return _written(root, 1)
    except _NotRegularError:
        return None


def _written(node: Node, times: int) -> str:
    if isinstance(node, Chars) and len(node.set.ranges) <= _RANGES_MAX:
        return set_writer.plain(node.set)
    if isinstance(node, Sequence):
        return "".join(
            f"(?:{_written(part, times)})" if isinstance(part, Choice) else _written(part, times)
            for part in node.parts
        )
    if isinstance(node, Choice):
        return "|".join(_written(option, times) for option in node.options)
    if isinstance(node, Group):
        return f"(?:{_written(node.body, times)})"
    if isinstance(node, Anchor) and node.place in _PLACES:
        return _PLACES[node.place]
    if isinstance(node, Boundary) and not node.negative:
        return "\\b"
    if isinstance(node, Repeat) and node.greed != "possessive":
        times *= max(1, node.low, node.high or 1)
        if times <= _REPEAT_MAX:
            high = "" if node.high is None else node.high
            return f"(?:{_written(node.body, times)}){{{node.low},{high}}}"
    raise _NotRegularError

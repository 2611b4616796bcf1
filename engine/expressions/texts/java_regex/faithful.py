"""What Java's matcher does in a way that Python's does not.

- A group captured in a look-around, in an atomic group or by a possessive quantifier stays captured
  in Java when the match is tried in another way.
- Java repeats a *deterministic* group without going back into it: a group in it stays captured from
  the last repetition that was tried, and ``\\R`` keeps to what it has taken.
- Python 3.10 has errors about groups that lazy quantifiers repeat.
- Look-behind tries every length up to the longest; Python knows one length.

Source: ``java.util.regex.Pattern`` (``TreeInfo``, ``GroupCurly``, ``Pos``, ``Behind``).
"""

from __future__ import annotations

from engine.expressions.texts.java_regex.syntax import (
    Atomic,
    BackReference,
    Chars,
    Choice,
    Group,
    LineBreak,
    Look,
    Node,
    Repeat,
    captures,
    children,
    least,
    walk,
)


def why_not(root: Node) -> str | None:
    """Why a pattern cannot be known to match the same in Python."""
    for node in walk(root):
        keeps = isinstance(node, Look | Atomic)
        keeps |= isinstance(node, Repeat) and node.greed == "possessive"
        if keeps and captures(node):
            return "it captures in a look-around, an atomic group or a possessive quantifier"
        if isinstance(node, Repeat) and deterministic(node.body):
            inside = node.body.body if isinstance(node.body, Group) else node.body
            if captures(inside):
                return "it captures within a group that is repeated"
            if captures(node.body) and least(inside) == 0:
                return "it captures and repeats what can be empty"
        if isinstance(node, Repeat) and node.greed == "lazy" and captures(node.body):
            return "it captures in what a lazy quantifier repeats"
        if isinstance(node, Repeat) and node.low > 1 and least(node.body) == 0:
            return "it repeats what can be empty more than once at least"
        if isinstance(node, Look) and not node.ahead:
            for each in walk(node.body):
                if isinstance(each, LineBreak | Atomic):
                    return "its look-behind has an atomic group or \\R"
                if isinstance(each, Repeat) and each.high is None:
                    return "its look-behind has no greatest length"
                if isinstance(each, Repeat) and each.greed == "possessive":
                    return "its look-behind has a possessive quantifier"
    return None


def has_no_greatest_length(node: Node) -> bool:
    """Whether Java refuses it in a look-behind."""
    return any(
        isinstance(each, BackReference)
        or (
            isinstance(each, Repeat)
            and each.greed != "possessive"
            and isinstance(each.body, Group)
            and (each.low, each.high) != (0, 1)
            and not deterministic(each.body)
        )
        for each in walk(node)
    )


def deterministic(node: Node) -> bool:
    """Whether Java thinks that there is one way to match it."""
    if isinstance(node, Choice):
        return False
    if isinstance(node, Repeat):
        return node.low == node.high and deterministic(node.body)
    if isinstance(node, Look):
        return True
    return all(map(deterministic, children(node)))


def one_way(node: Node) -> bool:
    """Whether there is one way to match it indeed."""
    if isinstance(node, Choice | LineBreak):
        return False
    if isinstance(node, Repeat):
        return node.low == node.high and one_way(node.body)
    return isinstance(node, Look | Chars) or all(map(one_way, children(node)))

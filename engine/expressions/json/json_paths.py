"""``get_json_object``: one value out of a JSON text, by a path such as ``$.a['b c'].d[0]``.

Wildcards are refused.

Source: ``JsonPathParser`` and ``GetJsonObjectEvaluator`` of Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from engine.expressions.datum import constant
from engine.expressions.json.jackson import JsonError, Members, as_utf8, read
from engine.expressions.json.json_writing import written
from engine.expressions.malformed import value_of
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr

Path = Sequence[str | int]

_STEP: Final = re.compile(r"\.([\w@:#/-]+)|\['([^'?*\s][^'?*]*)'\]|\[([0-9]{1,9})\]")


def parse_path(text: str) -> Path:
    """Names and positions.

    :raises ValueError: the path has wildcards, blanks, or is malformed.
    """
    steps: list[str | int] = []
    position = 1
    while text.startswith("$") and (match := _STEP.match(text, position)):
        steps.append(int(match[3]) if match[3] else match[1] or match[2])
        position = match.end()
    if position != len(text):
        raise ValueError(f"the path {text!r} is not of the form $.name['name'][0]")
    return steps


def _supports(expr: Expr) -> str | None:
    path = constant(expr.children[1])
    if path is None:
        return "the path must be a constant"
    try:
        parse_path(value_of(path) if path.is_valid else "$")
    except ValueError as error:
        return str(error)
    return None


@rowwise_factory("GetJsonObject", supports=_supports, arguments=(0,))
def get_json_object(expr: Expr) -> RowFunction | None:
    """Texts without quotes, other values as JSON; NULL if the text is malformed, or if nothing is
    there."""
    path = constant(expr.children[1])
    assert path is not None
    if not path.is_valid:
        return None
    steps = parse_path(value_of(path))
    return lambda text: find(text, steps)


def find(text: str, path: Path) -> str | None:
    """The value at ``path`` in a JSON text."""
    try:
        return _walk(_decode(text), path)
    except (ValueError, RecursionError):
        # Malformed, or one of the things that Jackson reads in another way.
        try:
            return _walk(read(text, for_hive=True), path)
        except JsonError:
            return None


class _Nothing(Exception):
    """There is nothing at the path."""


def _walk(value: Any, path: Path) -> str | None:
    try:
        found = _at(value, path)
    except _Nothing:
        return None
    if not isinstance(found, str):
        return written(found)
    return found if as_utf8(found) == found else None


def _at(value: Any, path: Path) -> Any:
    for index, step in enumerate(path):
        if isinstance(step, int):
            if not isinstance(value, list) or isinstance(value, Members) or step >= len(value):
                raise _Nothing
            value = value[step]
        elif isinstance(value, dict):
            if (value := value.get(step)) is None:
                raise _Nothing
        elif isinstance(value, Members):
            return _first(value, step, path[index + 1 :])
        else:
            raise _Nothing
    return value


def _first(members: Members, name: str, rest: Path) -> Any:
    """Of equal names the first one under which there is something."""
    for key, value in members:
        if key == name and value is not None:
            try:
                return _at(value, rest)
            except _Nothing:
                continue
    raise _Nothing


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_number, strict=False
).decode

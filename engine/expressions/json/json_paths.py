"""``get_json_object``: what is at a path such as ``$.a['b c'].d[*]`` in a JSON text.

Without wildcards that is one value. With them it is whatever Hive made of it: matches in an array,
or the only match without one; ``[*][*]`` takes arrays inside apart. What has been written before
a branch turned out to be empty stays written.

Source: ``GetJsonObjectEvaluator`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeVar

from engine.errors import TransformError
from engine.expressions.datum import constant
from engine.expressions.json.jackson import JsonError, Members, as_utf8
from engine.expressions.json.json_trees import read_tree
from engine.expressions.json.json_writing import Quote, quoted, quoted_in_bytes, written
from engine.expressions.json.path_steps import ITEMS, Path, Step, Wildcard, parse_path
from engine.expressions.malformed import value_of
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr

_PATHS_MAX: Final = 1_024
_Found = TypeVar("_Found", bool, int)
_cached_path = lru_cache(_PATHS_MAX)(parse_path)


def _can_fail(expr: Expr) -> bool:
    """Before Spark 4.3 a position in the path may be too large; since then there is nothing."""
    if is_since(expr, "4.3.0"):
        return False
    path = constant(expr.children[1])
    try:
        if path is not None and path.is_valid:
            parse_path(value_of(path))
    except TransformError:
        return True
    return path is None


@rowwise_factory("GetJsonObject", can_fail=_can_fail, reads=(SPARK_VERSION,))
def get_json_object(expr: Expr) -> RowFunction:
    """Texts without quotes, other values as JSON; NULL if the text is malformed, if the path is,
    or if nothing is there."""
    if not is_since(expr, "4.3.0"):
        return lambda text, path: find(text, _cached_path(path))

    def found(text: str, path: str) -> str | None:
        try:
            return find(text, _cached_path(path))
        except TransformError:
            return None

    return found


def find(text: str, path: Path | None) -> str | None:
    """What is at ``path`` in a JSON text."""
    if path is None:
        return None
    try:
        tree = read_tree(text)
    except JsonError:
        return None
    found = _matches(tree, path) if ITEMS in path else _only(tree, path)
    return None if found is None or as_utf8(found) != found else found


class _Nothing(Exception):
    """There is nothing at the path."""


def _only(value: Any, path: Path) -> str | None:
    try:
        found = _at(value, path)
    except _Nothing:
        return None
    return found if isinstance(found, str) else written(found)


def _at(value: Any, path: Sequence[Step]) -> Any:
    for index, step in enumerate(path):
        if isinstance(step, int):
            if not _is_array(value) or step >= len(value):
                raise _Nothing
            value = value[step]
        elif isinstance(step, Wildcard):  # there is no way past ``.*``
            raise _Nothing
        elif isinstance(value, dict):
            if (value := value.get(step)) is None:
                raise _Nothing
        elif isinstance(value, Members):
            return _first(value, step, path[index + 1 :])
        else:
            raise _Nothing
    return value


def _first(members: Members, name: str, rest: Sequence[Step]) -> Any:
    """Of equal names the first one under which there is something."""
    for key, value in members:
        if key == name and value is not None:
            try:
                return _at(value, rest)
            except _Nothing:
                continue
    raise _Nothing


class _Style(Enum):
    """How matches are written: texts without quotes, with them, and arrays taken apart."""

    RAW, QUOTED, FLAT = range(3)


class _Generator:
    """Jackson's: it puts commas between the items of an array, and blanks between values that
    are in none."""

    def __init__(self, quote: Quote) -> None:
        self.quote = quote
        self._pieces: list[str] = []
        self._counts = [0]

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def raw(self, text: str) -> None:
        """A text as it is."""
        self._pieces.append(text)

    def json(self, value: str) -> None:
        """A value that is written already."""
        self._separate()
        self._pieces.append(value)

    def array(self, write: Callable[[], _Found]) -> _Found:
        """An array, whose items ``write`` writes."""
        self._separate()
        self._pieces.append("[")
        self._counts.append(0)
        found = write()
        self._counts.pop()
        self._pieces.append("]")
        return found

    def _separate(self) -> None:
        if self._counts[-1]:
            self._pieces.append(" " if len(self._counts) == 1 else ",")
        self._counts[-1] += 1


def _matches(tree: Any, path: Path) -> str | None:
    generator = _Generator(quoted_in_bytes)
    return generator.text if _write(tree, path, generator, _Style.RAW) else None


def _write(value: Any, path: Path, to: _Generator, style: _Style) -> bool:
    """Write all matches below a value; whether there are any."""
    if not path:
        return _write_match(value, to, style)
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return _write_member(value, step, rest, to, style)
    if not _is_array(value):
        return False
    if isinstance(step, int):
        inner = _Style.QUOTED if rest[:1] == (ITEMS,) else style
        return step < len(value) and _write(value[step], rest, to, inner)
    if step is not ITEMS:
        return False
    if rest[:1] == (ITEMS,):
        return to.array(lambda: _write_each(value, rest[1:], to, _Style.FLAT) > 0)
    if style is _Style.QUOTED:
        return to.array(lambda: _write_each(value, rest, to, style) > 0)
    aside = _Generator(quoted)
    inner = _Style.FLAT if style is _Style.FLAT else _Style.QUOTED
    found = aside.array(lambda: _write_each(value, rest, aside, inner))
    if found:
        to.json(aside.text if found > 1 else aside.text[1:-1])
    return found > 0


def _write_each(items: list[Any], path: Path, to: _Generator, style: _Style) -> int:
    """How many of the items have matches."""
    return sum([_write(item, path, to, style) for item in items])


def _write_member(value: Any, name: str, rest: Path, to: _Generator, style: _Style) -> bool:
    """Of equal names the first one under which there is something."""
    if isinstance(value, dict):
        member = value.get(name)
        return member is not None and _write(member, rest, to, style)
    return isinstance(value, Members) and any(
        _write(member, rest, to, style)
        for key, member in value
        if key == name and member is not None
    )


def _write_match(value: Any, to: _Generator, style: _Style) -> bool:
    if isinstance(value, str) and style is _Style.RAW:
        to.raw(value)
    elif _is_array(value) and style is _Style.FLAT:
        return _write_flat(value, to)
    else:
        to.json(written(value, to.quote))
    return True


def _write_flat(items: list[Any], to: _Generator) -> bool:
    """Write what is in an array, and in those inside it; whether there is anything."""
    has_any = False
    ahead = items[::-1]  # the next one at the end
    while ahead:
        item = ahead.pop()
        if _is_array(item):
            ahead += reversed(item)
        else:
            to.json(written(item, to.quote))
            has_any = True
    return has_any


def _is_array(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, Members)

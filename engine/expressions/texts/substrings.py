"""Parts of texts: cutting, finding, splitting, single characters. Positions count from 1.

Source: ``stringExpressions.scala`` and ``UTF8String.java`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.ansi import failure
from engine.expressions.datum import evaluate_where, to_array
from engine.expressions.java_errors import java_error
from engine.expressions.malformed import (
    CHARACTERS,
    KEPT,
    OCTETS,
    Characters,
    is_utf8,
    octets_of,
)
from engine.expressions.registry import (
    Context,
    Datum,
    Evaluator,
    ValueFunction,
    always,
    lazy,
    strict,
)
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row

_Text = TypeVar("_Text", str, bytes, tuple[bytes, ...])
_Searched = TypeVar("_Searched", str, Characters)

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def _cut(text: _Text, position: int, length: int) -> _Text:
    """``substring``: position 0 means 1, a negative one counts from the end and may lie before
    the start, whose missing characters count as well."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = start + length
    return text[max(start, 0) : max(end, start, 0)]


def _cut_bytes(data: bytes, position: int, length: int) -> bytes:
    """The same, computed in 32 bits: where the end wraps around, zeros fill what is missing."""
    if position > len(data):
        return b""
    start = position - 1 if position > 0 else len(data) + position if position < 0 else 0
    end = len(data) if _int32(len(data) - start) < length else _int32(start + length)
    start, end = max(start, 0), max(end, 0)
    return data[start:end].ljust(end - start, b"\0")


def _cutter(expr: Expr) -> Callable[[Any, int, int], Any]:
    wraps = pa.types.is_binary(expr.dtype) and not is_since(expr, "4.1.4", "4.2.1", "4.3.0")
    return _cut_bytes if wraps else _cut


def _as_slice(position: int, length: int) -> tuple[int, int | None]:
    """The same as a slice of Python, in which negative positions count from the end as well."""
    start = position - 1 if position > 0 else position
    stop: int | None = start + length
    if length <= 0:
        return 0, 0
    if start < 0 and start + length >= 0:
        stop = None
    return start, stop if stop is None or stop <= _INT_MAX else None


@strict("Substring", loop=True, reads=(SPARK_VERSION,))
def substring(expr: Expr, context: Context) -> ValueFunction:
    """``substring``, ``substr``, ``left``."""
    is_text, cut = pa.types.is_string(expr.dtype), _cutter(expr)

    def function(s: Datum, position: Datum, length: Datum) -> Datum:
        fixed = isinstance(position, pa.Scalar) and isinstance(length, pa.Scalar)
        if is_text and fixed and position.is_valid and length.is_valid and is_utf8(s):
            start, stop = _as_slice(position.as_py(), length.as_py())
            return pc.utf8_slice_codeunits(s, start, stop)
        return per_row(cut, expr.dtype, s, position, length, malformed=CHARACTERS)

    return function


@rowwise_factory("SubstringIndex", can_fail=always, malformed=OCTETS, reads=(SPARK_VERSION,))
def substring_index(expr: Expr) -> RowFunction:
    """``substring_index``."""
    if is_since(expr, "4.3.0"):
        return before_delimiter

    def checked(text: str, delimiter: str, count: int) -> str:
        if delimiter and count == _INT_MIN:  # which stays negative when Java turns its sign
            raise java_error("java.lang.NegativeArraySizeException", "-1")
        return before_delimiter(text, delimiter, count)

    return checked


def before_delimiter(text: str, delimiter: str, count: int) -> str:
    """What is left of the ``count``-th delimiter, or right of it, counted from the end, if
    ``count`` is negative. Delimiters may overlap."""
    if not delimiter or not count:
        return ""
    if count > 0:
        found = -1
        for _ in range(count):
            found = text.find(delimiter, found + 1)
            if found < 0:
                return text
        return text[:found]
    found = len(text) - len(delimiter) + 1
    for _ in range(-count):
        found = text.rfind(delimiter, 0, max(found - 1 + len(delimiter), 0))
        if found < 0:
            return text
    return text[found + len(delimiter) :]


@rowwise("StringInstr", malformed=CHARACTERS)
def instr(text: _Searched, part: _Searched) -> int:
    """``instr``: 0 if not found."""
    return text.find(part) + 1


@rowwise("StringLocate", nulls=True, malformed=CHARACTERS)
def locate(part: _Searched | None, text: _Searched | None, start: int | None) -> int | None:
    """``locate``, ``position``: 0 if the start is NULL or below 1, or if nothing is found from
    there on. An empty text is found at 1, wherever the search starts."""
    if start is None:
        return 0
    if part is None or text is None:
        return None
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _register_search(op: str, with_constant: Any, with_column: Any) -> None:
    @strict(op, loop=True)
    def search(expr: Expr, context: Context) -> ValueFunction:
        def function(s: Datum, part: Datum) -> Datum:
            if isinstance(part, pa.Scalar) and part.is_valid:
                return with_constant(s, octets_of(part))
            return per_row(with_column, expr.dtype, s, part, malformed=OCTETS)

        return function


_register_search("StartsWith", pc.starts_with, str.startswith)
_register_search("EndsWith", pc.ends_with, str.endswith)
_register_search("Contains", pc.match_substring, lambda text, part: part in text)


@rowwise("Ascii")
def ascii_code(text: str) -> int:
    """``ascii``: the code point of the first character, 0 for an empty text."""
    return ord(text[0]) if text else 0


@rowwise("Chr")
def char(code: int) -> str:
    """``chr``: by the lowest 8 bits; empty for a negative code."""
    return chr(code & 255) if code >= 0 else ""


@rowwise_factory("Overlay", malformed=CHARACTERS, reads=(SPARK_VERSION,))
def overlay(expr: Expr) -> RowFunction:
    """``overlay``, of texts and binaries. The ends of the replaced part wrap around, as Java does,
    before Spark 4.2.1."""
    cut, wraps = _cutter(expr), not is_since(expr, "4.2.1", "4.3.0")

    def overlaid(text: Any, replacement: Any, position: int, length: int) -> Any:
        before, behind = position - 1, position + (len(replacement) if length < 0 else length)
        if wraps:
            before, behind = _int32(before), _int32(behind)
        else:
            before, behind = max(before, _INT_MIN), min(max(behind, -_INT_MAX), _INT_MAX)
        return cut(text, 1, before) + replacement + cut(text, behind, _INT_MAX)

    return overlaid


def _int32(value: int) -> int:
    """Wrapped around, as Java does."""
    return (value + 2**31) % 2**32 - 2**31


def _split_part_supports(expr: Expr) -> str | None:
    text, delimiter, part = (child.dtype for child in expr.children)
    if text == delimiter == pa.string() and part == pa.int32():
        return None
    return "it takes two texts and an INT here: cast the arguments"


@rowwise_factory(
    "SplitPart",
    can_fail=always,
    supports=_split_part_supports,
    malformed=KEPT,
    reads=(SPARK_VERSION,),
)
def split_part(expr: Expr) -> RowFunction:
    """``split_part``: an empty text where there is no such part."""
    knows_least = is_since(expr, "4.3.0")

    def part(text: str, delimiter: str, number: int) -> str:
        if number == 0:
            raise failure("INVALID_INDEX_OF_ZERO", "The index 0 is invalid: parts count from 1.")
        parts = str(text).split(delimiter) if delimiter else [text]  # each of them as Java reads it
        if number == _INT_MIN and not knows_least:  # of which Java has no amount
            index = f"Index {len(parts) + number} out of bounds for length {len(parts)}"
            raise java_error("java.lang.ArrayIndexOutOfBoundsException", index)
        if abs(number) > len(parts):
            return ""
        return parts[number - 1 if number > 0 else number]

    return part


@rowwise("FindInSet", malformed=OCTETS)
def find_in_set(word: str, words: str) -> int:
    """``find_in_set``: the position in a list separated by commas, 0 if it is not there."""
    items = words.split(",")
    return items.index(word) + 1 if "," not in word and word in items else 0


_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))


@rowwise("SoundEx", malformed=OCTETS)
def soundex(text: str) -> str:
    """``soundex``: of a text that begins with a letter of ASCII, else the text."""
    if not text or not (text[0].isascii() and text[0].isalpha()):
        return text
    codes, last = text[0].upper(), _SOUNDS[text[0].upper()]
    for char in text[1:]:
        code = _SOUNDS.get(char.upper(), "0") if char.isascii() else "0"
        if code == "7":
            continue
        if code not in ("0", last):
            codes += code
        last = code
    return (codes + "000")[:4]


@rowwise("Levenshtein", malformed=CHARACTERS)
def levenshtein(left: _Text, right: _Text, threshold: int | None = None) -> int:
    """``levenshtein``; -1 if the distance exceeds a given threshold."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return -1 if threshold is not None and row[-1] > threshold else row[-1]


@lazy(
    "Elt",
    can_fail=lambda expr: bool(expr.params["fail_on_error"]),
    reads=("fail_on_error",),
    always=1,
)
def elt(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``elt``: the n-th of its arguments, which alone is evaluated."""
    strictly = bool(expr.params["fail_on_error"])
    index, choices = children[0], children[1:]

    def evaluate(batch: pa.RecordBatch) -> Datum:
        chosen = to_array(index(batch), batch.num_rows, pa.int32())
        inside = pc.and_(pc.greater(chosen, 0), pc.less_equal(chosen, len(choices)))
        if strictly and pc.all(inside).as_py() is False:
            wrong = chosen.filter(pc.invert(inside))[0]
            raise failure(
                "INVALID_ARRAY_INDEX", f"The index {wrong} is out of 1 to {len(choices)}."
            )
        columns = []
        for number, choice in enumerate(choices, 1):
            if context.hopeful:
                columns.append(to_array(choice(batch), batch.num_rows, expr.dtype))
            else:
                mask = pc.fill_null(pc.equal(chosen, number), False)
                columns.append(evaluate_where(choice, batch, mask, expr.dtype))
        position = pc.if_else(inside, pc.subtract(chosen, 1), pa.scalar(None, pa.int32()))
        return pc.choose(position, *columns)

    return evaluate

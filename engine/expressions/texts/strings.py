"""Texts as a whole: case, length, joining, trimming, padding, replacing.

Characters are code points, as in Spark.

Source: ``stringExpressions.scala``, ``UTF8String.java``, ``CollationAwareUTF8String.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.buffers import is_ascii
from engine.expressions.collections.arrays import concat_arrays, reverse_array
from engine.expressions.malformed import (
    CHARACTERS,
    OCTETS,
    VALID,
    is_utf8,
    octets_of,
    value_of,
)
from engine.expressions.registry import Context, Datum, Formula, ValueFunction, strict
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.texts.cases import cases_of
from engine.expressions.tree import Expr
from engine.expressions.types import sql_name
from engine.expressions.vectors import per_row, per_row_with_nulls

_Text = TypeVar("_Text", str, tuple[bytes, ...])


def _is_ascii(value: Datum) -> bool:
    return isinstance(value, pa.Array) and is_ascii(value)


@strict(
    "Upper",
    loop=True,
    presumes=("spark.sql.icu.caseMappings.enabled",),
    reads=(SPARK_VERSION,),
    formula=lambda expr: Formula("{upper}({0})", names={"upper": cases_of(expr).upper}),
)
def upper(expr: Expr, context: Context) -> ValueFunction:
    """``upper``."""
    in_case = cases_of(expr).upper
    return lambda s: (
        pc.ascii_upper(s) if _is_ascii(s) else per_row(in_case, expr.dtype, s, malformed=VALID)
    )


@strict(
    "Lower",
    loop=True,
    presumes=("spark.sql.icu.caseMappings.enabled",),
    reads=(SPARK_VERSION,),
    formula=lambda expr: Formula("{lower}({0})", names={"lower": cases_of(expr).lower}),
)
def lower(expr: Expr, context: Context) -> ValueFunction:
    """``lower``."""
    in_case = cases_of(expr).lower
    return lambda s: (
        pc.ascii_lower(s) if _is_ascii(s) else per_row(in_case, expr.dtype, s, malformed=VALID)
    )


@rowwise_factory(
    "InitCap",
    presumes=("spark.sql.icu.caseMappings.enabled",),
    reads=(SPARK_VERSION,),
    malformed=VALID,
)
def initcap(expr: Expr) -> RowFunction:
    """``initcap``."""
    return cases_of(expr).title


def characters_of(texts: Datum) -> Datum:
    """How many characters each text has."""
    if is_utf8(texts):
        return pc.utf8_length(texts).cast(pa.int32())
    return per_row(len, pa.int32(), texts, malformed=CHARACTERS)


@strict("Length", loop=True)
def length(expr: Expr, context: Context) -> ValueFunction:
    """``length``: characters of a text, bytes of a binary."""
    if not pa.types.is_string(expr.children[0].dtype):
        return lambda s: pc.binary_length(s).cast(pa.int32())

    return characters_of


@strict("OctetLength")
def octet_length(expr: Expr, context: Context) -> ValueFunction:
    """``octet_length``."""
    return lambda s: pc.binary_length(s).cast(pa.int32())


@strict("BitLength")
def bit_length(expr: Expr, context: Context) -> ValueFunction:
    """``bit_length``."""
    return lambda s: pc.multiply(pc.binary_length(s).cast(pa.int32()), pa.scalar(8, pa.int32()))


def _concat_supports(expr: Expr) -> str | None:
    if pa.types.is_string(expr.dtype) or pa.types.is_binary(expr.dtype):
        return None
    if pa.types.is_list(expr.dtype):
        return None
    return f"joining values of the type {sql_name(expr.dtype)} is not supported"


@strict("Concat", supports=_concat_supports, takes=Rare.ALL)
def concat(expr: Expr, context: Context) -> ValueFunction:
    """``concat`` and ``||``: NULL if any part is."""
    if pa.types.is_list(expr.dtype):
        return concat_arrays(expr)
    empty = pa.scalar("" if pa.types.is_string(expr.dtype) else b"", expr.dtype)
    return lambda *parts: (
        pc.binary_join_element_wise(*parts, empty, null_handling="emit_null") if parts else empty
    )


@strict("ConcatWs", loop=True)
def concat_ws(expr: Expr, context: Context) -> ValueFunction:
    """``concat_ws``: leaves out NULLs, takes the items of arrays one by one."""
    if any(pa.types.is_list(child.dtype) for child in expr.children):
        return lambda *values: per_row_with_nulls(_join, expr.dtype, *values, malformed=OCTETS)

    def function(separator: Datum, *parts: Datum) -> Datum:
        # Arrow drops rows where a column of separators is NULL, or all parts are.
        if parts and isinstance(separator, pa.Scalar) and separator.is_valid:
            parts = (pc.coalesce(parts[0], _where_all_null(parts)), *parts[1:])
            return pc.binary_join_element_wise(*parts, separator, null_handling="skip")
        return per_row_with_nulls(_join, expr.dtype, separator, *parts, malformed=OCTETS)

    return function


def _where_all_null(parts: Sequence[Datum]) -> Datum:
    """An empty text where all parts are NULL, NULL elsewhere."""
    any_valid = reduce(pc.or_, map(pc.is_valid, parts))
    return pc.if_else(any_valid, pa.scalar(None, pa.string()), "")


def _join(separator: str | None, *parts: Any) -> str | None:
    if separator is None:
        return None
    texts: list[str] = []
    for part in parts:
        texts += [t for t in (part if isinstance(part, list) else [part]) if t is not None]
    return separator.join(texts)


def _register_trim(op: str, spaces: Any, strip: Any) -> None:
    @strict(op, loop=True)
    def trim(expr: Expr, context: Context) -> ValueFunction:
        if len(expr.children) == 1:
            return lambda s: spaces(s, characters=" ")
        return lambda s, characters: per_row(strip, expr.dtype, s, characters, malformed=CHARACTERS)


_register_trim("StringTrim", pc.ascii_trim, lambda text, those: text.strip(those))
_register_trim("StringTrimLeft", pc.ascii_ltrim, lambda text, those: text.lstrip(those))
_register_trim("StringTrimRight", pc.ascii_rtrim, lambda text, those: text.rstrip(those))


@rowwise("StringRepeat", unbounded=True, malformed=OCTETS)
def repeat(text: str, times: int) -> str:
    """``repeat``: empty for no or a negative number of times."""
    return text * times


@rowwise("StringSpace", unbounded=True)
def space(times: int) -> str:
    """``space``."""
    return " " * times


@strict("Reverse", loop=True, takes=Rare.ALL)
def reverse(expr: Expr, context: Context) -> ValueFunction:
    """``reverse``: of code points, or of items."""
    if pa.types.is_list(expr.dtype):
        return reverse_array(expr)

    def of_text(s: Datum) -> Datum:
        if is_utf8(s):
            return pc.utf8_reverse(s)
        return per_row(lambda text: text[::-1], expr.dtype, s, malformed=CHARACTERS)

    return of_text


def replace_text(text: str, search: str, replacement: str) -> str:
    """Unlike Python's, an empty search finds nothing."""
    return text.replace(search, replacement) if search else text


@strict("StringReplace", loop=True)
def replace(expr: Expr, context: Context) -> ValueFunction:
    """``replace``."""

    def function(s: Datum, search: Datum, replacement: Datum) -> Datum:
        fixed = isinstance(search, pa.Scalar) and isinstance(replacement, pa.Scalar)
        if fixed and search.is_valid and replacement.is_valid and (old := octets_of(search)):
            return pc.replace_substring(s, old, octets_of(replacement))
        return per_row(replace_text, expr.dtype, s, search, replacement, malformed=OCTETS)

    return function


def translation_table(matching: str, replacing: str) -> dict[int, str | None]:
    """For :meth:`str.translate`: the first of equal characters counts, and those without a
    counterpart are deleted."""
    table: dict[int, str | None] = {}
    for index, char in enumerate(matching):
        table.setdefault(ord(char), replacing[index] if index < len(replacing) else None)
    return table


def _deleting(matching: str, replacing: str) -> dict[int, str | None]:
    """The same, where U+0000 is no counterpart."""
    table = translation_table(matching, replacing)
    return {char: None if to == "\0" else to for char, to in table.items()}


@strict("StringTranslate", loop=True, reads=(SPARK_VERSION,))
def translate(expr: Expr, context: Context) -> ValueFunction:
    """``translate``. A character whose counterpart is U+0000 is deleted before Spark 4.3."""
    table_of = translation_table if is_since(expr, "4.3.0") else _deleting

    def function(s: Datum, matching: Datum, replacing: Datum) -> Datum:
        fixed = isinstance(matching, pa.Scalar) and isinstance(replacing, pa.Scalar)
        if fixed and matching.is_valid and replacing.is_valid:
            table = table_of(value_of(matching), value_of(replacing))
            return per_row(lambda text: text.translate(table), expr.dtype, s)
        return per_row(
            lambda text, old, new: text.translate(table_of(old, new)),
            expr.dtype, s, matching, replacing,
        )  # fmt: skip

    return function

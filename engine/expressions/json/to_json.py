"""``to_json``: structs, arrays and maps as JSON texts.

Fields that are NULL are left out, unless the option ``ignoreNullFields``, or the session's setting,
is false.

Source: ``JacksonGenerator`` of Spark; Jackson's ``DefaultPrettyPrinter``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.casts.cast_texts import floating_to_string
from engine.expressions.casts.rules import Casting
from engine.expressions.java_doubles import double_text
from engine.expressions.json.json_options import IGNORE_NULLS, JsonWriting, json_writing
from engine.expressions.json.json_writing import Quote, quoted, quoted_in_ascii
from engine.expressions.lists import Lists
from engine.expressions.options import OptionError, refused_for
from engine.expressions.record_printing import Texts
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import Zone, zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, is_variant, sql_name
from engine.expressions.vectors import field_of, to_list

VariantTexts = Callable[[pa.StructArray, Zone], Texts]
_OF_VARIANTS: list[VariantTexts] = []


def writes_variants(write: VariantTexts) -> VariantTexts:
    """Register how a column of VARIANT is written, which another family knows."""
    _OF_VARIANTS.append(write)
    return write


def _why_not(dtype: pa.DataType) -> str | None:
    if is_variant(dtype):
        return None
    if pa.types.is_struct(dtype):
        return next((why for field in dtype if (why := _why_not(field.type))), None)
    if pa.types.is_map(dtype):
        if pa.types.is_nested(dtype.key_type) or pa.types.is_binary(dtype.key_type):
            return f"keys of the type {sql_name(dtype.key_type)} are not supported"
        return _why_not(dtype.item_type)
    if pa.types.is_list(dtype):
        return _why_not(dtype.value_type)
    return None


def _writing(expr: Expr) -> JsonWriting:
    """:raises OptionError: the options, or the type, are not supported."""
    why = _why_not(expr.children[0].dtype)
    if why is not None:
        raise OptionError(why)
    return json_writing(expr, zone("UTC"))


@strict(
    "StructsToJson",
    supports=refused_for(_writing),
    loop=True,
    reads=("options", "time_zone_id", IGNORE_NULLS),
    presumes=(
        "spark.sql.jsonGenerator.writeNullIfWithDefaultValue",
        "spark.sql.legacy.timeParserPolicy",
    ),
    takes=Rare.VOID | Rare.VARIANT,
)
def to_json(expr: Expr, context: Context) -> ValueFunction:
    """One text per value."""
    writing = json_writing(expr, zone_for(expr, TIMESTAMP, context))
    writer = _Writer(writing, quoted_in_ascii if writing.ascii_only else quoted)

    def function(value: Datum) -> Datum:
        if isinstance(value, pa.Scalar):
            return function(pa.repeat(value, 1))[0]
        return pa.array(writer.texts(value, 0), pa.string())

    return function


@dataclass(frozen=True)
class _Writer:
    """Writes whole columns."""

    writing: JsonWriting
    quote: Quote

    def texts(self, array: pa.Array, depth: int) -> Texts:
        """The JSON of each value, None for NULL.

        :param depth: inside of how many objects they are.
        """
        dtype = array.type
        if is_variant(dtype):
            return [
                text for write in _OF_VARIANTS for text in write(array, self.writing.times.zone)
            ]
        if pa.types.is_struct(dtype):
            return self._structs(array, depth)
        if pa.types.is_map(dtype):
            return self._maps(array, depth)
        if pa.types.is_list(dtype):
            return self._lists(array, depth)
        if pa.types.is_timestamp(dtype):
            return self._quoted(self.writing.times.timestamps_of(array))
        if pa.types.is_date32(dtype):
            return self._quoted(self.writing.times.dates_of(array))
        if pa.types.is_floating(dtype):
            return _floats(array)
        write = self.quote if pa.types.is_string(dtype) else _ATOMIC.get(dtype, str)
        return [None if value is None else write(value) for value in to_list(array)]

    def _quoted(self, texts: Texts) -> Texts:
        return [None if text is None else self.quote(text) for text in texts]

    def _object(self, depth: int) -> tuple[str, str, str, str]:
        """Its brackets, what is between its members, and an empty one."""
        if not self.writing.pretty:
            return "{", ",", "}", "{}"
        line = "\n" + "  " * depth
        return f"{{{line}  ", f",{line}  ", f"{line}}}", "{ }"

    def _name(self, name: str) -> str:
        return self.quote(name) + (" : " if self.writing.pretty else ":")

    def _structs(self, array: pa.StructArray, depth: int) -> Texts:
        names = [self._name(field.name) for field in array.type]
        columns = [self.texts(field_of(array, i), depth + 1) for i in range(len(names))]
        if self.writing.keeps_nulls:
            columns = [[text or "null" for text in column] for column in columns]
        valid = array.is_valid().to_pylist()
        rows = zip(*columns, strict=True) if columns else ((),) * len(array)
        opening, comma, closing, empty = self._object(depth)
        members = [
            comma.join([n + t for n, t in zip(names, row, strict=True) if t is not None])
            for row in rows
        ]
        return [
            (opening + text + closing if text else empty) if ok else None
            for ok, text in zip(valid, members, strict=True)
        ]

    def _lists(self, array: pa.ListArray, depth: int) -> Texts:
        lists = Lists.of(array)
        items = [text or "null" for text in self.texts(lists.items, depth)]
        if self.writing.pretty:
            return _grouped(lists, items, ("[ ", ", ", " ]", "[ ]"))
        return _grouped(lists, items, ("[", ",", "]", "[]"))

    def _maps(self, array: pa.MapArray, depth: int) -> Texts:
        lists = Lists.of(array)
        keys, values = lists.items.flatten()
        names = [self._name(key) for key in _keys(keys)]
        items = [text or "null" for text in self.texts(values, depth + 1)]
        pairs = [name + item for name, item in zip(names, items, strict=True)]
        return _grouped(lists, pairs, self._object(depth))


def _grouped(lists: Lists, items: list[str], signs: tuple[str, str, str, str]) -> Texts:
    opening, comma, closing, empty = signs
    spans = zip(lists.starts.tolist(), lists.lengths.tolist(), lists.valid.tolist(), strict=True)
    return [
        (opening + comma.join(items[start : start + length]) + closing if length else empty)
        if ok
        else None
        for start, length, ok in spans
    ]


def _keys(array: pa.Array) -> list[str]:
    """As Java writes what Spark has of them: days of a date, microseconds of a timestamp."""
    if pa.types.is_floating(array.type):
        return [str(text) for text in _numbers(array)]
    if pa.types.is_boolean(array.type):
        return ["true" if key else "false" for key in array.to_pylist()]
    return list(map(str, to_list(array)))


def _numbers(array: pa.Array) -> Texts:
    if pa.types.is_float64(array.type):
        return [None if value is None else double_text(value) for value in array.to_pylist()]
    casting = Casting(array.type, pa.string(), "LEGACY", "UTC")
    texts: Texts = floating_to_string(casting)(array).to_pylist()
    return texts


def _floats(array: pa.Array) -> Texts:
    # What is not a number is quoted.
    return [t if t is None or t[-1].isdigit() else f'"{t}"' for t in _numbers(array)]


_ATOMIC: dict[pa.DataType, Callable[..., str]] = {
    pa.bool_(): lambda value: "true" if value else "false",
    pa.binary(): lambda value: f'"{base64.b64encode(value).decode()}"',
}

"""Casts of arrays, maps and structs: item by item, and to STRING.

A text is ``[a, null, b]``, ``{key -> value}``, ``{field, field}``: nothing in it is quoted.

Source: Catalyst's ``Cast`` and ``ToStringBase``.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.casts.rules import Casting, Convert, conversion, converter
from engine.expressions.lists import Lists, entries

_STRING = pa.string()


def _inner(casting: Casting, source: pa.DataType, target: pa.DataType) -> Convert:
    return converter(replace(casting, source=source, target=target))


@conversion(("array", "array"))
def array_to_array(casting: Casting) -> Convert:
    """Item by item."""
    convert = _inner(casting, casting.source.value_type, casting.target.value_type)

    def items(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        return Lists(convert(lists.items), lists.lengths, lists.valid).array(casting.target)

    return items


@conversion(("map", "map"))
def map_to_map(casting: Casting) -> Convert:
    """Key by key and value by value."""
    source, target = casting.source, casting.target
    convert_key = _inner(casting, source.key_type, target.key_type)
    convert_value = _inner(casting, source.item_type, target.item_type)

    def pairs(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        keys, values = lists.items.flatten()
        items = entries(convert_key(keys), convert_value(values))
        return Lists(items, lists.lengths, lists.valid).array(target)

    return pairs


@conversion(("struct", "struct"))
def struct_to_struct(casting: Casting) -> Convert:
    """Field by field, by position."""
    fields = list(casting.target)
    converts = [
        _inner(casting, old.type, new.type) for old, new in zip(casting.source, fields, strict=True)
    ]

    def by_position(array: pa.Array) -> pa.Array:
        if not fields:
            return array
        columns = [convert(field) for convert, field in zip(converts, array.flatten(), strict=True)]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())

    return by_position


@conversion(("array", "string"))
def array_to_string(casting: Casting) -> Convert:
    """``[1, null]``."""
    text = _text(casting, casting.source.value_type)

    def convert(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        return _listed(Lists(text(lists.items), lists.lengths, lists.valid), "[", "]")

    return convert


@conversion(("map", "string"))
def map_to_string(casting: Casting) -> Convert:
    """``{a -> 1, b -> null}``."""
    key_text = _text(casting, casting.source.key_type)
    value_text = _text(casting, casting.source.item_type)

    def convert(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        keys, values = lists.items.flatten()
        pairs = pc.binary_join_element_wise(key_text(keys), value_text(values), " -> ")
        return _listed(Lists(pairs, lists.lengths, lists.valid), "{", "}")

    return convert


@conversion(("struct", "string"))
def struct_to_string(casting: Casting) -> Convert:
    """``{1, null}``, without the names."""
    texts = [_text(casting, field.type) for field in casting.source]

    def convert(array: pa.Array) -> pa.Array:
        columns = [text(field) for text, field in zip(texts, array.flatten(), strict=True)]
        if not columns:
            return pc.if_else(array.is_valid(), pa.scalar("{}"), pa.scalar(None, _STRING))
        items = pc.binary_join_element_wise(*columns, ", ")
        joined = pc.binary_join_element_wise("{", items, "}", "")
        return pc.if_else(array.is_valid(), joined, pa.scalar(None, _STRING))

    return convert


def _text(casting: Casting, source: pa.DataType) -> Convert:
    """Values as texts, NULL as ``null``."""
    convert = _inner(casting, source, _STRING)
    return lambda array: convert(array).fill_null("null")


def _listed(texts: Lists, opening: str, closing: str) -> pa.Array:
    joined = pc.binary_join(texts.array(pa.list_(_STRING)), ", ")
    return pc.binary_join_element_wise(opening, joined, closing, "")

"""Values as ``DataFrame.show`` writes them.

Source: Spark's ToPrettyString.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa

from engine.expressions.malformed import values_of
from engine.expressions.types import is_variant
from engine.expressions.whole_columns import caster, json_writer


def shown_texts(column: pa.Array, session_timezone: str) -> list[str]:
    """The text of each value; ``NULL`` for null, at any depth."""
    dtype = column.type

    def texts(part: pa.Array) -> list[str]:
        return shown_texts(part, session_timezone)

    if pa.types.is_struct(dtype) and not is_variant(dtype):
        fields = [texts(field) for field in column.flatten()]
        rows = zip(*fields, strict=True) if fields else [()] * len(column)
        found = [_joined("{", row, "}") for row in rows]
    elif pa.types.is_map(dtype):
        keys, items = texts(column.keys), texts(column.items)
        pairs = [f"{key} -> {item}" for key, item in zip(keys, items, strict=True)]
        found = [_joined("{", pairs[part], "}") for part in _slices(column)]
    elif pa.types.is_list(dtype):
        elements = texts(column.values)
        found = [_joined("[", elements[part], "]") for part in _slices(column)]
    elif pa.types.is_binary(dtype):
        found = [hex_text(value or b"") for value in column.to_pylist()]
    else:
        to_text = json_writer(dtype, "UTC") if is_variant(dtype) else None
        cast = to_text or caster(dtype, pa.string(), session_timezone)
        return ["NULL" if text is None else text for text in values_of(cast(column))]
    valid = column.is_valid().to_pylist()
    return [text if there else "NULL" for text, there in zip(found, valid, strict=True)]


def hex_text(value: bytes) -> str:
    """``[68 69]``."""
    return f"[{value.hex(' ').upper()}]"


def _joined(opening: str, texts: Sequence[str], closing: str) -> str:
    return opening + ", ".join(texts) + closing


def _slices(column: pa.Array) -> list[slice]:
    return [slice(begin, end) for begin, end in itertools.pairwise(column.offsets.to_pylist())]

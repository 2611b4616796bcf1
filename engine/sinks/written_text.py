"""Values as Spark writes them into JSON and CSV files.

A timestamp is written in the session's zone with three digits of its fraction: what is finer is
lost, as in Spark. A decimal has an exponent if it is very small.

Source: Spark's JacksonGenerator and UnivocityGenerator, and Java's BigDecimal.toString.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import pyarrow as pa

from engine.casts import date_formatter
from engine.sinks.texts import Text, Texts

_INSTANT = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
_LOCAL = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_SPECIAL_DOUBLES = ("NaN", "Infinity", "-Infinity")


def plain_texts(texts: Texts, column: pa.Array) -> list[Text]:
    """Values of a type that is not nested, not binary."""
    dtype = column.type
    if pa.types.is_timestamp(dtype):
        # A local time is written as an instant of the zone UTC would be.
        local = dtype.tz is None
        instants = column.cast(pa.timestamp("us", tz="UTC")) if local else column
        zone = "UTC" if local else texts.session_timezone
        return date_formatter(_LOCAL if local else _INSTANT, zone)(instants).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_decimal(dtype):
        return [None if value is None else str(value) for value in column.to_pylist()]
    return texts.cast(column)


class JsonTexts(Texts):
    """As in a JSON file: a null field is left out of its struct, but not of a map or an array."""

    def atoms(self, column: pa.Array) -> list[Text]:
        dtype = column.type
        if pa.types.is_string(dtype):
            return _quoted(column.to_pylist())
        if pa.types.is_binary(dtype):
            return _quoted(
                [
                    None if value is None else base64.b64encode(value).decode("ascii")
                    for value in column.to_pylist()
                ]
            )
        texts = plain_texts(self, column)
        if pa.types.is_temporal(dtype):
            return _quoted(texts)
        if pa.types.is_floating(dtype):
            return [f'"{text}"' if text in _SPECIAL_DOUBLES else text for text in texts]
        return texts

    def array_text(self, elements: Sequence[Text]) -> str:
        return "[" + ",".join(text or "null" for text in elements) + "]"

    def map_text(self, keys: Sequence[Text], items: Sequence[Text]) -> str:
        pairs = (f"{_key(key)}:{item or 'null'}" for key, item in zip(keys, items, strict=True))
        return "{" + ",".join(pairs) + "}"

    def struct_text(self, names: Sequence[str], values: Sequence[Text]) -> str:
        pairs = (
            f"{_quote(name)}:{text}"
            for name, text in zip(names, values, strict=True)
            if text is not None
        )
        return "{" + ",".join(pairs) + "}"


def _key(text: Text) -> str:
    assert text is not None, "a map's key is never null"
    return text if text.startswith('"') else f'"{text}"'


def _quoted(texts: Sequence[Text]) -> list[Text]:
    return [None if text is None else _quote(text) for text in texts]


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

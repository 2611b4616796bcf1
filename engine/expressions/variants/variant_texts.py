"""VARIANT as JSON.

Source: ``Variant.toJson`` of Spark.
"""

from __future__ import annotations

import base64
import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.casts.cast_texts import (
    date_text,
    floating_to_string,
    timestamp_text,
)
from engine.expressions.casts.rules import Casting
from engine.expressions.java_doubles import double_text
from engine.expressions.json.json_writing import quoted
from engine.expressions.json.to_json import writes_variants
from engine.expressions.record_printing import Texts
from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.times.zones import Zone, zone
from engine.expressions.variants.columns import variants_of
from engine.expressions.variants.reading import Kind, Variant

_UTC: Final = zone("UTC")
_float_texts: Final = floating_to_string(Casting(pa.float32(), pa.string(), "LEGACY", "UTC"))


@writes_variants
def texts_of(array: pa.StructArray, local_zone: Zone) -> Texts:
    """A column as JSON."""
    return [None if each is None else json_of(each, local_zone) for each in variants_of(array)]


def json_of(variant: Variant, local_zone: Zone) -> str:
    """As Spark shows it.

    :param local_zone: of TIMESTAMPs.
    :raises TransformError: it is malformed.
    """
    written: list[str] = []
    ahead: list[str | Variant] = [variant]  # the next one at the end
    while ahead:
        following = ahead.pop()
        if isinstance(following, str):
            written.append(following)
            continue
        kind = following.kind
        if kind is Kind.OBJECT:
            fields: list[str | Variant] = []
            for name, value in following.fields():
                fields += [f"{',' if fields else ''}{quoted(name)}:", value]
            ahead += ["}", *reversed(fields), "{"]
        elif kind is Kind.ARRAY:
            items: list[str | Variant] = []
            for item in following.items():
                items += [",", item] if items else [item]
            ahead += ["]", *reversed(items), "["]
        else:
            written.append(_scalar(kind, following.scalar(), local_zone))
    return "".join(written)


def _scalar(kind: Kind, value: Any, local_zone: Zone) -> str:
    if kind in (Kind.STRING, Kind.UUID):
        return quoted(value)
    if kind is Kind.NULL:
        return "null"
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind is Kind.DECIMAL:
        return f"{value:f}"
    if kind in (Kind.DOUBLE, Kind.FLOAT):
        text = double_text(value) if kind is Kind.DOUBLE else _float_text(value)
        return text if math.isfinite(value) else f'"{text}"'
    if kind is Kind.DATE:
        return f'"{date_text(value)}"'
    if kind is Kind.TIMESTAMP:
        return f'"{_local(value, local_zone)}{_offset(value, local_zone)}"'
    if kind is Kind.TIMESTAMP_NTZ:
        return f'"{_local(value, _UTC)}"'
    if kind is Kind.BINARY:
        return f'"{base64.b64encode(value).decode()}"'
    return str(value)


def _local(micros: int, local_zone: Zone) -> str:
    days, in_day = local_zone.local_parts(np.array([micros]))
    return timestamp_text(int(days[0]), int(in_day[0]))


def _offset(micros: int, local_zone: Zone) -> str:
    """``+02:00``; seconds are left out."""
    seconds = int(local_zone.offset_at(np.array([micros]))[0]) // MICROS_PER_SECOND
    minutes = abs(seconds) // 60
    sign = "-" if seconds < 0 and minutes else "+"
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"


def _float_text(value: float) -> str:
    return str(_float_texts(pa.array([value], pa.float32()))[0])

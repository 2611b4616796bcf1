"""``to_json``: structs, arrays and maps as JSON texts.

Fields that are NULL are left out, unless the option ``ignoreNullFields`` is false. (The session's
``spark.sql.jsonGenerator.ignoreNullFields`` is not known here.)

Source: ``JacksonGenerator`` and ``JSONOptions`` of Spark.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.casts.cast_texts import date_text, double_text, floating_to_string
from engine.expressions.casts.rules import Casting
from engine.expressions.json.json_writing import quoted
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.times.datetime_printing import Moments, printer
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import Zone, offset_text, zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ, is_integral, sql_name
from engine.expressions.vectors import to_list, to_numpy

Texts = list[str | None]

_TIMESTAMP_PATTERN = "yyyy-MM-dd'T'HH:mm:ss.SSS"


def _why_not(dtype: pa.DataType) -> str | None:
    if pa.types.is_struct(dtype):
        return next((why for field in dtype if (why := _why_not(field.type))), None)
    if pa.types.is_map(dtype):
        if not (pa.types.is_string(dtype.key_type) or is_integral(dtype.key_type)):
            return f"keys of the type {sql_name(dtype.key_type)} are not supported"
        return _why_not(dtype.item_type)
    if pa.types.is_list(dtype):
        return _why_not(dtype.value_type)
    return "intervals are not supported" if pa.types.is_duration(dtype) else None


def _supports(expr: Expr) -> str | None:
    unknown = {name for name in expr.params["options"] if name.lower() != "ignorenullfields"}
    if unknown:
        return f"the options {sorted(unknown)} are not supported"
    return _why_not(expr.children[0].dtype)


@strict(
    "StructsToJson",
    supports=_supports,
    loop=True,
    reads=("options", "time_zone_id"),
    presumes=(
        "spark.sql.jsonGenerator.ignoreNullFields",
        "spark.sql.jsonGenerator.writeNullIfWithDefaultValue",
        "spark.sql.legacy.timeParserPolicy",
    ),
)
def to_json(expr: Expr, context: Context) -> ValueFunction:
    """One text per value."""
    options = {name.lower(): value for name, value in expr.params["options"].items()}
    ignores_nulls = options.get("ignorenullfields", "true").lower() == "true"
    writer = _Writer(zone_for(expr, TIMESTAMP, context), ignores_nulls)

    def function(value: Datum) -> Datum:
        if isinstance(value, pa.Scalar):
            return function(pa.repeat(value, 1))[0]
        return pa.array(writer.texts(value), pa.string())

    return function


@dataclass(frozen=True)
class _Writer:
    """Writes whole columns.

    :param zone: the session's time zone.
    """

    zone: Zone
    ignores_nulls: bool

    def texts(self, array: pa.Array) -> Texts:
        """The JSON of each value, None for NULL."""
        dtype = array.type
        if pa.types.is_struct(dtype):
            return self._structs(array)
        if pa.types.is_map(dtype):
            return self._maps(array)
        if pa.types.is_list(dtype):
            return self._lists(array)
        if pa.types.is_timestamp(dtype):
            return self._timestamps(array)
        if pa.types.is_floating(dtype):
            return _floats(array)
        write = _ATOMIC.get(dtype, str)
        return [None if value is None else write(value) for value in to_list(array)]

    def _structs(self, array: pa.StructArray) -> Texts:
        names = [f"{quoted(field.name)}:" for field in array.type]
        columns = [self.texts(pc.struct_field(array, [i])) for i in range(len(names))]
        valid = array.is_valid().to_pylist()
        rows = zip(*columns, strict=True) if columns else ((),) * len(array)
        if self.ignores_nulls:
            return [
                "{" + ",".join([n + t for n, t in zip(names, row, strict=True) if t is not None])
                + "}" if ok else None
                for ok, row in zip(valid, rows, strict=True)
            ]  # fmt: skip
        return [
            "{" + ",".join([n + (t or "null") for n, t in zip(names, row, strict=True)]) + "}"
            if ok else None
            for ok, row in zip(valid, rows, strict=True)
        ]  # fmt: skip

    def _lists(self, array: pa.ListArray) -> Texts:
        items = [text or "null" for text in self.texts(array.values)]
        return _grouped(array, items, "[", "]")

    def _maps(self, array: pa.MapArray) -> Texts:
        keys = [quoted(str(key)) for key in to_list(array.keys)]
        items = [text or "null" for text in self.texts(array.items)]
        pairs = [f"{key}:{item}" for key, item in zip(keys, items, strict=True)]
        return _grouped(array, pairs, "{", "}")

    def _timestamps(self, array: pa.Array) -> Texts:
        local = zone("UTC") if array.type == TIMESTAMP_NTZ else self.zone
        moments = Moments(to_numpy(array)[0], local)
        texts = printer(_TIMESTAMP_PATTERN)(moments)
        if array.type != TIMESTAMP_NTZ:
            offsets = map(offset_text, moments.offset_seconds.tolist())
            texts = [text + offset for text, offset in zip(texts, offsets, strict=True)]
        valid = array.is_valid().to_pylist()
        return [f'"{text}"' if ok else None for ok, text in zip(valid, texts, strict=True)]


def _grouped(array: pa.Array, items: list[str], opening: str, closing: str) -> Texts:
    offsets = array.offsets.to_pylist()
    return [
        opening + ",".join(items[start:end]) + closing if ok else None
        for ok, start, end in zip(
            array.is_valid().to_pylist(), offsets[:-1], offsets[1:], strict=True
        )
    ]


def _floats(array: pa.Array) -> Texts:
    if pa.types.is_float64(array.type):
        texts = [None if value is None else double_text(value) for value in array.to_pylist()]
    else:
        casting = Casting(array.type, pa.string(), "LEGACY", "UTC")
        texts = floating_to_string(casting)(array).to_pylist()
    # What is not a number is quoted.
    return [t if t is None or t[-1].isdigit() else f'"{t}"' for t in texts]


_ATOMIC: dict[pa.DataType, Callable[..., str]] = {
    pa.bool_(): lambda value: "true" if value else "false",
    pa.string(): quoted,
    pa.binary(): lambda value: f'"{base64.b64encode(value).decode()}"',
    pa.date32(): lambda days: f'"{date_text(days)}"',
}

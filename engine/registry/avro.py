"""Avro: records to Arrow by the query's own schema, whatever schema each was written by, and back.

Types are those of Spark's ``from_avro``: ``enum`` is STRING, ``fixed`` BINARY, a union of ``int``
and ``long`` BIGINT, one of ``float`` and ``double`` DOUBLE; other unions are for ``null`` alone.

Source: Avro 1.12, "Schema Resolution"; Spark's SchemaConverters.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import fastavro
import pyarrow as pa

from engine.errors import ConfigError
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ
from engine.registry.avro_values import cut_off, other_unit, units_of
from engine.registry.client import Access, Registry, Schema, connected
from engine.registry.wire_format import HEADER, header, schema_id

KIND: Final = "AVRO"
_PRIMITIVE: Final[dict[str, pa.DataType]] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
    "enum": pa.string(), "fixed": pa.binary(),
}  # fmt: skip
_LOGICAL: Final[dict[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): TIMESTAMP_NTZ,
}
_WIDER: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
_DIGITS_MAX: Final = 38


class AvroSchema:
    """A schema that can be read and written by. Picklable.

    :param texts: what it refers to, each behind what that refers to; itself last. As JSON.
    :ivar whole: as it is, for fastavro.
    :ivar plain: the same without logical types.
    :raises ConfigError: it is none.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self._named: dict[str, Any] = {}
        self.whole = _parsed(self.texts, lambda schema: schema, self._named)
        self.plain = _parsed(self.texts, _without_logical_types, {})

    @cached_property
    def read_as(self) -> pa.DataType:
        """What is read; :attr:`dtype` but for times in milliseconds.

        :raises ConfigError: it has a type that Spark has no column for.
        """
        return _Types(self._named).of(self.whole, ())

    @cached_property
    def dtype(self) -> pa.DataType:
        """Of a column."""
        return _in_microseconds(self.read_as)

    @cached_property
    def units(self) -> dict[str, str]:
        """See :func:`engine.registry.avro_values.units_of`."""
        return units_of(self.whole, self._named)

    def cut_off(self, dtype: pa.DataType) -> str | None:
        """See :func:`engine.registry.avro_values.cut_off`."""
        return cut_off(self.whole, self._named, dtype)

    def __reduce__(self) -> Any:
        return AvroSchema, (self.texts,)

    @classmethod
    def of(cls, registry: Registry, schema: Schema) -> AvroSchema:
        """One of a registry, with what it refers to.

        :raises ConfigError: it is none of Avro's.
        """
        if schema.kind != KIND:
            raise ConfigError(
                f"Schema {schema.id} of the registry is one of {schema.kind}, and not of {KIND}.",
                hint="Read it by the function for that.",
            )
        return cls(texts_of(registry, schema))


def texts_of(registry: Registry, schema: Schema) -> tuple[str, ...]:
    """A schema behind those that it refers to, each once."""
    found: dict[str, None] = {}

    def visit(each: Schema) -> None:
        for _, subject, version in each.references:
            visit(registry.of_subject(subject, version))
        found[each.text] = None

    visit(schema)
    return tuple(found)


class AvroDecoder:
    """Records of any schema of the registry, as values of one. Picklable."""

    def __init__(self, access: Access, reader: AvroSchema) -> None:
        self._access, self._reader = access, reader
        self._writers: dict[int, Any] = {}

    def __call__(self, framed: pa.Array) -> pa.Array:
        """
        :raises ValueError: one of them cannot be read; says why.
        :raises SourceError: the registry cannot be asked.
        """
        values = [None if each is None else self._value(each) for each in framed.to_pylist()]
        return pa.array(values, self._reader.read_as).cast(self._reader.dtype)

    def _value(self, framed: bytes) -> Any:
        id = schema_id(framed)
        if id not in self._writers:
            self._writers[id] = self._writer(id)
        record = io.BytesIO(framed)
        record.seek(HEADER)
        try:
            value = fastavro.schemaless_reader(record, self._writers[id], self._reader.plain)
        except Exception as exc:
            raise ValueError(f"it cannot be read by schema {id}: {_said(exc)}") from exc
        if record.tell() != len(framed):
            left = len(framed) - record.tell()
            raise ValueError(f"{left} bytes are left behind what schema {id} describes")
        return value

    def _writer(self, id: int) -> Any:
        registry = connected(self._access)
        found = registry.schema(id)
        try:
            writer = AvroSchema.of(registry, found)
        except ConfigError as exc:  # of whoever has written the record
            raise ValueError(exc.message) from exc
        if (other := other_unit(writer.units, self._reader.units)) is not None:
            raise ValueError(f"by schema {id} {other}")
        return writer.plain

    def __reduce__(self) -> Any:
        return AvroDecoder, (self._access, self._reader)


class AvroEncoder:
    """Values as records of one schema. Picklable."""

    def __init__(self, id: int, schema: AvroSchema) -> None:
        self._id, self._schema, self._header = id, schema, header(id)

    def __call__(self, values: pa.Array) -> pa.Array:
        """
        :raises ValueError: one of them does not fit the schema; says why.
        :raises ConfigError: none does.
        """
        if (where := self._schema.cut_off(values.type)) is not None:
            raise ConfigError(
                f"Schema {self._id} of the registry has a whole number at {where}, and the query "
                "has fractions.",
                hint="Cast it: CAST(... AS BIGINT).",
            )
        rows = values.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if row is None else self._record(row) for row in rows], pa.binary())

    def _record(self, value: Any) -> bytes:
        record = io.BytesIO()
        record.write(self._header)
        try:
            # Strict, or a field that the schema does not have would be left out without a word.
            fastavro.schemaless_writer(record, self._schema.whole, value, strict_allow_default=True)
        except Exception as exc:
            raise ValueError(f"it cannot be written by schema {self._id}: {_said(exc)}") from exc
        return record.getvalue()


class _Types:
    """:param named: records, enums and fixed types by their full names."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def of(self, schema: Any, inside: tuple[str, ...]) -> pa.DataType:
        """:param inside: the records around it."""
        if isinstance(schema, list):
            return self._of_union(schema, inside)
        if isinstance(schema, str):
            if schema in _PRIMITIVE:
                return _PRIMITIVE[schema]
            return self.of(self._named[schema], inside)
        kind = schema["type"]
        if kind in ("record", "error"):
            if schema["name"] in inside:
                raise _unsupported(f"the record {schema['name']}, which contains itself")
            around = (*inside, schema["name"])
            return pa.struct(
                [pa.field(each["name"], self.of(each["type"], around)) for each in schema["fields"]]
            )
        if kind == "array":
            return pa.list_(pa.field("element", self.of(schema["items"], inside)))
        if kind == "map":
            values = pa.field("value", self.of(schema["values"], inside))
            return pa.map_(pa.field("key", pa.string(), False), values)
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            if schema["precision"] > _DIGITS_MAX:
                raise _unsupported(f"a decimal of {schema['precision']} digits")
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        return _LOGICAL.get((kind, logical)) or self.of(kind, inside)

    def _of_union(self, branches: Sequence[Any], inside: tuple[str, ...]) -> pa.DataType:
        others = [each for each in branches if each != "null"]
        if len(others) == 1:
            return self.of(others[0], inside)
        names = frozenset(each for each in others if isinstance(each, str))
        if len(names) == len(others) and names in _WIDER:
            return _PRIMITIVE[_WIDER[names]]
        raise _unsupported(f"the union of {json.dumps(others)}")


def _parsed(texts: Sequence[str], change: Callable[[Any], Any], named: dict[str, Any]) -> Any:
    """The last of them, with the names of the others.

    :param named: gets them all.
    """
    parsed: Any = None
    for text in texts:
        try:
            schema = json.loads(text)
            parsed = fastavro.parse_schema(change(schema), named, _force=True)
        except Exception as exc:
            raise ConfigError(f"This is no schema of Avro: {_said(exc)}: {text[:300]}") from exc
    return parsed


def _without_logical_types(schema: Any) -> Any:
    """Numbers as they are: times as objects would be slow, and of a few thousand years only."""
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    drops = schema.get("logicalType") not in (None, "decimal")
    return {
        name: _without_logical_types(part) if name in _PARTS else part
        for name, part in schema.items()
        if not (drops and name == "logicalType")
    }


_PARTS: Final = ("type", "fields", "items", "values")


def _in_microseconds(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", tz=dtype.tz)
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_in_microseconds(dtype.value_type)))
    if pa.types.is_map(dtype):
        return pa.map_(
            dtype.key_field, dtype.item_field.with_type(_in_microseconds(dtype.item_type))
        )
    return dtype


def _unsupported(what: str) -> ConfigError:
    return ConfigError(
        f"A column cannot have the type of this schema of Avro: it has {what}.",
        hint="Read by a schema of your own that leaves that field out: from_avro(..., schema=...).",
    )


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

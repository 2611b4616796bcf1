"""Columns as records of Avro, column by column: the bytes of a struct are those of its fields.

Source: ``AvroSerializer`` of Spark; Avro's ``GenericDatumWriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.ansi import failure
from engine.expressions.avro import binary
from engine.expressions.avro.conversions import FIRST_MODERN_MICROS
from engine.expressions.avro.java_maps import buckets_for, in_java_order, of_text
from engine.expressions.avro.schemas import NULL, AvroField, AvroSchemaError, AvroType
from engine.expressions.avro.writers import (
    Path,
    ancient,
    write_day,
    write_decimal,
    write_fixed,
    write_symbol,
)
from engine.expressions.java_errors import null_pointer
from engine.expressions.lists import Lists
from engine.expressions.types import sql_name
from engine.expressions.vectors import to_list

Octets = list[bytes | None]
Encode = Callable[[pa.Array], Octets]
_PLAIN: Final[dict[tuple[pa.DataType, str], Callable[[Any], bytes]]] = {
    (pa.bool_(), "boolean"): binary.write_boolean,
    (pa.int8(), "int"): binary.write_long,
    (pa.int16(), "int"): binary.write_long,
    (pa.int32(), "int"): binary.write_long,
    (pa.int64(), "long"): binary.write_long,
    (pa.float32(), "float"): binary.write_float,
    (pa.float64(), "double"): binary.write_double,
    (pa.binary(), "bytes"): binary.write_bytes,
}
_OF_UNIONS: Final = {pa.int64(): {"int", "long"}, pa.float64(): {"float", "double"}}
"""Types of columns that go into a union of two: always into the larger one."""
_TOP: Final = Path()


class Encoding:
    """How columns are written.

    :param ancient_fails: as of :class:`engine.expressions.avro.decoding.Decoding`.
    :param minds_case: names of fields go together only in the same case.
    """

    def __init__(self, *, ancient_fails: bool, minds_case: bool) -> None:
        self._ancient_fails = ancient_fails
        self._minds_case = minds_case

    def of(self, dtype: pa.DataType, schema: AvroType, path: Path = _TOP) -> Encode:
        """None is written for NULL where the schema has no ``null``.

        :raises AvroSchemaError: they do not go together.
        """
        if schema.kind != "union":
            return self._of_one(dtype, schema, path)
        values = schema.values
        if not values:
            chosen, encode = schema.branches[0], self._of_one(dtype, schema.branches[0], path)
        elif len(values) == 1:
            chosen, encode = values[0], self._of_one(dtype, values[0], path)
        elif len(values) == 2 and {each.kind for each in values} == _OF_UNIONS.get(dtype):
            kind = "long" if dtype == pa.int64() else "double"
            chosen = next(each for each in values if each.kind == kind)
            encode = self._of_one(dtype, chosen, path)
        elif pa.types.is_struct(dtype):
            return self._union(dtype, schema, path)
        else:
            raise _incompatible(dtype, schema)
        prefix = binary.write_long(schema.branches.index(chosen))
        null = _null_of(schema)
        return lambda array: [
            null if octets is None else prefix + octets for octets in encode(array)
        ]

    def _of_one(self, dtype: pa.DataType, schema: AvroType, path: Path) -> Encode:
        kind = schema.kind
        if (write := _PLAIN.get((dtype, kind))) is not None:
            return _each(write)
        if pa.types.is_string(dtype) and kind == "string":
            return _texts
        if pa.types.is_string(dtype) and kind == "enum":
            return _each(write_symbol(schema, path))
        if pa.types.is_binary(dtype) and kind == "fixed":
            return _each(write_fixed(schema.size, path))
        if pa.types.is_decimal(dtype) and schema.decimal == (dtype.precision, dtype.scale):
            return _each(write_decimal(schema, dtype.scale))
        if pa.types.is_date32(dtype) and kind == "int":
            return _each(write_day if self._ancient_fails else binary.write_long)
        if pa.types.is_timestamp(dtype) and kind == "long":
            return _each(self._timestamp(dtype, schema))
        if pa.types.is_list(dtype) and kind == "array":
            return self._array(dtype, schema, path)
        if pa.types.is_map(dtype) and kind == "map" and pa.types.is_string(dtype.key_type):
            return self._map(dtype, schema, path)
        if pa.types.is_struct(dtype) and kind == "record":
            return self._record(dtype, schema, path)
        raise _incompatible(dtype, schema)

    def _timestamp(self, dtype: pa.TimestampType, schema: AvroType) -> Callable[[int], bytes]:
        kind = "timestamp" if dtype.tz is not None else "local-timestamp"
        if schema.logical not in (None, f"{kind}-millis", f"{kind}-micros"):
            raise _incompatible(dtype, schema)
        unit = 1 if schema.logical == f"{kind}-micros" else 1_000
        fails = self._ancient_fails and dtype.tz is not None

        def write(micros: int) -> bytes:
            if fails and micros < FIRST_MODERN_MICROS:
                raise ancient()
            return binary.write_long(micros // unit)

        return write

    def _record(self, dtype: pa.StructType, schema: AvroType, path: Path) -> Encode:
        places = [self._place(dtype, field) for field in schema.fields]
        missing = set(range(dtype.num_fields)) - set(places)
        if missing:
            names = ", ".join(dtype.field(place).name for place in sorted(missing, key=str))
            raise AvroSchemaError(f"the schema has no field {names}")
        parts: list[tuple[AvroField, int | None, Encode | None]] = []
        for field, place in zip(schema.fields, places, strict=True):
            if place is None and not (field.type.kind == "union" and field.type.nullable):
                raise AvroSchemaError(f"the field {field.name} of the schema has no value")
            encode = None
            if place is not None:
                column = dtype.field(place)
                encode = self.of(column.type, field.type, path.to(column.name, field.name))
            parts.append((field, place, encode))

        def record(array: pa.StructArray) -> Octets:
            valid = array.is_valid()
            known = array.filter(valid)
            columns = []
            for field, place, encode in parts:
                if place is None or encode is None:
                    columns.append([_null_of(field.type)] * len(known))
                    continue
                octets = encode(pc.struct_field(known, [place]))
                if None in octets:
                    raise failure(
                        "AVRO_CANNOT_WRITE_NULL_FIELD",
                        f"The field {field.name} of the schema cannot be NULL, and is.",
                    )
                columns.append(octets)
            rows = iter(
                map(b"".join, zip(*columns, strict=True)) if columns else [b""] * len(known)
            )
            return [next(rows) if ok else None for ok in valid.to_pylist()]

        return record

    def _place(self, dtype: pa.StructType, field: AvroField) -> int | None:
        """The column of a field of the schema."""
        found = [
            place
            for place, each in enumerate(dtype)
            if each.name == field.name
            or (not self._minds_case and each.name.lower() == field.name.lower())
        ]
        if len(found) > 1:
            raise AvroSchemaError(f"more than one column is the field {field.name} of the schema")
        return found[0] if found else None

    def _union(self, dtype: pa.StructType, schema: AvroType, path: Path) -> Encode:
        """Of a struct of its branches the first that is not NULL."""
        values = schema.values
        if [field.name for field in dtype] != [f"member{at}" for at in range(len(values))]:
            raise _incompatible(dtype, schema)
        branches = [
            (
                binary.write_long(schema.branches.index(each)),
                self._of_one(field.type, each, path.to(field.name, field.name)),
            )
            for each, field in zip(values, dtype, strict=True)
        ]
        null = _null_of(schema)

        def union(array: pa.StructArray) -> Octets:
            found: Octets = [null] * len(array)
            for at, (prefix, encode) in reversed(list(enumerate(branches))):
                for row, octets in enumerate(encode(pc.struct_field(array, [at]))):
                    if octets is not None:
                        found[row] = prefix + octets
            return found

        return union

    def _array(self, dtype: pa.ListType, schema: AvroType, path: Path) -> Encode:
        encode = self.of(dtype.value_type, schema.part, path.to("element", "element"))

        def arrays(array: pa.ListArray) -> Octets:
            lists = Lists.of(array)
            return _grouped(lists, encode(lists.items), list)

        return arrays

    def _map(self, dtype: pa.MapType, schema: AvroType, path: Path) -> Encode:
        encode = self.of(dtype.item_type, schema.part, path.to("value", "value"))

        def maps(array: pa.MapArray) -> Octets:
            lists = Lists.of(array)
            texts = to_list(pc.struct_field(lists.items, [0]))
            octets = encode(pc.struct_field(lists.items, [1]))
            pairs = [
                None if each is None else (text, each)
                for text, each in zip(texts, octets, strict=True)
            ]
            return _grouped(lists, pairs, _entries)

        return maps


def _each(write: Callable[[Any], bytes]) -> Encode:
    return lambda array: [None if value is None else write(value) for value in to_list(array)]


def _texts(array: pa.Array) -> Octets:
    """As they are, UTF-8 or not."""
    octets = array.cast(pa.binary()).to_pylist()
    return [None if each is None else binary.write_bytes(each) for each in octets]


def _grouped(lists: Lists, items: Sequence[Any], order: Callable[[Any], list[bytes]]) -> Octets:
    """One block for the items of each row, if it has any."""
    found: Octets = []
    at = 0
    for length, valid in zip(lists.lengths.tolist(), lists.valid.tolist(), strict=True):
        part = items[at : at + length]
        at += length
        if None in part:
            raise null_pointer("an item of an array or a map is NULL, and may not be")
        block = b"".join((binary.write_long(length), *order(part), b"\0")) if length else b"\0"
        found.append(block if valid else None)
    return found


def _entries(pairs: Sequence[tuple[str, bytes]]) -> list[bytes]:
    ordered = in_java_order(pairs, of_text, buckets_for(len(pairs)))
    return [binary.write_bytes(key.encode()) + octets for key, octets in ordered]


def _null_of(schema: AvroType) -> bytes | None:
    """``null`` as this union has it."""
    for index, branch in enumerate(schema.branches):
        if branch.kind == NULL:
            return binary.write_long(index)
    return None


def _incompatible(dtype: pa.DataType, schema: AvroType) -> AvroSchemaError:
    named = schema.name or schema.logical or schema.kind
    return AvroSchemaError(f"a column of {sql_name(dtype)} does not go into the schema's {named}")

"""Records of Avro as Python values, written by one schema and read by another.

What a function of :class:`Decoding` returns reads a value as Spark does for a column of that type:
texts as bytes, dates as days, timestamps as microseconds, structs as dictionaries, maps as pairs,
which come in the order of a hash table of Java.

Source: ``AvroDeserializer`` of Spark; Avro 1.12, "Schema Resolution", its ``Resolver`` and its
``FastReaderBuilder``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.avro import binary
from engine.expressions.avro.binary import Read
from engine.expressions.avro.conversions import Convert, conversion, default_of, itself
from engine.expressions.avro.java_maps import BUCKETS, in_java_order, of_bytes
from engine.expressions.avro.schemas import NO_DEFAULT, NULL, AvroSchemaError, AvroType
from engine.expressions.avro.skipping import passing_over

_PROMOTED: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Decoding:
    """How records are read.

    :param ancient_fails: a day or time that the hybrid calendar counts otherwise is malformed:
        ``datetimeRebaseMode`` ``EXCEPTION``.
    """

    def __init__(self, *, ancient_fails: bool) -> None:
        self._ancient_fails = ancient_fails

    def of(self, writer: AvroType, reader: AvroType, dtype: pa.DataType | None) -> Read:
        """
        :param dtype: of the column; None: the value is passed over.
        :raises AvroSchemaError: such values are not supported.
        """
        if dtype is None:
            return passing_over(writer)
        if writer.kind == "union":
            branches = [self.of(branch, reader, dtype) for branch in writer.branches]
            return binary.union(branches)
        if reader.kind == "union":
            return self._into_union(writer, reader, dtype)
        if writer.kind == "record" == reader.kind:
            return self._record(writer, reader, dtype)
        if writer.kind == "array" == reader.kind:
            return self._array(writer, reader, dtype)
        if writer.kind == "map" == reader.kind:
            return self._map(writer, reader, dtype)
        if writer.kind == "enum" == reader.kind and writer.name == reader.name:
            return _enum(writer, reader)
        if writer.kind == "fixed" == reader.kind and writer.name == reader.name:
            if writer.size == reader.size:
                return self._converted(binary.read_fixed(writer.size), reader, dtype)
        elif writer.kind in binary.PRIMITIVE and reader.kind in binary.PRIMITIVE:
            if writer.kind == reader.kind:
                return self._converted(binary.PRIMITIVE[writer.kind], reader, dtype)
            if reader.kind in _PROMOTED.get(writer.kind, ()):
                read = _applied(binary.PRIMITIVE[writer.kind], _promotion(writer.kind, reader.kind))
                return self._converted(read, reader, dtype)
        return _unresolved(f"{writer.kind} {writer.name} is read as {reader.kind} {reader.name}")

    def _into_union(self, writer: AvroType, reader: AvroType, dtype: pa.DataType) -> Read:
        """One branch of the reader's union is taken for all that is written."""
        index = _branch(writer, reader)
        if index is None:
            return _unresolved(f"{writer.kind} {writer.name} is in no branch")
        branch, values = reader.branches[index], reader.values
        if branch.kind == NULL:
            return self.of(writer, branch, pa.null())
        kinds = {each.kind for each in values}
        if len(values) == 1 or (
            len(values) == 2 and kinds in ({"int", "long"}, {"float", "double"})
        ):
            return self.of(writer, branch, dtype)
        field = dtype.field(values.index(branch))
        return _applied(self.of(writer, branch, field.type), lambda value: {field.name: value})

    def _record(self, writer: AvroType, reader: AvroType, dtype: pa.DataType) -> Read:
        _one_case(reader)
        wanted = {field.name: field.type for field in dtype}
        read = {field.name: field for field in reader.fields}
        written = {field.name for field in writer.fields}
        parts: list[tuple[str | None, Read]] = []
        for each in writer.fields:
            found = read.get(each.name)
            if found is None:
                parts.append((None, self.of(each.type, each.type, None)))
            elif each.name in wanted:
                parts.append((each.name, self.of(each.type, found.type, wanted[each.name])))
            else:
                parts.append((None, self.of(each.type, found.type, None)))
        constants = {}
        for each in reader.fields:
            if each.name not in written:
                if each.default is NO_DEFAULT:
                    return _unresolved(f"the field {each.name} is missing and has no default")
                if each.name in wanted:
                    constants[each.name] = default_of(each, wanted[each.name], self._ancient_fails)

        def record(data: bytes, at: int) -> tuple[dict[str, Any], int]:
            row = dict(constants)
            for name, part in parts:
                value, at = part(data, at)
                if name is not None:
                    row[name] = value
            return row, at

        return record

    def _array(self, writer: AvroType, reader: AvroType, dtype: pa.DataType) -> Read:
        item = self.of(writer.part, reader.part, dtype.value_type)

        def array(data: bytes, at: int) -> tuple[list[Any], int]:
            values: list[Any] = []
            count, at = binary.read_count(data, at)
            while count > 0:
                binary.check_count(count, data, at)
                for _ in range(count):
                    value, at = item(data, at)
                    values.append(value)
                count, at = binary.read_count(data, at)
            return values, at

        return array

    def _map(self, writer: AvroType, reader: AvroType, dtype: pa.DataType) -> Read:
        item = self.of(writer.part, reader.part, dtype.item_type)

        def entries(data: bytes, at: int) -> tuple[list[tuple[bytes, Any]], int]:
            values: dict[bytes, Any] = {}
            count, at = binary.read_count(data, at)
            while count > 0:
                for _ in range(count):
                    key, at = binary.read_bytes(data, at)
                    values[key], at = item(data, at)
                count, at = binary.read_count(data, at)
            return in_java_order(list(values.items()), of_bytes, BUCKETS), at

        return entries

    def _converted(self, read: Read, reader: AvroType, dtype: pa.DataType) -> Read:
        convert = conversion(reader, dtype, self._ancient_fails)
        return read if convert is itself else _applied(read, convert)


def _applied(read: Read, convert: Convert) -> Read:
    def applied(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        return convert(value), at

    return applied


def _unresolved(what: str) -> Read:
    """As Java: a branch of a union that cannot be read is no obstacle until it comes."""

    def fail(data: bytes, at: int) -> tuple[Any, int]:
        raise ValueError(what)

    return fail


def _symbol(symbol: str, reader: AvroType) -> bytes | None:
    """The text of a symbol, or of the one that stands for all that are not known."""
    text = symbol if symbol in reader.symbols else reader.attributes.get("default")
    return None if text is None else str(text).encode()


def _enum(writer: AvroType, reader: AvroType) -> Read:
    texts = [_symbol(symbol, reader) for symbol in writer.symbols]

    def enum(data: bytes, at: int) -> tuple[bytes, int]:
        index, at = binary.read_int(data, at)
        text = None if index < 0 else texts[index]
        if text is None:
            raise ValueError(f"there is no symbol {index}")
        return text, at

    return enum


def _branch(writer: AvroType, reader: AvroType) -> int | None:
    """The branch of the reader's union that a type is read as."""
    for index, branch in enumerate(reader.branches):
        if branch.kind == writer.kind and branch.name == writer.name:
            return index
    if writer.kind == "record" and any(each.kind == "record" for each in reader.branches):
        raise AvroSchemaError(f"the union has no record {writer.name}, but others")
    for index, branch in enumerate(reader.branches):
        if branch.kind in _PROMOTED.get(writer.kind, ()):
            return index
    return None


def _promotion(written: str, read: str) -> Convert:
    if read == "float":
        return lambda value: float(np.float32(np.int64(value)))
    return float if read == "double" else itself


def _one_case(record: AvroType) -> None:
    names = [field.name.lower() for field in record.fields]
    if len(set(names)) < len(names):
        raise AvroSchemaError(f"two fields of {record.name} have the same name but for its case")

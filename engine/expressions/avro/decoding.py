"""Records of Avro as Python values, written by one schema and read by another.

What a function of :class:`Decoding` returns reads a value as Spark does for a column of that type:
texts as bytes, dates as days, timestamps as microseconds, structs as dictionaries, maps as pairs.

Entries of a map come in the record's order. Spark has them in the order of a hash table of Java,
which depends on the maps that the task has read before.

Source: ``AvroDeserializer`` of Spark; Avro 1.12, "Schema Resolution", and its ``Resolver``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.avro import binary
from engine.expressions.avro.binary import Read
from engine.expressions.avro.schemas import (
    NO_DEFAULT,
    NULL,
    AvroField,
    AvroSchemaError,
    AvroType,
)
from engine.expressions.decimals import EXACT
from engine.expressions.types import YEAR_MONTH_INTERVAL

Convert = Callable[[Any], Any]
_PROMOTED: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_PRIMITIVE: Final[dict[str, Read]] = {
    "null": binary.read_null,
    "boolean": binary.read_boolean,
    "int": binary.read_int,
    "long": binary.read_long,
    "float": binary.read_float,
    "double": binary.read_double,
    "bytes": binary.read_bytes,
    "string": binary.read_bytes,
}
_DIGITS_OF_LONG: Final = 18
_LONG: Final = 2**63
_NO_BYTES_ITEMS_MAX: Final = 2**24


class Decoding:
    """How records are read.

    :param ancient_fails: a day or time that the hybrid calendar counts otherwise is malformed:
        ``datetimeRebaseMode`` ``EXCEPTION``.
    """

    def __init__(self, *, ancient_fails: bool) -> None:
        self._ancient_fails = ancient_fails
        self._skipping: dict[AvroType, Read] = {}

    def of(self, writer: AvroType, reader: AvroType, dtype: pa.DataType | None) -> Read:
        """
        :param dtype: of the column; None: the value is passed over.
        :raises AvroSchemaError: such values are not supported.
        """
        if dtype is None:
            return self._passed_over(writer)
        if writer.kind == "union":
            branches = [self.of(branch, reader, dtype) for branch in writer.branches]
            return _union(branches)
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
        elif writer.kind in _PRIMITIVE and reader.kind in _PRIMITIVE:
            if writer.kind == reader.kind:
                return self._converted(_PRIMITIVE[writer.kind], reader, dtype)
            if reader.kind in _PROMOTED.get(writer.kind, ()):
                read = _applied(_PRIMITIVE[writer.kind], _promotion(writer.kind, reader.kind))
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
        if not pa.types.is_struct(dtype) or dtype.num_fields != len(values):
            raise AvroSchemaError("a union whose branches contain themselves is not supported")
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
                    constants[each.name] = self._default(each, wanted[each.name])

        def record(data: bytes, at: int) -> tuple[dict[str, Any], int]:
            row = dict(constants)
            for name, part in parts:
                value, at = part(data, at)
                if name is not None:
                    row[name] = value
            return row, at

        return record

    def _default(self, field: AvroField, dtype: pa.DataType) -> Any:
        """What a reader has for a field that is not written."""
        json = field.default
        kind = next((each for each in field.type.values), field.type)
        if json is None and field.type.nullable:
            return None
        if json in ([], {}) and kind.kind in ("array", "map"):
            return []
        if field.type.kind == "union" and len(field.type.values) != 1:
            raise AvroSchemaError(f"the default of the union {field.name} is not supported")
        if kind.kind == "string" and isinstance(json, str):
            return json.encode()
        if kind.kind in ("bytes", "fixed") and isinstance(json, str):
            return self._conversion(kind, dtype)(json.encode("latin-1"))
        if kind.kind == "enum" and json in kind.symbols:
            return json.encode()
        if kind.kind == "boolean" and isinstance(json, bool):
            return json
        if kind.kind in ("int", "long") and type(json) is int:
            return self._conversion(kind, dtype)(json)
        if kind.kind in ("float", "double") and type(json) in (int, float):
            return float(json)
        raise AvroSchemaError(f"the default {json!r} of the field {field.name} is not supported")

    def _array(self, writer: AvroType, reader: AvroType, dtype: pa.DataType) -> Read:
        assert writer.items is not None and reader.items is not None
        item = self.of(writer.items, reader.items, dtype.value_type)

        def array(data: bytes, at: int) -> tuple[list[Any], int]:
            values: list[Any] = []
            count, at = binary.read_count(data, at)
            while count > 0:
                _check_count(count, data, at)
                for _ in range(count):
                    value, at = item(data, at)
                    values.append(value)
                count, at = binary.read_count(data, at)
            return values, at

        return array

    def _map(self, writer: AvroType, reader: AvroType, dtype: pa.DataType) -> Read:
        assert writer.items is not None and reader.items is not None
        item = self.of(writer.items, reader.items, dtype.item_type)

        def entries(data: bytes, at: int) -> tuple[list[tuple[bytes, Any]], int]:
            values: dict[bytes, Any] = {}
            count, at = binary.read_count(data, at)
            while count > 0:
                for _ in range(count):
                    key, at = binary.read_bytes(data, at)
                    values[key], at = item(data, at)
                count, at = binary.read_count(data, at)
            return list(values.items()), at

        return entries

    def _converted(self, read: Read, reader: AvroType, dtype: pa.DataType) -> Read:
        convert = self._conversion(reader, dtype)
        return read if convert is _itself else _applied(read, convert)

    def _conversion(self, reader: AvroType, dtype: pa.DataType) -> Convert:
        """From what Avro has to what the column has."""
        if pa.types.is_decimal(dtype):
            if reader.kind not in ("bytes", "fixed"):
                raise AvroSchemaError(f"a DECIMAL in a {reader.kind} is not supported")
            return _decimal(dtype.precision, dtype.scale)
        if pa.types.is_timestamp(dtype):
            millis = reader.logical in ("timestamp-millis", "local-timestamp-millis")
            return _micros(1_000 if millis else 1, self._ancient_fails and dtype.tz is not None)
        if dtype == YEAR_MONTH_INTERVAL:
            raise AvroSchemaError("intervals of months are not supported")
        if pa.types.is_date32(dtype) and self._ancient_fails:
            return _modern_day
        return _itself

    def _passed_over(self, writer: AvroType) -> Read:
        """Reads over a value; of types that contain themselves, too."""
        if writer not in self._skipping:
            self._skipping[writer] = lambda data, at: self._skipping[writer](data, at)
            self._skipping[writer] = self._skip(writer)
        return self._skipping[writer]

    def _skip(self, writer: AvroType) -> Read:
        if writer.kind == "union":
            return _union([self._passed_over(branch) for branch in writer.branches])
        if writer.kind == "record":
            fields = [self._passed_over(field.type) for field in writer.fields]
            return _sequence(fields)
        if writer.kind in ("array", "map"):
            assert writer.items is not None
            item = self._passed_over(writer.items)
            if writer.kind == "map":
                item = _sequence([binary.read_bytes, item])
            return _blocks(item)
        if writer.kind == "enum":
            return binary.read_int
        return binary.read_fixed(writer.size) if writer.kind == "fixed" else _PRIMITIVE[writer.kind]


def _itself(value: Any) -> Any:
    return value


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


def _union(branches: list[Read]) -> Read:
    def union(data: bytes, at: int) -> tuple[Any, int]:
        index, at = binary.read_int(data, at)
        if index < 0:
            raise ValueError(f"there is no branch {index}")
        return branches[index](data, at)

    return union


def _sequence(parts: list[Read]) -> Read:
    def sequence(data: bytes, at: int) -> tuple[None, int]:
        for part in parts:
            _, at = part(data, at)
        return None, at

    return sequence


def _blocks(item: Read) -> Read:
    def blocks(data: bytes, at: int) -> tuple[None, int]:
        count, at = binary.read_long(data, at)
        while count:
            if count < 0:
                size, at = binary.read_long(data, at)
                if size < 0 or at + size > len(data):
                    raise ValueError("the record ends too early")
                at += size
            else:
                _check_count(count, data, at)
                for _ in range(count):
                    _, at = item(data, at)
            count, at = binary.read_long(data, at)
        return None, at

    return blocks


def _check_count(count: int, data: bytes, at: int) -> None:
    """Items may have no bytes; a malformed record can tell of any number of them."""
    if count > max(len(data) - at, _NO_BYTES_ITEMS_MAX):
        raise ValueError(f"an array has {count} items")


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
    return float if read == "double" else _itself


def _one_case(record: AvroType) -> None:
    names = [field.name.lower() for field in record.fields]
    if len(set(names)) < len(names):
        raise AvroSchemaError(f"two fields of {record.name} have the same name but for its case")


def _decimal(precision: int, scale: int) -> Convert:
    limit = 10**precision

    def convert(octets: bytes) -> Decimal:
        if not octets:
            raise ValueError("a number has no bytes")
        unscaled = int.from_bytes(octets, "big", signed=True)
        if precision <= _DIGITS_OF_LONG:
            unscaled = (unscaled + _LONG) % (2 * _LONG) - _LONG
        if not -limit < unscaled < limit:
            raise ValueError(f"a number has more than {precision} digits")
        return Decimal(unscaled).scaleb(-scale, EXACT)

    return convert


FIRST_MODERN_DAY: Final = -141_427
"""15 October 1582: earlier days have other numbers in the hybrid calendar."""
FIRST_MODERN_MICROS: Final = -2_208_988_800_000_000
"""1900: earlier times may be others, by local mean time."""


def _modern_day(day: int) -> int:
    if day < FIRST_MODERN_DAY:
        raise ValueError("a date before 1582-10-15")
    return day


def _micros(factor: int, ancient_fails: bool) -> Convert:
    def convert(number: int) -> int:
        micros = number * factor
        if not -_LONG <= micros < _LONG:
            raise ValueError("long overflow")
        if ancient_fails and micros < FIRST_MODERN_MICROS:
            raise ValueError("a timestamp before 1900")
        return micros

    return convert

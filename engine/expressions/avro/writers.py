"""Single values of columns as Avro's bytes, where not every value can be written.

Source: ``AvroSerializer`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.avro import binary
from engine.expressions.avro.conversions import FIRST_MODERN_DAY
from engine.expressions.avro.schemas import AvroType
from engine.expressions.decimals import EXACT
from engine.expressions.java_errors import java_error

_INCOMPATIBLE: Final = "org.apache.spark.sql.avro.IncompatibleSchemaException"


@dataclass(frozen=True)
class Path:
    """Where a value is: among the columns, and in the schema."""

    columns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    def to(self, column: str, field: str) -> Path:
        """Of a part of it."""
        return Path((*self.columns, column), (*self.fields, field))

    def failure(self, why: str) -> TransformError:
        """A value does not fit; Spark has no error class for it."""
        columns, fields = map(_place_text, (self.columns, self.fields))
        return java_error(
            _INCOMPATIBLE, f"Cannot convert SQL {columns} to Avro {fields} because {why}"
        )


def _place_text(path: tuple[str, ...]) -> str:
    return f"field '{'.'.join(path)}'" if path else "top-level record"


def write_symbol(schema: AvroType, path: Path) -> Callable[[str], bytes]:
    known = {symbol: binary.write_long(at) for at, symbol in enumerate(schema.symbols)}
    symbols = '"' + '", "'.join(known) + '"'

    def write(text: str) -> bytes:
        if text not in known:
            raise path.failure(
                f'"{text}" cannot be written since it\'s not defined in enum {symbols}'
            )
        return known[text]

    return write


def write_fixed(size: int, path: Path) -> Callable[[bytes], bytes]:
    def write(octets: bytes) -> bytes:
        if len(octets) != size:
            raise path.failure(
                f"{_bytes(len(octets))} of binary data cannot be written into FIXED type with size"
                f" of {_bytes(size)}"
            )
        return octets

    return write


def _bytes(count: int) -> str:
    return f"{count} {'bytes' if count > 1 else 'byte'}"


def write_decimal(schema: AvroType, scale: int) -> Callable[[Decimal], bytes]:
    def write(number: Decimal) -> bytes:
        unscaled = int(number.scaleb(scale, EXACT))
        if schema.kind == "fixed":
            return unscaled.to_bytes(schema.size, "big", signed=True)
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
        return binary.write_bytes(unscaled.to_bytes(-(-bits // 8), "big", signed=True))

    return write


def write_day(day: int) -> bytes:
    if day < FIRST_MODERN_DAY:
        raise ancient()
    return binary.write_long(day)


def ancient() -> TransformError:
    return failure(
        "INCONSISTENT_BEHAVIOR_CROSS_VERSION",
        "Dates before 1582-10-15 and timestamps before 1900 may be read as others by old versions.",
        "Set spark.sql.avro.datetimeRebaseModeInWrite to CORRECTED.",
    )
